"""Connections with flow control, and forwarding of data between two of them.

If data arrives faster than it can be forwarded, reading pauses, so that the data waits in the network and not in memory.
"""

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
"""Number of bytes that may be buffered in each direction before reading pauses."""
_LINGER_BYTES = 1_048_576


class Wire(asyncio.Protocol):
    """One end of a connection, with :meth:`receive` and :meth:`send`.

    Args:
        open_wires: The set of open wires. The wire adds itself when it is connected and removes itself when its socket is closed.

    Attributes:
        gone: A future that is done once the other side has closed its half, or the connection has ended.
        lost: A future that is done once the connection has ended and its socket is closed.
        received_at: The time, on the loop's clock, at which the last bytes arrived.
        received: Number of bytes received.
        error: The error that ended the connection, if any.
        on_lost: Called when the connection ends while it is not joined to another.
    """

    transport: asyncio.Transport

    def __init__(self, open_wires: set[Wire]) -> None:
        self._open_wires = open_wires
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.received_at = self._loop.time()
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
        """Handle a new connection (called by the loop)."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_HIGH)
        self._open_wires.add(self)

    def data_received(self, data: bytes) -> None:
        """Handle received data (called by the loop)."""
        self.received_at = self._loop.time()
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
        """Handle the end of the other side's data (called by the loop). Our half stays open where that is possible."""
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
        """Handle the end of the connection (called by the loop)."""
        ended_before = self.gone.done()
        self._open_wires.discard(self)
        self.error = exc
        self._finish()
        if not self.lost.done():
            self.lost.set_result(None)
        self._wake_reader()
        self.resume_writing()
        if self._peer is not None:
            if exc is None or ended_before:  # the data from the other side was complete, and only sending to it failed
                self._peer.close()
            else:
                self._peer.reset()
        elif self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """Pause reading from the peer, because the write buffer is full (called by the loop)."""
        self._full = True
        if self._peer is not None and not self._peer.gone.done():
            self._peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading from the peer, because the write buffer has room again (called by the loop)."""
        self._full = False
        if self._peer is not None and not self._peer.gone.done():
            self._peer.transport.resume_reading()
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    @property
    def can_half_close(self) -> bool:
        """Whether one half can be closed alone, which TLS does not support."""
        return self.transport.can_write_eof()

    @property
    def idle(self) -> bool:
        """Whether the connection is open and has no unread data."""
        return not self.gone.done() and not self._chunks

    @property
    def at_end(self) -> bool:
        """Whether the other side has closed its half, or the connection has ended."""
        return self.gone.done()

    async def receive(self) -> bytes:
        """Return the next bytes, or ``b""`` if the other side has closed its half.

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
        """Return exactly ``count`` bytes.

        Raises:
            ConnectionError: The connection ended earlier.
        """
        data = b""
        while len(data) < count:
            more = await self.receive()
            if not more:
                raise ConnectionAbortedError("the connection was closed too early")
            data += more
        self.put_back(data[count:])
        return data[:count]

    def put_back(self, data: bytes) -> None:
        """Put bytes back for the next call of ``receive``."""
        if data:
            self._chunks.appendleft(data)
            self._waiting_bytes += len(data)

    async def send(self, data: bytes) -> None:
        """Send bytes. If the write buffer is full, wait until it has room.

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
        """Close this half once all data has been sent."""
        self._half_closed = True
        if self.lost.done() or self.transport.is_closing():
            return
        if self.gone.done() or not self.can_half_close:
            self.transport.close()
            return
        with contextlib.suppress(OSError):  # the connection may have ended, which connection_lost reports
            self.transport.write_eof()

    def close(self) -> None:
        """End the connection once all data has been sent."""
        self.transport.close()

    def reset(self) -> None:
        """End the connection immediately with a reset, so that the other side does not see a regular end."""
        connected: Any = self.transport.get_extra_info("socket")
        if connected is not None and not self.lost.done() and connected.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        """End the connection immediately and discard unsent data. May be called more than once."""
        # In Python 3.11, abort() raises if the buffer was sent completely after close().
        if not self.lost.done():
            self.transport.abort()

    def attach(self, peer: Wire) -> None:
        """Forward all data to ``peer`` from now on, starting with the unread data."""
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


async def join(first: Wire, second: Wire, *, idle_s: float, half_closed_s: float) -> None:
    """Forward bytes in both directions until both ends are closed, or nothing arrives within the time limit.

    Both wires are closed at the end.
    """
    try:
        first.attach(second)
        second.attach(first)
        loop = asyncio.get_running_loop()
        while not (first.lost.done() and second.lost.done()):
            limit = half_closed_s if first.at_end or second.at_end else idle_s
            left = max(first.received_at, second.received_at) + limit - loop.time()
            if left <= 0:
                break
            events = [wire.lost for wire in (first, second) if not wire.lost.done()]
            if not (first.at_end or second.at_end):
                events += [first.gone, second.gone]
            await asyncio.wait(events, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    finally:
        first.abort()
        second.abort()


async def linger(wire: Wire, for_s: float) -> None:
    """Close a connection while the client may still be sending, so that the client can read the last response.

    Closing a socket with unread data sends a reset, and a reset can discard data that was sent before.
    """
    if wire.lost.done():
        return
    wire.finish_sending()
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(for_s):
            limit = wire.received + _LINGER_BYTES
            while wire.received < limit and await wire.receive():
                pass
    wire.close()
