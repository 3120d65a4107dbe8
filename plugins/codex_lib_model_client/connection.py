"""One connection to a model server or a proxy, as an asyncio protocol. httptools, which wraps llhttp, parses the responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from codex_lib_model_client.transport_errors import CutError, SendError, SilenceError

if TYPE_CHECKING:
    import httptools

__all__ = ["Connection"]

_QUEUE_LIMIT = 1 << 20
"""Maximum number of unread bytes; beyond it, reading from the server is paused."""

_HEAD_LIMIT = 65_536
"""Maximum length in bytes of a response head, and of the data between two pieces of a body. llhttp sets no limit."""

_CLOSED = "the server closed the connection"


class Connection(asyncio.Protocol):
    """A connection that sends a request and returns the response's body as it arrives.

    Attributes:
        status: The status code, or 0 until the head is complete.
        phrase: The reason phrase after the status.
        headers: The headers, with names in lower case. The values of repeated headers are joined with a comma.
        alive: Whether the connection is open.
        heard: Whether any byte has arrived since the request was sent.
        on_lost: Called when the connection is closed.
    """

    def __init__(self) -> None:
        self.status = 0
        self.phrase = ""
        self.headers: dict[str, str] = {}
        self.alive = False
        self.heard = False
        self.on_lost: Callable[[Connection], None] | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._transport: asyncio.Transport | None = None
        self._queue: list[bytes] = []
        self._queued = 0
        self._between = 0
        self._until_eof = True
        self._complete = False
        self._reusable = False
        self._writable = True
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._failure: str | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used for another request."""
        return self.alive and self._complete and self._reusable

    @property
    def has_arrived(self) -> bool:
        """Whether all of the response has arrived."""
        return self._complete

    @property
    def writable(self) -> bool:
        """Whether the server reads the sent data. If it does not, more data would only fill the memory."""
        return self._writable

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the event loop."""
        assert self._transport is not None
        return self._transport

    def begin(self) -> None:
        """Prepare for another response."""
        import httptools

        self._parser = httptools.HttpResponseParser(self)
        # Some servers end the lines of the head with a line feed only, which every common client accepts.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self.status, self.phrase, self.headers = 0, "", {}
        self.heard = self._complete = self._reusable = False
        self.take()  # a rest of the last response, because of which reading may be paused
        self._between = 0
        self._until_eof = True

    def begin_raw(self) -> None:
        """Deliver received data unparsed from now on, for protocols other than HTTP. Earlier data is dropped."""
        self.take()
        self._parser, self._complete, self._until_eof = None, False, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast("asyncio.Transport", transport)
        self.alive = True

    def use_transport(self, transport: asyncio.Transport) -> None:
        """Use TLS on this connection from now on, over the given transport. Data that arrived unencrypted is dropped."""
        self.take()
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse received data."""
        self.heard = True
        parser = self._parser
        if parser is None:
            self.on_body(data)
        elif self._complete:
            self._reusable = False  # more than the response: what it belongs to is unknown
            if self.on_lost is not None and self._waiter is None:
                self.cut()
        else:
            self._parse(parser, data)
        if self._queued > _QUEUE_LIMIT:
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Close the connection when the server has ended its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection, which may be the end of the body."""
        self.alive = False
        if self._parser is not None and self.status and self._until_eof and exc is None:
            self._complete = True
        if not self._complete and self._failure is None:
            self._failure = getattr(exc, "strerror", None) or (exc and str(exc)) or _CLOSED
        self._wake()
        self._let_write()
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost(self)

    def pause_writing(self) -> None:
        """Wait with the time limit of the response: the server does not read as fast."""
        self._writable = False

    def resume_writing(self) -> None:
        """Start the time limit of the response."""
        self._writable = True
        self._wake()
        self._let_write()

    # What the parser calls. Its methods are named by httptools.

    def on_message_begin(self) -> None:
        """Start a response."""
        if self._complete:
            self._reusable = False
        elif not self.status:  # an informational response may have come before
            self.phrase, self.headers = "", {}

    def on_status(self, status: bytes) -> None:
        """Add a piece of the reason phrase."""
        if not self.status:
            self.phrase += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        if self.status:  # after the body
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """End the head, unless it belongs to an informational response."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status >= 200 and not self.status:
            self.status = status
            is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
            self._until_eof = not is_chunked and "content-length" not in self.headers and status not in (204, 304)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body."""
        if not self._complete:
            self._queue.append(body)
            self._queued += len(body)

    def on_message_complete(self) -> None:
        """End the body."""
        assert self._parser is not None
        if self.status and not self._complete:
            self._complete = True
            self._reusable = not self._until_eof and self._parser.should_keep_alive()

    # What the transport calls.

    async def send(self, message: bytes, head_s: float, on_sent: Callable[[], None]) -> None:
        """Send a request, or the rest of it, and wait for the complete head of its response.

        Raises:
            SendError: The connection broke, or the response is not HTTP.
            SilenceError: The head did not arrive in time, or the server does not read the request.
        """
        if message:
            self.transport.write(message)
        on_sent()
        clock = asyncio.get_running_loop().time
        deadline = clock() + head_s
        while not self._writable and self.alive and not self.status:
            await self._wait(deadline)
            deadline = clock() + head_s
        while not self.status:
            if self._failure is not None or not self.alive:
                raise SendError(self._failure or _CLOSED)
            await self._wait(deadline)

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the body, or ``b""`` at its end.

        Raises:
            CutError: The connection broke before the end.
            SilenceError: Nothing arrived in time.
        """
        deadline: float | None = None
        while not self._queue:
            if self._complete:
                return b""
            if self._failure is not None:
                raise CutError(self._failure)
            if deadline is None:
                deadline = asyncio.get_running_loop().time() + within_s
            await self._wait(deadline)
        return self.take()

    def take(self) -> bytes:
        """Return the received data that was not read yet, possibly nothing."""
        piece = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
        self._queue.clear()
        if self._queued > _QUEUE_LIMIT and self.alive:
            self.transport.resume_reading()
        self._queued = 0
        return piece

    async def drain(self) -> None:
        """Wait until the server has read most of the sent data, or the connection is closed. One caller at a time."""
        while not self._writable and self.alive:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None

    def cut(self) -> None:
        """Close the connection immediately."""
        self.alive = False
        if self._transport is not None:
            self._transport.abort()

    def _parse(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        from httptools import HttpParserError, HttpParserUpgrade

        queued = self._queued
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail("the server changed the protocol")
        except HttpParserError as error:
            if self._complete:
                self._reusable = False  # the response is whole, and followed by something else
                return
            self._fail("the response is not HTTP" if not self.headers else f"the response is not valid HTTP: {error}")
        self._between = self._between + len(data) if self._queued == queued else 0
        if self._between > _HEAD_LIMIT and not self._complete:
            self._fail(
                "the head of the response is too long" if not self.status else "the response has too many trailers"
            )

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
        self.cut()

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

    def _let_write(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
