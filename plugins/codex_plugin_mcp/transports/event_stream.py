"""A parser for server-sent events that arrive in pieces of any size. It does no I/O."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["EventStreamParser", "ServerSentEvent", "TooLargeError"]


class TooLargeError(Exception):
    """An event is larger than the limit. The rest of the stream cannot be read."""


class ServerSentEvent(Value):
    """One event.

    Attributes:
        event: Its type; ``message`` if the server named none.
        data: Its data; the lines are joined with line feeds.
        id: The id to resume after this event, if the event has one.
        retry_ms: How long to wait before a reconnection, in milliseconds, if the event says so.
    """

    event: str
    data: str
    id: str | None = None
    retry_ms: int | None = None


class EventStreamParser:
    """The parser of one stream.

    Args:
        limit: The maximum size of one event in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._pending = 0
        self._first = True
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None
        self._retry_ms: int | None = None
        self._size = 0

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Parse a piece of the stream and return the events that it completes.

        Raises:
            TooLargeError: An event is larger than the limit.
        """
        self._pieces.append(data)
        self._pending += len(data)
        events: list[ServerSentEvent] = []
        if b"\n" in data or b"\r" in data or (len(self._pieces) > 1 and self._pieces[-2].endswith(b"\r")):
            *lines, rest = self._lines(b"".join(self._pieces))
            self._pieces, self._pending = [rest], len(rest)
            events = [event for line in lines if (event := self._line(line)) is not None]
        if self._size + self._pending > self._limit:
            raise TooLargeError
        return events

    def end(self) -> ServerSentEvent | None:
        """Return the event at the end of the stream, if no empty line has ended it."""
        for line in self._lines(b"".join(self._pieces) + b"\n"):
            if line:
                self._line(line)
        return self._complete()

    def _lines(self, data: bytes) -> list[bytes]:
        """Split data into lines. The last one is incomplete; a carriage return at the end waits for the next byte."""
        if self._first and len(data) >= 3:
            data, self._first = data.removeprefix(b"\xef\xbb\xbf"), False
        if b"\r" not in data:
            return data.split(b"\n")
        waiting = b"\r" if data.endswith(b"\r") else b""
        lines = data[: len(data) - len(waiting)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines[-1] += waiting
        return lines

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._complete()
        self._size += len(line)
        if self._size > self._limit:
            raise TooLargeError
        name, _, rest = line.decode("utf-8", "replace").partition(":")
        value = rest.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdecimal():
            self._retry_ms = int(value[:12])
        return None

    def _complete(self) -> ServerSentEvent | None:
        """Return the event that an empty line ends, or None if it says nothing."""
        event = ServerSentEvent(self._event or "message", "\n".join(self._data), self._id, self._retry_ms)
        says_something = bool(self._data) or event.id is not None or event.retry_ms is not None
        self._begin()
        return event if says_something else None

    def _begin(self) -> None:
        self._data, self._event, self._id, self._retry_ms = [], "", None, None
        self._size = 0
