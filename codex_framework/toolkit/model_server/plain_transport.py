"""A transport for plain ``http://``, which implements HTTP/1.1 directly on asyncio.

It is used for local model servers and test servers. Compared with httpx, it saves 35 ms at startup (the import and the
event-loop layer), half a millisecond per turn, and 5 microseconds for every event that a server sends as a separate chunk.
httpx handles TLS and proxies (:mod:`codex_framework.toolkit.model_server.httpx_transport`).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codex_framework.toolkit.model_server.transport_errors import (
    CONNECT_S,
    BadAnswerError,
    CutError,
    SendError,
    SilenceError,
)

if TYPE_CHECKING:
    from codex_framework.toolkit.model_server.http1 import AnswerParser

__all__ = ["PlainTransport"]

_QUEUE_LIMIT = 1 << 20
"""Maximum number of unread bytes; beyond it, reading from the server is paused."""

_AT_ONCE_S = 0.005
"""Time limit in seconds for connecting to a server on this machine, which blocks the event loop. 0.0001 is typical."""


class PlainTransport:
    """A :class:`~codex_framework.toolkit.model_server.transport.Transport` for plain HTTP/1.1."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, head_s: float, on_sent: Callable[[], None]
    ) -> PlainAnswer:
        """Send a request; see :meth:`Transport.post <codex_framework.toolkit.model_server.transport.Transport.post>`."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {target} HTTP/1.1", f"host: {parts.netloc.rpartition('@')[2]}"]
        lines.extend(f"{name}: {value}" for name, value in headers.items())
        lines.append(f"content-length: {len(body)}\r\n\r\n")
        message = "\r\n".join(lines).encode("latin-1") + body
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._exchange(connection, message, head_s, on_sent)
            except SendError:
                # The server closed the idle connection before it began to respond.
                pass
        host, port = parts.hostname or "", parts.port or 80
        local = _connected_at_once(host, port)
        if local is not None:
            # Send before the event loop continues. Other tasks that are ready, such as preparing the sandbox, then run while the
            # server responds, and do not delay the request.
            message = message[_sent(local, message) :]
        connection = await _connect(host, port, local)
        return await self._exchange(connection, message, head_s, on_sent)

    async def aclose(self) -> None:
        """Close all connections."""
        for connection in (*self._idle, *self._busy):
            connection.cut()
        self._idle.clear()
        self._busy.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                connection.renew()
                return connection
        return None

    async def _exchange(
        self, connection: _Connection, message: bytes, head_s: float, on_sent: Callable[[], None]
    ) -> PlainAnswer:
        self._busy.add(connection)
        try:
            parser = await connection.send(message, head_s, on_sent)
        except BaseException:
            self.give_back(connection)
            raise
        return PlainAnswer(self, connection, parser)

    def give_back(self, connection: _Connection) -> None:
        """Keep a connection if it is reusable. Otherwise close it."""
        self._busy.discard(connection)
        if connection.alive and connection.reusable:
            self._idle.append(connection)
        else:
            connection.cut()


class PlainAnswer:
    """An :class:`~codex_framework.toolkit.model_server.transport.Answer` over plain HTTP/1.1."""

    def __init__(self, transport: PlainTransport, connection: _Connection, parser: AnswerParser) -> None:
        self._transport: PlainTransport | None = transport
        self._connection = connection
        self.status = parser.status
        self.phrase = parser.phrase
        self.headers: Mapping[str, str] = parser.headers

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the body, or ``b""`` at its end."""
        return await self._connection.read(within_s)

    async def aclose(self) -> None:
        """Release the connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.give_back(self._connection)


def _connected_at_once(host: str, port: int) -> socket.socket | None:
    """Connect to a loopback address whose server accepts without delay, and return the socket. Return None otherwise.

    Errors are not reported here, because the regular connection attempt that follows reports them.
    """
    if not host.startswith("127.") and host != "::1":
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
        connected = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # the host is a name, or no socket is available
        return None
    connected.settimeout(_AT_ONCE_S)
    try:
        connected.connect((host, port))
    except OSError:
        connected.close()
        return None
    connected.settimeout(0)  # the event loop requires a non-blocking socket
    return connected


def _sent(connected: socket.socket, message: bytes) -> int:
    """Send as much as fits into the socket's buffer, and return the number of bytes sent."""
    try:
        return connected.send(message)
    except OSError:  # the error occurs again when the rest is sent
        return 0


async def _connect(host: str, port: int, local: socket.socket | None) -> _Connection:
    """Open a connection, or use the socket ``local``, on which part of the request has already been sent."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            if local is not None:
                _, connection = await loop.create_connection(_Connection, sock=local)
            else:
                _, connection = await loop.create_connection(_Connection, host, port, happy_eyeballs_delay=0.25)
    except TimeoutError as error:
        raise SendError(f"no connection within {CONNECT_S:.0f} s") from error
    except OSError as error:
        raise SendError(_reason(error)) from error
    return connection


def _reason(error: OSError) -> str:
    """Return the system's reasons for a failed connection. A host with several addresses has one error per address."""
    import re

    numbers = dict.fromkeys(int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error)))
    return ", ".join(os.strerror(number) for number in numbers) or error.strerror or str(error)


class _Connection(asyncio.Protocol):
    """A TCP connection that sends a request and returns the response's body as it arrives."""

    def __init__(self) -> None:
        self.alive = False
        self._parser: AnswerParser | None = None
        self._transport: asyncio.Transport | None = None
        self._queue: list[bytes] = []
        self._queued = 0
        self._waiter: asyncio.Future[None] | None = None
        self._failure: str | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used for another request."""
        return self._parser is not None and self._parser.reusable

    def renew(self) -> None:
        """Forget the last response."""
        self._parser = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.alive = True

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._parser is None:  # part of the request was sent early, and the server was fast
            from codex_framework.toolkit.model_server.http1 import AnswerParser

            self._parser = AnswerParser()
        try:
            piece = self._parser.feed(data)
        except BadAnswerError as error:
            self._failure = str(error)
            self.cut()
            piece = b""
        if piece:
            self._queue.append(piece)
            self._queued += len(piece)
            if self._queued > _QUEUE_LIMIT:
                self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        if self._parser is not None:
            self._parser.end()
        if (self._parser is None or not self._parser.complete) and self._failure is None:
            self._failure = (exc and str(exc)) or "the server closed the connection"
        self._wake()

    async def send(self, message: bytes, head_s: float, on_sent: Callable[[], None]) -> AnswerParser:
        """Send a request, or the rest of it, and wait for the complete head of its response."""
        assert self._transport is not None
        if message:
            self._transport.write(message)
        from codex_framework.toolkit.model_server.http1 import AnswerParser  # while the request is on its way

        self._parser = parser = self._parser or AnswerParser()
        on_sent()
        deadline = asyncio.get_running_loop().time() + head_s
        while not parser.status:
            if self._failure is not None or not self.alive:
                raise SendError(self._failure or "the server closed the connection")
            await self._wait(deadline)
        return parser

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the body, or ``b""`` at its end."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not self._queue:
            if self._parser is not None and self._parser.complete:
                return b""
            if self._failure is not None:
                raise CutError(self._failure)
            await self._wait(deadline)
        piece = b"".join(self._queue)
        self._queue.clear()
        if self._queued > _QUEUE_LIMIT and self._transport is not None:
            self._transport.resume_reading()
        self._queued = 0
        return piece

    def cut(self) -> None:
        """Close the connection immediately."""
        self.alive = False
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        alarm = loop.call_at(deadline, self._alarm, self._waiter)
        try:
            await self._waiter
        finally:
            alarm.cancel()
            self._waiter = None

    @staticmethod
    def _alarm(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_exception(SilenceError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
