"""Request headers, for all requests of a client and for a single request."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ModelRequest, ProviderInfo
from codex_framework.contract.version import __version__

if TYPE_CHECKING:
    from codex_lib_model_client.token_source import TokenSource

__all__ = ["authorization", "client_headers", "common_headers", "request_headers", "url_login", "with_token"]

_DEFAULT_ORIGINATOR = "codex_exec"
_ORIGINATOR_VARIABLE = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"
_OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))


def common_headers(info: ProviderInfo, env: Mapping[str, str], key: str | None) -> dict[str, str]:
    """Return the headers common to all requests of a client.

    Names are in lower case. Headers in the provider's table override the default ones.

    Raises:
        ModelError: A header contains characters that HTTP does not allow.
    """
    headers = {
        "accept": "text/event-stream",
        "accept-encoding": "zstd,gzip",
        "content-type": "application/json",
    }
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    elif login := url_login(info.base_url or ""):
        headers["authorization"] = login
    if info.id == "openai":
        for name, variable in (("openai-organization", "OPENAI_ORGANIZATION"), ("openai-project", "OPENAI_PROJECT")):
            if value := env.get(variable, "").strip():
                headers[name] = value
    headers.update({name.lower(): str(value) for name, value in info.http_headers.items()})
    for name, variable in info.env_http_headers.items():
        if value := env.get(variable, "").strip():
            headers[name.lower()] = value
    for name in ("content-length", "transfer-encoding"):  # which say how the body is sent
        headers.pop(name, None)
    _check(headers, info, f"Remove line breaks and non-ASCII characters from [model_providers.{info.id}] and its key.")
    return headers


def url_login(url: str) -> str | None:
    """Return the value of ``authorization`` for a URL with a user name or password, or None for other URLs."""
    if "@" not in url:
        return None
    parts = urlsplit(url)
    if not parts.username and not parts.password:
        return None
    from base64 import b64encode

    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def authorization(source: TokenSource, token: str) -> str:
    """Return the value of the header ``authorization`` for a token."""
    return f"{getattr(source, 'scheme', 'Bearer')} {token}"


def with_token(headers: Mapping[str, str], source: TokenSource, token: str, info: ProviderInfo) -> dict[str, str]:
    """Return the headers of a request with a token, and with the headers that belong to it.

    Raises:
        ModelError: They contain characters that HTTP does not allow and that could inject headers.
    """
    own = {**source.headers, "authorization": authorization(source, token)}
    _check(own, info, "Log in again, or fix the program that prints the token.")
    return {**headers, **own}


def _check(headers: Mapping[str, str], info: ProviderInfo, hint: str) -> None:
    for name, value in headers.items():
        if not _sendable(name, value):
            fact = f"the header {name!r} of the provider {info.id!r} has characters that HTTP does not allow"
            raise ModelError(fact, slug="header", hint=hint)


def request_headers(request: ModelRequest, env: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that differ between requests."""
    headers = {
        **client_headers(request.metadata, env),
        "session-id": request.cache_key,
        "thread-id": request.thread_id,
        "x-client-request-id": request.thread_id,
    }
    own = {name: value for name, value in request.metadata.items() if name.startswith("x-codex-")}
    return headers | {name: value for name, value in own.items() if _sendable(name, value)}


def client_headers(metadata: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that name the program: ``originator`` and ``user-agent``.

    Args:
        metadata: The metadata of a request. Its ``originator`` and ``terminal`` are used if the environment does not set them.
    """
    originator = env.get(_ORIGINATOR_VARIABLE) or metadata.get("originator") or _DEFAULT_ORIGINATOR
    if not _sendable("originator", originator):
        originator = _DEFAULT_ORIGINATOR
    return {
        "originator": originator,
        "user-agent": f"{originator}/{__version__} {_system()} {_terminal(metadata, env)}",
    }


def _sendable(name: str, value: str) -> bool:
    return name.isascii() and name.isprintable() and " " not in name and value.isascii() and value.isprintable()


def _terminal(metadata: Mapping[str, str], env: Mapping[str, str]) -> str:
    name = metadata.get("terminal") or env.get("TERM_PROGRAM") or env.get("TERM") or "unknown"
    version = env.get("TERM_PROGRAM_VERSION") if env.get("TERM_PROGRAM") == name else None
    return _in_safe_characters(f"{name}/{version}" if version else name)


@cache
def _in_safe_characters(text: str) -> str:
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_./") else "_" for char in text)


@cache
def _system() -> str:
    """Return the description of the system for the user agent, for example ``(Debian 12; x86_64)``."""
    if sys.platform.startswith("linux"):
        uname = os.uname()
        release = _os_release() or {"NAME": uname.sysname, "VERSION_ID": uname.release}
        name = release.get("NAME", "Linux").split(" ")[0]
        version, machine = release.get("VERSION_ID", uname.release), uname.machine
    else:
        import platform

        name, version = platform.system() or "unknown", platform.release()
        if sys.platform == "darwin":
            name, version = "Mac OS", platform.mac_ver()[0]
        machine = os.uname().machine if hasattr(os, "uname") else platform.machine()
    text = f"({name} {version}; {machine})"
    return text if text.isascii() else "(unknown)"


def _os_release() -> dict[str, str]:
    """Return the same as ``platform.freedesktop_os_release``, without the 1 ms for importing ``platform``.

    The result is empty if no os-release file can be read.
    """
    for path in _OS_RELEASE:
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
        return {name: _unquote(value.strip()) for name, _, value in pairs}
    return {}


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]:
        value = value[1:-1]
    for escaped in "$\"'`\\":
        value = value.replace(f"\\{escaped}", escaped)
    return value
