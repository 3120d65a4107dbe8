"""A socket whose TLS handshake is done with blocking calls, before an event loop uses it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from codex_lib_model_client.https import in_openssl

if TYPE_CHECKING:
    from codex_lib_model_client.connection import Connection

__all__ = ["SecureSocket"]

_PIECE = 16_384
"""Bytes that are encrypted in one step: the longest record of TLS (RFC 8446, section 5.1)."""
_KEPT_S = 20.0
"""How long the connection may be unused, in seconds. Servers close connections that are unused for longer."""


class SecureSocket:
    """A connected, non-blocking socket with its TLS session. The handshake is done while it is made.

    Attributes:
        tls: The session.
        chain: The certificates that verified the server, in DER, if the whole trust store was needed for that.
        failed: Whether known certificates did not verify the server, but the whole trust store did.

    Args:
        connected: The socket, with a time limit for each step.
        context: Verifies the server.
        host: The name or address of the server.

    Raises:
        OSError: The connection broke, or the server is not trusted: ``ssl.SSLCertVerificationError``.
    """

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self.chain: list[bytes] | None = None
        self.failed = False
        self._socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = host.encode() if host.isascii() else host  # a str makes Python import another encoding
        with in_openssl():
            self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._shake_hands()
        connected.settimeout(0)
        self._made_at = time.monotonic()
        self._left = b""

    @property
    def usable(self) -> bool:
        """Whether the server has neither closed the connection nor sent unsolicited data. Otherwise, it is closed."""
        if time.monotonic() - self._made_at < _KEPT_S and self._is_silent():
            return True
        self.close()
        return False

    def close(self) -> None:
        """Close the connection immediately."""
        self._socket.close()

    def send(self, message: bytes) -> int:
        """Encrypt and send as much of a message as the socket accepts immediately. Return the number of bytes that were sent.

        Errors are not reported here, because they occur again when the rest is sent or the response is read.
        """
        sent = 0
        while sent < len(message) and not self._left:
            piece = message[sent : sent + _PIECE]
            self.tls.write(piece)
            sent += len(piece)
            data = self._outgoing.read()
            try:
                taken = self._socket.send(data)
            except OSError:
                taken = 0
            self._left = data[taken:]
        return sent

    async def connect(self, connection: Connection, host: str) -> None:
        """Let the running event loop use the socket for a connection from now on.

        Raises:
            OSError: The connection broke.
        """
        context = _DoneContext(ssl.PROTOCOL_TLS_CLIENT)
        context.session = self._session
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, sock=self._socket, ssl=context, server_hostname=host)

    def _session(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> _DoneSession:
        outgoing.write(self._left)
        return _DoneSession(self.tls, (self._incoming, self._outgoing), (incoming, outgoing))

    def _shake_hands(self) -> None:
        while True:
            try:
                with in_openssl():
                    self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._outgoing.read())
                data = self._socket.recv(65_536)
                if not data:
                    raise ConnectionResetError("the server closed the connection") from None
                self._incoming.write(data)
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._socket.sendall(self._outgoing.read())  # the alert, so that the server knows why
                raise
            else:
                self._socket.sendall(self._outgoing.read())
                return

    def _is_silent(self) -> bool:
        try:
            data = self._socket.recv(65_536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._incoming.write(data)
        try:
            self.tls.read(1)
        except ssl.SSLWantReadError:
            return bool(data)  # a ticket for the next session, and no end
        except OSError:
            return False
        return False


class _DoneContext(ssl.SSLContext):
    """Gives an event loop, which asks for a new TLS session, one whose handshake is done."""

    session: Any

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *_: Any, **__: Any) -> ssl.SSLObject:
        return cast("ssl.SSLObject", self.session(incoming, outgoing))


class _DoneSession:
    """A TLS session whose handshake is done, which moves bytes between its own buffers and the event loop's."""

    def __init__(
        self, tls: ssl.SSLObject, own: tuple[ssl.MemoryBIO, ssl.MemoryBIO], loop: tuple[ssl.MemoryBIO, ssl.MemoryBIO]
    ) -> None:
        self._tls = tls
        self._own_incoming, self._own_outgoing = own
        self._incoming, self._outgoing = loop

    def do_handshake(self) -> None:
        """Do nothing: the handshake is done."""

    def read(self, size: int = 1024) -> bytes:
        """Decrypt received data; see :meth:`ssl.SSLObject.read`."""
        with self._move_bytes():
            return self._tls.read(size)

    def write(self, data: Any) -> int:
        """Encrypt; see :meth:`ssl.SSLObject.write`."""
        with self._move_bytes():
            return self._tls.write(data)

    def unwrap(self) -> None:
        """End the session; see :meth:`ssl.SSLObject.unwrap`."""
        with self._move_bytes():
            self._tls.unwrap()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)

    @contextlib.contextmanager
    def _move_bytes(self) -> Iterator[None]:
        if self._incoming.pending:
            self._own_incoming.write(self._incoming.read())
        if self._incoming.eof:
            self._own_incoming.write_eof()
        try:
            yield
        finally:
            if self._own_outgoing.pending:
                self._outgoing.write(self._own_outgoing.read())
