"""The addresses of servers of local models."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.urls import shown_url

__all__ = ["local_url"]

_URL, _PORT = "CODEX_OSS_BASE_URL", "CODEX_OSS_PORT"


def local_url(default: str, env: Mapping[str, str]) -> str:
    """Return the base URL of a server of local models: ``CODEX_OSS_BASE_URL``, else localhost at ``CODEX_OSS_PORT``, else ``default``.

    Raises:
        ConfigError: The URL or the port is invalid.
    """
    if url := env.get(_URL, "").strip():
        _check(url)
        return url
    port = env.get(_PORT, "").strip()
    if not port:
        return default
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConfigError(
            f"{_PORT} is {port!r}, which is not a port",
            path=_PORT,
            slug="oss",
            hint="Set it to a number from 1 to 65535, or remove it.",
        )
    return f"http://localhost:{int(port)}/v1"


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is invalid
        usable = False
    if not usable or not url.isascii() or " " in url:
        raise ConfigError(
            f"{_URL} is {shown_url(url)!r}, which is not an http or https URL",
            path=_URL,
            slug="oss",
            hint="Write for example http://gpu-box:11434/v1, or remove it.",
        )
