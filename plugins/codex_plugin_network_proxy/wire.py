"""One end of a connection, and two of them joined. What comes in faster than it goes out waits in the network, not in memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Wire", "join", "linger"]

_HIGH = 262_144
"""How many bytes may wait, in or out."""
_LINGER_BYTES = 1_048_576


class Wire(asyncio.Protocol):
    """One end of a connection: bytes come by :meth:`receive` and go by :meth:`send`.

    Args:
        standing: Where it stands while its socket is open.

    Attributes:
        gone: Done once the other side has closed its half, or the connection has ended.
        lost: Done once the connection has ended and its socket is closed.
        heard: The loop's time when the last bytes came.
        received: How many bytes have come.
        error: Why the connection has ended, if it was not in order.
        on_lost: Called when it ends while it is not joined to another.
    """

    transport: asyncio.Transport

    def __init__(self, standing: set[Wire]) -> None:
        self._standing = standing
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.heard = self._loop.time()
        self.received = 0
        self.error: Exception | None = None
        self.on_lost: Callable[[], object] | None = None
        self._chunks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False
        self._peer: Wire | None = None
        self._half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_HIGH)
        self._standing.add(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.heard = self._loop.time()
        self.received += len(data)
        if self._peer is not None:
            self._peer._write(data)  # noqa: SLF001  # of the same class
            return
        self._chunks.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _HIGH:
            self.transport.pause_reading()
        self._wake_reader()

    def eof_received(self) -> bool:
        """Called by the loop. The other half stays open."""
        self._finish()
        half_open = self.can_half_close
        if self._peer is not None:
            if half_open:
                self._peer.finish_sending()
            else:
                self._peer.close()
        self._wake_reader()
        return half_open

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        ended_before = self.gone.done()
        self._standing.discard(self)
        self.error = exc
        self._finish()
        if not self.lost.done():
            self.lost.set_result(None)
        self._wake_reader()
        self.resume_writing()
        if self._peer is not None:
            if exc is None or ended_before:  # then what had been sent was whole, and only sending to it has failed
                self._peer.close()
            else:
                self._peer.reset()
        elif self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """Called by the loop: too much waits to be sent."""
        self._full = True
        if self._peer is not None and not self._peer.gone.done():
            self._peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Called by the loop: there is room again."""
        self._full = False
        if self._peer is not None and not self._peer.gone.done():
            self._peer.transport.resume_reading()
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    @property
    def can_half_close(self) -> bool:
        """Whether one half can be closed: not with TLS."""
        return self.transport.can_write_eof()

    @property
    def idle(self) -> bool:
        """Whether the connection stands and nothing has come that was not received."""
        return not self.gone.done() and not self._chunks

    @property
    def at_end(self) -> bool:
        """Whether the other side has closed its half, or the connection has ended."""
        return self.gone.done()

    async def receive(self) -> bytes:
        """The next bytes; ``b""`` when the other side has closed its half.

        Raises:
            ConnectionError: The connection has ended.
        """
        while not self._chunks:
            if self.lost.done():
                raise self._lost_error()
            if self.gone.done():
                return b""
            self._reader = self._loop.create_future()
            await self._reader
        data = self._chunks.popleft()
        before = self._waiting_bytes
        self._waiting_bytes -= len(data)
        if before > _HIGH >= self._waiting_bytes and not self.gone.done():
            self.transport.resume_reading()
        return data

    async def receive_exactly(self, count: int) -> bytes:
        """That many bytes.

        Raises:
            ConnectionError: The connection has ended before.
        """
        data = b""
        while len(data) < count:
            more = await self.receive()
            if not more:
                raise ConnectionAbortedError("the connection was closed in the middle")
            data += more
        self.put_back(data[count:])
        return data[:count]

    def put_back(self, data: bytes) -> None:
        """Have bytes received again."""
        if data:
            self._chunks.appendleft(data)
            self._waiting_bytes += len(data)

    async def send(self, data: bytes) -> None:
        """Send bytes; comes back when there is room for more.

        Raises:
            ConnectionError: The connection has ended.
        """
        if self.lost.done():
            raise self._lost_error()
        self.transport.write(data)
        if self._full:
            self._writer = self._loop.create_future()
            await self._writer
            if self.lost.done():
                raise self._lost_error()

    def finish_sending(self) -> None:
        """Close this half, after what was sent has gone."""
        self._half_closed = True
        if self.lost.done() or self.transport.is_closing():
            return
        if self.gone.done() or not self.can_half_close:
            self.transport.close()
            return
        with contextlib.suppress(OSError):  # it may have ended meanwhile, which connection_lost tells
            self.transport.write_eof()

    def close(self) -> None:
        """End the connection, after what was sent has gone."""
        self.transport.close()

    def reset(self) -> None:
        """End the connection at once, so that the other side cannot take it for the proper end."""
        connected: Any = self.transport.get_extra_info("socket")
        if connected is not None and not self.lost.done() and connected.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def attach(self, peer: Wire) -> None:
        """Pass on to ``peer`` from now on, beginning with what waits."""
        self._peer = peer
        while self._chunks:
            peer._write(self._chunks.popleft())
        self._waiting_bytes = 0
        if self.error is not None:
            peer.reset()
        elif self.gone.done():
            peer.finish_sending()
        elif peer._full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _write(self, data: bytes) -> None:
        if not self.lost.done() and not self._half_closed:
            self.transport.write(data)

    def _finish(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if self._half_closed and self._peer is not None:
            self.transport.close()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _lost_error(self) -> ConnectionError:
        if isinstance(self.error, ConnectionError):
            return self.error
        return ConnectionAbortedError("the connection has ended")


async def join(one: Wire, other: Wire, *, idle_s: float, half_closed_s: float) -> None:
    """Carry bytes both ways until both have ended, or nothing has come for too long. Both are closed in the end."""
    try:
        one.attach(other)
        other.attach(one)
        loop = asyncio.get_running_loop()
        while not (one.lost.done() and other.lost.done()):
            limit = half_closed_s if one.at_end or other.at_end else idle_s
            left = max(one.heard, other.heard) + limit - loop.time()
            if left <= 0:
                break
            waited = [wire.lost for wire in (one, other) if not wire.lost.done()]
            if not (one.at_end or other.at_end):
                waited += [one.gone, other.gone]
            await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    finally:
        one.transport.abort()
        other.transport.abort()


async def linger(wire: Wire, for_s: float) -> None:
    """Close a connection on which the client may still be sending, so that it gets to read what it was told.

    A socket that is closed with bytes unread sends a reset, which can take away what was sent before.
    """
    if wire.lost.done():
        return
    wire.finish_sending()
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(for_s):
            most = wire.received + _LINGER_BYTES
            while wire.received < most and await wire.receive():
                pass
    wire.close()
