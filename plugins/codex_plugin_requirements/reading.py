"""The administrator's file, read and checked. Unreadable or unenforceable parts are errors: no part is ever skipped."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from codex_framework import ConfigError, Value
from codex_framework.contract.permissions.globs import alternatives, has_wildcards, static_prefix
from codex_framework.contract.value import field
from codex_framework.toolkit.regular_files import read_regular

__all__ = ["Requirements", "read_requirements"]

_MOST_BYTES = 1_000_000
"""Maximum size of the file, in bytes."""

_APPROVALS = {"untrusted": "untrusted", "on-failure": "on-request", "on-request": "on-request", "never": "never"}
_SANDBOXES = {word: word for word in ("read-only", "workspace-write", "danger-full-access", "external-sandbox")}
_REVIEWERS = {"user": "user", "auto_review": "auto_review", "guardian_subagent": "auto_review"}
_SEARCHES = {word: word for word in ("disabled", "cached", "live")}
_LOGINS = {word: word for word in ("api", "chatgpt")}

_UNENFORCEABLE = frozenset(
    {
        *("allowed_permission_profiles", "default_permissions", "experimental_network", "hooks", "enforce_residency"),
        *("models", "model_provider", "model_providers", "auto_review", "config_server", "otel"),
    }
)
"""Keys of Codex 0.169 for existing features, with restrictions that do not exist here."""

_OF_OTHERS = frozenset(
    {
        *("allow_appshots", "allow_browser_and_computer_use", "allow_remote_control", "application", "apps"),
        *("browser_use", "computer_use", "in_app_browser", "marketplaces", "plugins", "sqlite_home", "windows"),
        "unsafe_enforce_sqlite_journal_mode",
        "rules",  # of the plugin execpolicy
    }
)
"""Keys of Codex 0.169 for programs and features that do not exist here, so that there is nothing to restrict."""


class Requirements(Value, kw_only=True):
    """The administrator's requirements. None if a key is not in the file.

    Attributes:
        path: The file.
        approvals: The allowed approval policies, the preferred one first. So are the next three.
        searches: ``disabled`` is always among them.
        features: Features with the value that they must have.
        mcp_servers: The allowed servers by name: ``command`` or ``url``, and its value.
        denied: Paths and patterns that nothing may read.
        logins: The allowed methods of login.
        workspaces: The allowed ChatGPT workspaces.
        managed_hooks_only: Whether hooks of users and projects must not run.
        has_rules: Whether there are rules for commands, which the plugin ``execpolicy`` enforces.
        instructions: Further instructions of the developer.
        policy: The policy of the reviewing model, instead of the user's.
        more_policy: Rules to add to it.
        others: Keys for programs and features that do not exist here, unchanged.
        unknown: Unknown keys.
    """

    path: str
    approvals: tuple[str, ...] | None = None
    sandboxes: tuple[str, ...] | None = None
    reviewers: tuple[str, ...] | None = None
    searches: tuple[str, ...] | None = None
    features: Mapping[str, bool] = field(factory=dict)
    mcp_servers: Mapping[str, tuple[str, str]] | None = None
    denied: tuple[str, ...] = ()
    logins: tuple[str, ...] | None = None
    workspaces: tuple[str, ...] | None = None
    managed_hooks_only: bool = False
    has_rules: bool = False
    instructions: str = ""
    policy: str = ""
    more_policy: str = ""
    others: Mapping[str, Any] = field(factory=dict)
    unknown: tuple[str, ...] = ()


def read_requirements(path: str) -> Requirements:
    """Read the file.

    Raises:
        ConfigError: It cannot be read, is not TOML, has a wrong value, or requires something that cannot be enforced.
    """
    return _Reader(path, _table_of(path)).requirements()


def _table_of(path: str) -> Mapping[str, Any]:
    import tomllib

    try:
        found = os.stat(path)  # noqa: PTH116  # follows links, and says why it cannot
        if not stat.S_ISREG(found.st_mode):
            raise _error(path, "it is not a file", "Replace it with a file.")
        if found.st_size > _MOST_BYTES:
            raise _error(path, f"it has {found.st_size} bytes", "Make it smaller than 1 MB.")
        return tomllib.loads(read_regular(path, _MOST_BYTES).decode("utf-8-sig"))  # it may have been exchanged since
    except OSError as error:
        raise _error(path, f"it cannot be read: {error.strerror or error}", "Make it readable.") from error
    except UnicodeDecodeError as error:
        raise _error(path, "it is not UTF-8", "Save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _error(path, f"it is not TOML: {error}", "Fix the file.") from error


def _error(path: str, fact: str, hint: str, key: str | None = None) -> ConfigError:
    whole = f"the administrator's requirements {path}: {fact}"
    return ConfigError(
        whole, path=path, key=key, slug="requirements", hint=f"{hint} Ask the administrator of this machine."
    )


class _Reader:
    """Reads the keys of the file."""

    def __init__(self, path: str, table: Mapping[str, Any]) -> None:
        self._path = path
        self._table = table
        self._read: set[str] = set()

    def requirements(self) -> Requirements:
        """Return all of them."""
        self._refuse_others()
        found = Requirements(
            path=self._path,
            approvals=self._choices("allowed_approval_policies", _APPROVALS),
            sandboxes=self._sandboxes(),
            reviewers=self._choices("allowed_approvals_reviewers", _REVIEWERS),
            searches=self._choices("allowed_web_search_modes", _SEARCHES, may_be_empty=True),
            features=self._features(),
            mcp_servers=self._mcp_servers(),
            denied=self._denied(),
            logins=self._choices("allowed_login_methods", _LOGINS),
            workspaces=self._texts("allowed_chatgpt_workspaces"),
            managed_hooks_only=self._typed("allow_managed_hooks_only", bool, "true or false", default=False),
            has_rules="rules" in self._table,
            instructions=self._typed("additional_developer_instructions", str, "a string", default="").strip(),
            policy=self._typed("guardian_policy_config", str, "a string", default="").strip(),
            more_policy=self._typed("guardian_extra_policy", str, "a string", default="").strip(),
            others={key: value for key, value in self._table.items() if key in _OF_OTHERS},
        )
        return found.evolve(unknown=tuple(sorted(set(self._table) - self._read - _OF_OTHERS)))

    def _refuse_others(self) -> None:
        for key in sorted(_UNENFORCEABLE & set(self._table)):
            hint = "Remove the key, or do not use this program on this machine."
            raise self._wrong(key, "requires something that this program cannot enforce", hint)

    def _sandboxes(self) -> tuple[str, ...] | None:
        allowed = self._choices("allowed_sandbox_modes", _SANDBOXES)
        for number, entry in enumerate(self._list("remote_sandbox_config") or ()):
            place = f"remote_sandbox_config[{number}]"
            if not isinstance(entry, Mapping) or set(entry) != {"hostname_patterns", "allowed_sandbox_modes"}:
                raise self._wrong(place, "is no table of hostname_patterns and allowed_sandbox_modes")
            patterns = self._words(f"{place}.hostname_patterns", entry["hostname_patterns"])
            modes = self._chosen(f"{place}.allowed_sandbox_modes", entry["allowed_sandbox_modes"], _SANDBOXES)
            if any(fnmatch(socket.gethostname().lower(), pattern.lower()) for pattern in patterns):
                allowed = modes
                break
        if allowed is not None and "read-only" not in allowed:
            raise self._wrong("allowed_sandbox_modes", "does not contain `read-only`, which is always permitted")
        return allowed

    def _features(self) -> Mapping[str, bool]:
        found = self._tables("features")
        for name, value in found.items():
            if type(value) is not bool:
                raise self._wrong(f"features.{name}", f"is {value!r}, not true or false")
        return found

    def _mcp_servers(self) -> Mapping[str, tuple[str, str]] | None:
        if "mcp_servers" not in self._table:
            return None
        found: dict[str, tuple[str, str]] = {}
        for name, entry in self._tables("mcp_servers").items():
            match entry:
                case {"identity": {"command": str(value), **others}, **more} if not others and not more:
                    found[name] = "command", value
                case {"identity": {"url": str(value), **others}, **more} if not others and not more:
                    found[name] = "url", value
                case _:
                    hint = 'Write identity = { command = "PROGRAM" } or identity = { url = "URL" }.'
                    raise self._wrong(f"mcp_servers.{name}", "has no identity that can be compared", hint)
        return found

    def _denied(self) -> tuple[str, ...]:
        table = self._tables("permissions")
        files = table.get("filesystem", {})
        if set(table) - {"filesystem"} or not isinstance(files, Mapping) or set(files) - {"deny_read"}:
            hint = "Keep permissions.filesystem.deny_read only."
            raise self._wrong("permissions", "requires something that this program cannot enforce", hint)
        paths = self._words("permissions.filesystem.deny_read", files.get("deny_read", []))
        for path in paths:
            self._check_path("permissions.filesystem.deny_read", path)
        return paths

    def _check_path(self, key: str, path: str) -> None:
        if not path.startswith(("/", "~/")):
            raise self._wrong(key, f"has the relative path {path!r}", "Begin it with / or ~/.")
        if not has_wildcards(path):
            if "{" in path:
                raise self._wrong(key, f"has braces in {path!r}, which is no pattern", "Name each path.")
            return
        try:
            alternatives(path)
        except ValueError as error:
            raise self._wrong(key, f"has the pattern {path!r}: {error}") from error
        if static_prefix(path) == "/":
            hint = "Begin it with a folder: the whole disk cannot be searched."
            raise self._wrong(key, f"has the pattern {path!r}, which begins at the root", hint)

    def _choices(self, key: str, words: Mapping[str, str], *, may_be_empty: bool = False) -> tuple[str, ...] | None:
        given = self._list(key)
        return None if given is None else self._chosen(key, given, words, may_be_empty=may_be_empty)

    def _chosen(self, key: str, given: Any, words: Mapping[str, str], *, may_be_empty: bool = False) -> tuple[str, ...]:
        chosen = self._words(key, given)
        for word in chosen:
            if word not in words:
                raise self._wrong(key, f"contains {word!r}", f"Write some of: {', '.join(words)}.")
        if not chosen and not may_be_empty:
            raise self._wrong(key, "is empty, so that nothing would be allowed")
        return tuple(dict.fromkeys(words[word] for word in chosen))

    def _texts(self, key: str) -> tuple[str, ...] | None:
        given = self._list(key)
        found = None if given is None else self._words(key, given)
        if found is not None and not found:
            raise self._wrong(key, "is empty, so that nothing would be allowed")
        return found

    def _words(self, key: str, given: Any) -> tuple[str, ...]:
        if not isinstance(given, list) or not all(isinstance(word, str) and word for word in given):
            raise self._wrong(key, "is not a list of strings")
        return tuple(given)

    def _list(self, key: str) -> Sequence[Any] | None:
        found: Sequence[Any] | None = self._typed(key, list, "a list", default=None)
        return found

    def _tables(self, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._typed(key, dict, "a table", default={})
        return found

    def _typed(self, key: str, kind: type[Any], noun: str, *, default: Any) -> Any:
        self._read.add(key)
        value = self._table.get(key, default)
        if value is not default and not isinstance(value, kind):
            raise self._wrong(key, f"is not {noun}")
        return value

    def _wrong(self, key: str, fact: str, hint: str = "Fix the file.") -> ConfigError:
        return _error(self._path, f"`{key}` {fact}", hint, key)
