"""The check of one table ``[mcp_servers.<name>]``: its keys, their types, and which of them belong together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.suggestions import did_you_mean

__all__ = ["fields_of_table"]

_MODES = ("auto", "prompt", "writes", "approve")
_LOGINS = ("oauth", "chatgpt", "ema_auth")
_NAME = re.compile(r"[A-Za-z0-9_:@/.-]+")
_VARIABLE = re.compile(r"[^=\0]+")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST_S = 366 * 24 * 3600.0
_MODES_AS_PROFILES = {
    "read-only": ":read-only",
    "workspace-write": ":workspace",
    "danger-full-access": ":danger-full-access",
}
_PROFILES = (":read-only", ":workspace", ":workspace-no-secrets", ":danger-full-access")

_OAUTH = (
    "grant",
    "issuer",
    "client_id",
    "client_secret",
    "client_secret_env_var",
    "callback_url",
    "callback_port",
    "private_key",
    "private_key_env_var",
    "signing_algorithm",
    "identity_token",
    "identity_token_env_var",
    "identity_endpoint",
    "identity_client_id",
)

_OAUTH_WORDS = {
    "grant": ("authorization_code", "client_credentials", "identity_assertion"),
    "signing_algorithm": ("ES256", "RS256"),
}

_ONLY_STDIO = ("command", "args", "env", "env_vars", "cwd", "sandbox")
_ONLY_HTTP = (
    "url",
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "http_headers_helper",
    "auth",
    "oauth",
    "oauth_resource",
)
_COMMON = (
    "name",
    "enabled",
    "required",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "enabled_tools",
    "disabled_tools",
    "supports_parallel_tool_calls",
    "default_tools_approval_mode",
    "tools",
    "scopes",
    "environment_id",
)


_AS_TABLE = "Write it as a table: [mcp_servers.NAME]"
_TOKEN_HINT = "Put the token in an environment variable, and set bearer_token_env_var to the name of that variable."  # noqa: S105  # a sentence


def fields_of_table(name: str, table: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a server, without its name.

    Args:
        name: The server's key in ``[mcp_servers]``.
        table: Its table.
        config: The merged configuration.

    Raises:
        ConfigError: The table is wrong.
    """
    return _Reader(name, table, config).fields()


class _Reader:
    """The check of one table."""

    def __init__(self, name: str, table: Any, config: Mapping[str, Any]) -> None:
        self._name = name
        self._config = config
        if not isinstance(table, Mapping):
            raise self._wrong((), "is not a table", _AS_TABLE)
        self._table: Mapping[str, Any] = table

    def fields(self) -> dict[str, Any]:
        self._check_name()
        self._check_transport()
        self._check_keys()
        return {
            "display_name": self._text("name"),
            **(self._stdio() if "command" in self._table else self._http()),
            **self._switches(),
            **self._tool_rules(),
            "startup_timeout_sec": self._startup_timeout(),
            "tool_timeout_sec": self._seconds("tool_timeout_sec", 120.0),
            "scopes": self._texts("scopes"),
            "environment_id": self._environment(),
        }

    # Which keys there are

    def _check_name(self) -> None:
        if not _NAME.fullmatch(self._name):
            raise ConfigError(
                f"invalid MCP server name {self._name!r}: it must consist of letters, digits, and the characters - _ : @ / .",
                key="mcp_servers",
                slug="mcp-server",
                hint="Rename the table; the name becomes part of the tools' names.",
            )

    def _check_transport(self) -> None:
        if "bearer_token" in self._table:
            raise self._foreign("bearer_token", _TOKEN_HINT)
        if "command" not in self._table and "url" not in self._table:
            hint = "Set `command` if the server is a program, or `url` if it is reached over HTTP."
            raise self._wrong((), "has neither `command` nor `url`: invalid transport", hint)
        for key in _ONLY_HTTP if "command" in self._table else _ONLY_STDIO:
            if key in self._table:
                raise self._foreign(key, self._foreign_hint(key))

    def _foreign(self, key: str, hint: str) -> ConfigError:
        transport = "stdio" if "command" in self._table else "streamable_http"
        return self._wrong((key,), f"{key} is not supported for {transport}", hint, sentence=True)

    def _foreign_hint(self, key: str) -> str:
        if key == "url":
            return "Remove `command` or `url`. A server is either a program or reached over HTTP."
        if key in ("env", "env_vars"):
            return (
                "Remove it. Headers of a server that is reached over HTTP are set by http_headers and env_http_headers."
            )
        return f"Remove `{key}`."

    def _check_keys(self) -> None:
        self._check_known((), self._table, (*_ONLY_STDIO, *_ONLY_HTTP, *_COMMON))
        if "http_headers_helper" in self._table:
            hint = "Put the value in an environment variable, and name the variable in env_http_headers."
            raise self._wrong(("http_headers_helper",), "is not supported: no program is run for headers", hint)

    def _check_known(self, at: tuple[str, ...], table: Mapping[str, Any], known: Sequence[str]) -> None:
        framework = self._config.get("framework")
        if isinstance(framework, Mapping) and framework.get("unknown_keys") == "warn":
            return
        for key in table:
            if key not in known:
                raise self._wrong((*at, key), "is unknown", f"{did_you_mean(key, known)}Fix or remove it.")

    # The parts of a server

    def _stdio(self) -> dict[str, Any]:
        command = self._text("command") or ""
        if not command.strip():
            raise self._wrong(("command",), "is empty", "Set it to the program that starts the server.")
        return {
            "command": command,
            "args": self._texts("args") or (),
            "env": self._map("env", _VARIABLE, "the name of an environment variable"),
            "env_vars": tuple(self._variables()),
            "cwd": self._text("cwd"),
            "sandbox": self._sandbox(),
        }

    def _http(self) -> dict[str, Any]:
        return {
            "url": self._url(),
            "bearer_token_env_var": self._variable("bearer_token_env_var"),
            "http_headers": self._headers("http_headers"),
            "env_http_headers": self._headers("env_http_headers"),
            "disabled_reason": self._missing_login(),
            "oauth": self._oauth(),
            "oauth_resource": self._text("oauth_resource"),
        }

    def _switches(self) -> dict[str, bool]:
        names = {"enabled": True, "required": False, "supports_parallel_tool_calls": False}
        return {name: self._typed(name, bool, "true or false", default) for name, default in names.items()}

    def _tool_rules(self) -> dict[str, Any]:
        return {
            "enabled_tools": self._texts("enabled_tools"),
            "disabled_tools": self._texts("disabled_tools") or (),
            "default_tools_approval_mode": self._mode(("default_tools_approval_mode",), self._table) or "auto",
            "tools": self._tools(),
        }

    def _tools(self) -> dict[str, Mapping[str, Any]]:
        tools = self._typed("tools", Mapping, "a table", {})
        for tool, table in tools.items():
            if not isinstance(table, Mapping):
                raise self._wrong(
                    ("tools", tool), "is not a table", 'Write approval_mode = "..." in a table of this name.'
                )
            self._check_known(("tools", tool), table, ("approval_mode", "output_token_limit"))
            self._mode(("tools", tool, "approval_mode"), table)
            limit = table.get("output_token_limit", 1)
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                at = ("tools", tool, "output_token_limit")
                raise self._wrong(at, f"is {_describe_value(limit)}", "Write a whole number of more than 0.")
        return {tool: dict(table) for tool, table in tools.items()}

    def _mode(self, at: tuple[str, ...], table: Mapping[str, Any]) -> Any:
        mode = table.get(at[-1])
        if mode is not None and mode not in _MODES:
            raise self._wrong(at, f"is {_describe_value(mode)}", 'Write "auto", "prompt", "writes" or "approve".')
        return mode

    def _startup_timeout(self) -> float:
        if "startup_timeout_sec" in self._table:
            return self._seconds("startup_timeout_sec", 30.0)
        return self._seconds("startup_timeout_ms", 30_000.0) / 1000

    def _seconds(self, key: str, default: float) -> float:
        value = self._typed(key, (int, float), "a number", default)
        if not math.isfinite(value) or not 0 < value <= _LONGEST_S * 1000:
            raise self._wrong((key,), f"is {value}", "Write a number of more than 0.")
        return float(value)

    def _environment(self) -> str:
        where = self._text("environment_id") or "local"
        if where != "local":
            raise self._wrong(
                ("environment_id",), f"is {_describe_value(where)}", 'Servers run on this machine only: write "local".'
            )
        return where

    def _sandbox(self) -> str | None:
        name = self._text("sandbox")
        profiles = self._config.get("permissions")
        known = [*_MODES_AS_PROFILES, *_PROFILES, *(profiles if isinstance(profiles, Mapping) else ())]
        if name is not None and name not in known:
            hint = f"{did_you_mean(name, known)}Write one of: {', '.join(known)}"
            raise self._wrong(("sandbox",), f"is {_describe_value(name)}, which is no permission profile", hint)
        return None if name is None else _MODES_AS_PROFILES.get(name, name)

    def _url(self) -> str:
        from urllib.parse import urlsplit

        url = self._text("url") or ""
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid or re.search(r"[\s\x00-\x1f]", url):
            raise self._wrong(("url",), "is not a URL of a server", 'Write a whole URL: "https://HOST/PATH"')
        return url

    def _missing_login(self) -> str | None:
        """Return why a server cannot be used because of its login, or None."""
        login = self._text("auth")
        if login is not None and login not in _LOGINS:
            raise self._wrong(("auth",), f"is {_describe_value(login)}", f"Write one of: {', '.join(_LOGINS)}")
        return None if login in (None, "oauth") else f'logins with auth = "{login}" are not supported'

    def _oauth(self) -> dict[str, Any]:
        table = self._typed("oauth", Mapping, "a table", {})
        self._check_known(("oauth",), table, _OAUTH)
        for key, value in table.items():
            kind, word = (int, "an integer") if key == "callback_port" else (str, "a string")
            if not isinstance(value, kind) or isinstance(value, bool):
                raise self._wrong(("oauth", key), f"is not {word}", f"Write {word}.")
            if (allowed := _OAUTH_WORDS.get(key)) is not None and value not in allowed:
                raise self._wrong(("oauth", key), f"is {_describe_value(value)}", f"Write one of: {', '.join(allowed)}")
        return dict(table)

    def _headers(self, key: str) -> dict[str, str]:
        headers = self._map(key, _HEADER, "the name of a header")
        for name, value in headers.items():
            if not re.fullmatch(r"[^\x00-\x08\x0a-\x1f\x7f]*", value):
                raise self._wrong((key, name), "contains a control character", "Write a value of one line.")
        return headers

    def _variables(self) -> Iterator[str]:
        for entry in self._typed("env_vars", (list, tuple), "a list", ()):
            table = {"name": entry} if isinstance(entry, str) else entry
            if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
                raise self._wrong(("env_vars",), "has an entry without a name", 'Write "NAME" or { name = "NAME" }.')
            name, source = table["name"], table.get("source", "local")
            if source not in ("local", "remote"):
                fact = f"unsupported env_vars source `{source}`; expected `local` or `remote`"
                raise self._wrong(("env_vars",), fact, 'Write source = "local", or leave it out.', sentence=True)
            if source == "remote":
                fact = f"env_vars entry `{name}` cannot use source `remote` in a local environment"
                raise self._wrong(("env_vars",), fact, 'Write source = "local", or leave it out.', sentence=True)
            if not _VARIABLE.fullmatch(name):
                raise self._wrong(
                    ("env_vars",), f"contains {name!r}, which is no name of a variable", "Fix or remove it."
                )
            yield name

    # Values

    def _typed(self, key: str, kind: Any, word: str, default: Any) -> Any:
        value = self._table.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._wrong((key,), f"is not {word}", f"Write {word}.")
        return value

    def _text(self, key: str) -> str | None:
        text = self._typed(key, str, "a string", None)
        self._check_text((key,), text)
        return cast("str | None", text)

    def _variable(self, key: str) -> str | None:
        name = self._text(key)
        if name is not None and not _VARIABLE.fullmatch(name):
            raise self._wrong((key,), "is not the name of an environment variable", "Write the variable's name.")
        return name

    def _texts(self, key: str) -> tuple[str, ...] | None:
        texts = self._typed(key, (list, tuple), "a list of strings", None)
        if texts is None:
            return None
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise self._wrong((key, str(index)), "is not a string", "Write a list of strings.")
            self._check_text((key, str(index)), text)
        return tuple(texts)

    def _map(self, key: str, allowed: re.Pattern[str], word: str) -> dict[str, str]:
        table = self._typed(key, Mapping, "a table of strings", {})
        for name, text in table.items():
            if not allowed.fullmatch(name):
                raise self._wrong((key,), f"contains {name!r}, which is not {word}", "Fix or remove it.")
            if not isinstance(text, str):
                raise self._wrong((key, name), "is not a string", "Put it in quotes.")
            self._check_text((key, name), text)
        return dict(table)

    def _check_text(self, at: tuple[str, ...], text: str | None) -> None:
        if text is not None and "\0" in text:
            raise self._wrong(at, "contains a NUL character", "Remove it.")

    def _wrong(self, at: tuple[str, ...], fact: str, hint: str, *, sentence: bool = False) -> ConfigError:
        whole = ".".join(map(_quote_name, ("mcp_servers", str(self._name), *at)))
        subject = f"`{whole}`" if at else f"the MCP server {self._name!r}"
        text = f"the MCP server {self._name!r}: {fact}" if sentence else f"{subject} {fact}"
        return ConfigError(text, key=whole, slug="mcp-server", hint=hint)


def _quote_name(name: str) -> str:
    import json

    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _describe_value(value: Any) -> str:
    return repr(value) if isinstance(value, str) and len(value) <= 80 else "something else"
