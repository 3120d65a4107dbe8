"""Reads ``$CODEX_HOME/environments.toml`` and ``CODEX_EXEC_SERVER_URL``, as Codex does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codex_framework import ConfigError
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.contract.urls import shown_url, without_queries
from codex_framework.contract.value import Value
from codex_framework.toolkit.hidden_texts import forms_of, without
from codex_framework.toolkit.regular_files import read_regular

__all__ = ["Configuration", "Place", "configured"]

_MOST_BYTES = 1_000_000
"""Maximum size of the file."""

_NONE = "none"
_URL = "CODEX_EXEC_SERVER_URL"
_REMOTE = "remote"
"""The id of the environment of ``CODEX_EXEC_SERVER_URL``."""

_TOP = ("default", "include_local", "environments")
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "skills": object,  # Codex finds skills there; this program does not
    "url": str,
    "auth_bearer_token": str,
    "program": str,
    "args": list,
    "env": dict,
    "cwd": str,
    "connect_timeout_sec": (int, float),
    "initialize_timeout_sec": (int, float),
}
_TIMEOUT_S = 10.0
_SECRET = re.compile(r"key|token|secret|passw|credential|auth|cookie", re.IGNORECASE)
"""Names of variables whose values are secrets."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")


class Place(Value, kw_only=True):
    """An exec-server and the way to it: a WebSocket, or the standard streams of a program.

    Attributes:
        url: Its address. Empty for a program.
        token: The bearer token for the address.
        program, args, env, cwd: The program, and its variables in addition to the environment of this process.
        connect_timeout_s, initialize_timeout_s: Time limits in seconds.
    """

    id: str
    url: str = ""
    token: str = ""
    program: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    connect_timeout_s: float = _TIMEOUT_S
    initialize_timeout_s: float = _TIMEOUT_S

    def shown(self, text: str) -> str:
        """Return a text of the server or about it without the secrets of this entry, and with nothing that cannot be encoded."""
        return without_queries(without(text, self._secrets)).encode("utf-8", "replace").decode("utf-8")

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        named = (value for name, value in self.env.items() if _SECRET.search(name))
        return forms_of(filter(None, (self.token, *named)))


class Configuration(Value, kw_only=True):
    """The user's configuration of environments.

    Attributes:
        default: The ids of the environments that threads use if nothing is selected, the primary one first.
        has_local: Whether this machine can be selected, too.
    """

    places: tuple[Place, ...] = ()
    default: tuple[str, ...] = ()
    has_local: bool = True


def configured(path: Path, environ: Mapping[str, str]) -> Configuration:
    """Return the configuration from the file, or without a file, from the variable.

    Raises:
        ConfigError: It is invalid.
    """
    try:
        table = tomllib.loads(read_regular(path, _MOST_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        return _of_url(environ.get(_URL, ""))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", slug="config", hint="Fix or remove the file.") from error
    try:
        return _of_table(table)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}", slug="config", hint="Fix or remove the file.") from error


def _of_url(url: str) -> Configuration:
    if url == _NONE:
        return Configuration(has_local=False)
    try:
        _check_url(url, "")
    except ValueError as error:
        hint = "Set it to the address of an exec-server, or to `none`, or unset it."
        raise ConfigError(f"{_URL}: {error}", slug="config", hint=hint) from error
    return Configuration(places=(Place(id=_REMOTE, url=url),), default=(_REMOTE,), has_local=False)


def _of_table(table: Mapping[str, Any]) -> Configuration:
    _check_keys(table, _TOP, "")
    has_local = _typed_value(table, "include_local", bool, default=True)
    entries = _typed_value(table, "environments", list, default=[])
    places = tuple(_place(entry, number) for number, entry in enumerate(entries, 1))
    ids = [*([LOCAL_ENVIRONMENT] if has_local else []), *(place.id for place in places)]
    for name in ids:
        if ids.count(name) > 1:
            raise ValueError(f"environment id `{name}` is duplicated")
    return Configuration(places=places, default=_default(table, ids, has_local=has_local), has_local=has_local)


def _default(table: Mapping[str, Any], ids: Sequence[str], *, has_local: bool) -> tuple[str, ...]:
    wanted = _typed_value(table, "default", str, default=LOCAL_ENVIRONMENT if has_local else _NONE)
    if wanted == _NONE:
        return ()
    if wanted not in ids:
        raise ValueError(f"default environment `{wanted}` is not configured")
    return (wanted, *(name for name in ids if name != wanted))


def _place(entry: object, number: int) -> Place:
    if not isinstance(entry, Mapping):
        raise ValueError(f"environment {number} is not a table")
    name = _typed_value(entry, "id", str, default="")
    _check_keys(entry, tuple(_KEYS), f" in environment `{name}`" if name else f" in environment {number}")
    for key, kind in _KEYS.items():
        _typed_value(entry, key, kind, default=None)
    _check_id(name, number)
    given = [key for key in ("url", "program") if key in entry]
    if len(given) != 1:
        raise ValueError(f"environment `{name}` must set exactly one of url or program")
    timeouts: dict[str, Any] = {
        f"{key}_timeout_s": _seconds(entry, f"{key}_timeout_sec", name) for key in ("connect", "initialize")
    }
    if given == ["url"]:
        _check_alone(entry, ("args", "env", "cwd"), f"environment `{name}` args, env, and cwd require program")
        token = entry.get("auth_bearer_token", "")
        _check_url(entry["url"], token)
        return Place(id=name, url=entry["url"], token=token, **timeouts)
    _check_alone(entry, ("auth_bearer_token",), f"environment `{name}` auth_bearer_token requires url")
    if not entry["program"].strip():
        raise ValueError(f"environment `{name}` program cannot be empty")
    args, env = entry.get("args", []), entry.get("env", {})
    if not all(isinstance(text, str) for text in (*args, *env.values())):
        raise ValueError(f"environment `{name}` args and env must contain only texts")
    return Place(id=name, program=entry["program"], args=tuple(args), env=env, cwd=entry.get("cwd"), **timeouts)


def _check_id(name: str, number: int) -> None:
    if not name:
        raise ValueError(f"environment {number} has no id")
    if name in (LOCAL_ENVIRONMENT, _NONE):
        raise ValueError(f"environment id `{name}` is reserved")
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"environment id `{name}` must contain only ASCII letters, numbers, '-' or '_'")


def _check_alone(entry: Mapping[str, Any], keys: Sequence[str], text: str) -> None:
    if any(key in entry for key in keys):
        raise ValueError(text)


def _check_url(url: str, token: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"environment url `{shown_url(url)}` is invalid") from error
    if parts.scheme not in ("ws", "wss"):
        raise ValueError(f"environment url `{shown_url(url)}` must use ws:// or wss://")
    if not host:
        raise ValueError(f"environment url `{shown_url(url)}` has no host")
    if token and (parts.username or parts.password):
        raise ValueError(f"environment url `{shown_url(url)}` has a login, and there is a token as well")
    if (token or parts.password) and parts.scheme != "wss" and not _is_loopback(host):
        raise ValueError(
            f"environment url `{shown_url(url)}` must use wss:// or a loopback address, because of its secret"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _seconds(entry: Mapping[str, Any], key: str, name: str) -> float:
    value = entry.get(key, _TIMEOUT_S)
    if not 0 < value <= 3600:  # an hour
        raise ValueError(f"environment `{name}` {key} must be more than 0 and at most 3600")
    return float(value)


def _check_keys(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    unknown = next(_others(table, keys), None)
    if unknown is not None:
        raise ValueError(f"unknown field `{unknown}`{where}, expected one of {', '.join(keys)}")


def _others(table: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    return (key for key in table if key not in keys)


def _typed_value(table: Mapping[str, Any], key: str, kind: Any, *, default: Any) -> Any:
    value = table.get(key, default)
    is_wrong = key in table and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool))
    if is_wrong and kind is not object:
        raise ValueError(f"`{key}` has a wrong type: {type(value).__name__}")
    return value
