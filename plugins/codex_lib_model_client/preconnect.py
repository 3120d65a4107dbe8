"""A TLS connection that is opened on a separate thread while a program prepares its first request.

The event loop is not running yet, or is busy, so the connection is opened with blocking calls, and handed to the loop with its
handshake done. Failures are ignored; the first request connects again and reports them.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from codex_lib_model_client.https import in_openssl, preload, tls_context
from codex_lib_model_client.known_roots import KnownRoots, keep_roots, verified_chain
from codex_lib_model_client.secure_socket import SecureSocket

__all__ = ["EarlyConnection", "close_unused", "open_early", "take_connection"]

_STAGGER_S = 0.25
"""Seconds after which the next address of a host is tried beside the last one (RFC 8305, section 5)."""
_OPEN_S = 10.0
"""Time limit in seconds for each step of opening the connection."""
_opened: list[EarlyConnection] = []


class EarlyConnection:
    """A connection that is being opened.

    Args:
        host: The server.
        port: Its port.
        roots: The certificates that verified servers before.
        environ: The environment variables that name the certificates.
    """

    def __init__(self, host: str, port: int, roots: KnownRoots, environ: Mapping[str, str]) -> None:
        self.server = f"{host}:{port}"
        self.environ = environ
        self._host, self._port, self._roots = host, port, roots
        self._outcome: SecureSocket | None = None
        self._is_done = self._is_closed = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._open, name="connection", daemon=True).start()

    def get_if_ready(self) -> SecureSocket | None:
        """Return the connection if it is open and usable."""
        with self._lock:
            outcome = self._outcome
        return outcome if outcome is not None and outcome.usable else None

    async def wait(self) -> SecureSocket | None:
        """Wait until the connection is open, and return it, or None if it could not be opened or is no longer usable."""
        with self._lock:
            done = None if self._is_done else asyncio.Event()
            if done is not None:
                self._waiting.append((asyncio.get_running_loop(), done))
        if done is not None:
            await done.wait()
        return self.get_if_ready()

    def close(self) -> None:
        """Close the connection, or do so when it is open."""
        with self._lock:
            self._is_closed = True
            outcome = self._outcome
        if outcome is not None:
            outcome.close()

    def _open(self) -> None:
        outcome: SecureSocket | None = None
        with contextlib.suppress(Exception):  # who needs the connection opens one, and reports what fails
            with in_openssl():
                known = self._roots.context(self.server, self.environ)
            outcome = self._secure(known)
        with self._lock:
            self._is_done = True
            if self._is_closed and outcome is not None:
                outcome.close()
            else:
                self._outcome = outcome
        for loop, done in self._waiting:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any longer
                loop.call_soon_threadsafe(done.set)

    def _secure(self, known: ssl.SSLContext | None) -> SecureSocket:
        if known is not None:
            with contextlib.suppress(ssl.SSLCertVerificationError):
                return self._handshake(known)
        secure = self._handshake(None)
        secure.failed = known is not None
        return secure

    def _handshake(self, known: ssl.SSLContext | None) -> SecureSocket:
        """Return a new connection whose handshake is done, with the whole trust store if no certificates are known."""
        connected = _connect(self._host, self._port)
        try:
            connected.settimeout(_OPEN_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secure = SecureSocket(connected, tls_context(self.environ) if known is None else known, self._host)
        except BaseException:
            connected.close()
            raise
        if known is None:
            with in_openssl():
                secure.chain = verified_chain(secure.tls)
        return secure


def open_early(file: Path, provider: str, base_url: str | None, environ: Mapping[str, str]) -> None:
    """Open a connection on another thread for the first request, which follows soon, and load its prerequisites."""
    roots = keep_roots(file)
    known = roots.server(provider) if base_url is None else None
    place = _place(base_url if known is None else f"https://{known}")
    if place is None or _is_proxied(*place, environ):
        preload(environ)
    else:
        close_unused()
        _opened.append(EarlyConnection(*place, roots, dict(environ)))


def close_unused() -> None:
    """Close the connection if it is still unclaimed: the first request used another server, or no request was made."""
    while _opened:
        _opened.pop().close()


def take_connection(host: str, port: int, environ: Mapping[str, str]) -> EarlyConnection | None:
    """Return the connection that is being opened to a server. It is given to the first who asks, if certificates are the same."""
    for early in _opened:
        if early.server == f"{host}:{port}" and _trust(early.environ) == _trust(environ):
            _opened.remove(early)
            return early
    return None


def _trust(environ: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(environ.get(name) for name in ("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "SSL_CERT_DIR"))


def _place(url: str | None) -> tuple[str, int] | None:
    """Return host and port of a URL with TLS, or None for any other text."""
    try:
        parts = urlsplit(url or "")
        return (parts.hostname, parts.port or 443) if parts.scheme == "https" and parts.hostname else None
    except ValueError:
        return None


def _is_proxied(host: str, port: int, environ: Mapping[str, str]) -> bool:
    from codex_framework.contract.errors import ModelError
    from codex_lib_model_client.proxies import proxy_for

    try:
        return proxy_for(f"https://{f'[{host}]' if ':' in host else host}:{port}", environ) is not None
    except ModelError:
        return True


def _connect(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to one of the addresses of a host. Each gets a moment before the next one is tried beside it.

    Raises:
        OSError: No address can be reached.
    """
    name = host.encode() if host.isascii() else host  # a str makes Python import another encoding
    addresses = _alternate_families(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    end = time.monotonic() + _OPEN_S
    with selectors.DefaultSelector() as selector:
        try:
            while addresses or selector.get_map():
                if addresses:
                    _try(selector, addresses.pop(0))
                for tried in _pop_connected(selector, min(_STAGGER_S, end - time.monotonic())):
                    if not tried.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        return tried
                    tried.close()
            raise OSError("no address of the host can be reached")
        finally:
            for key in list(selector.get_map().values()):
                cast("socket.socket", key.fileobj).close()


def _pop_connected(selector: selectors.BaseSelector, within_s: float) -> list[socket.socket]:
    """Return the sockets whose attempt to connect is over, which the selector then forgets.

    Raises:
        TimeoutError: No time is left.
    """
    if within_s <= 0:
        raise TimeoutError
    ended = [cast("socket.socket", key.fileobj) for key, _ in (selector.select(within_s) if selector.get_map() else ())]
    for tried in ended:
        selector.unregister(tried)
    return ended


def _try(selector: selectors.BaseSelector, address: tuple[Any, ...]) -> None:
    """Begin to connect to an address, and let the selector tell when that is over, unless it is over already."""
    family, kind, protocol, _, place = address
    tried = socket.socket(family, kind, protocol)
    try:
        tried.settimeout(0)
        tried.connect(place)
    except BlockingIOError:
        pass
    except OSError:
        tried.close()
        return
    selector.register(tried, selectors.EVENT_WRITE)


def _alternate_families(addresses: list[Any]) -> list[Any]:
    """Return addresses of both families in turns, the preferred one first."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    second = [address for address in addresses if address[0] != addresses[0][0]]
    longer = max(len(first), len(second))
    return [family[n] for n in range(longer) for family in (first, second) if n < len(family)]
