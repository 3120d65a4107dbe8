"""The address of an app server: the value of ``exec --remote``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from codex_framework import CodexError, Value
from codex_framework.toolkit.local_clients import is_local_name
from codex_plugin_app_server.addresses import UnixAddress

__all__ = ["RemoteAddress", "parse_remote_address"]

_HINT = "The app server prints its address: codex-framework app-server --listen ws://127.0.0.1:0"


class RemoteAddress(Value):
    """The address of an app server.

    Attributes:
        url: ``ws://HOST:PORT`` or ``wss://HOST:PORT``. For a unix socket, the displayed text.
        path: The unix socket. None for TCP.
    """

    url: str
    path: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, and reached by TCP."""
        return self.path is None and is_local_name(urlsplit(self.url).netloc)

    @property
    def keeps_secrets(self) -> bool:
        """Whether no other user can read a token that is sent there by TCP."""
        return self.is_loopback or self.url.startswith("wss:")

    def __str__(self) -> str:
        return self.url


def parse_remote_address(text: str, home: Path) -> RemoteAddress:
    """Return the address of ``--remote``.

    Args:
        home: ``$CODEX_HOME``, where the default unix socket is.

    Raises:
        CodexError: The text is no address.
    """
    scheme, separator, rest = text.partition("://")
    if separator and scheme == "unix":
        path = UnixAddress(Path(rest).absolute() if rest else None).located(home)
        return RemoteAddress(f"unix://{path}", path)
    if separator and scheme in ("ws", "wss") and _is_host_and_port(text):
        return RemoteAddress(text.removesuffix("/"))
    expected = "`ws://host:port`, `wss://host:port`, `unix://`, or `unix://PATH`"
    raise CodexError(f"invalid remote address `{text}`; expected {expected}", slug="remote", hint=_HINT)


def _is_host_and_port(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    rest = (parts.path.removesuffix("/"), parts.query, parts.fragment, parts.username or "", parts.password or "")
    return bool(parts.hostname) and bool(port) and not any(rest)
