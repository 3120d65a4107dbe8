"""A splitter for server-sent events that arrive in pieces of any size."""

from __future__ import annotations

__all__ = ["EventSplitter"]

_MARK = b"\xef\xbb\xbf"
_FIELDS = (":", "event:", "id:", "retry:")
_BARE_FIELDS = ("data", "event", "id", "retry")

EVENT_LIMIT = 256 << 20
"""Maximum length of an event in bytes, so that a server that never ends an event cannot fill the memory."""


class EventSplitter:
    """An incremental parser that returns the data of every complete event.

    Lines may end in LF, CRLF or CR. A piece may begin and end anywhere, even within a character. Only the field ``data`` of an
    event is used, because the payload contains its type. An event that is incomplete at the end of the stream is dropped, as
    the standard requires. The standard also ignores lines that contain no known field. They are returned as invalid JSON,
    because they may be a damaged event.

    Args:
        skip: The beginning of events that are not needed, which are counted and not returned. Empty means that all are needed.

    Attributes:
        unwanted: Number of events skipped because they are not needed. They show that the server is working.

    Raises:
        OverflowError: An event is longer than ``EVENT_LIMIT``. Raised by ``feed``.
    """

    def __init__(self, skip: str = "") -> None:
        self.unwanted = 0
        self._skip = skip
        self._rest = b""
        self._middle: list[bytes] = []
        self._fresh = True
        self._length = 0

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes, in order."""
        if self._fresh:
            piece = self._without_byte_order_mark(piece)
            if not piece:
                return []
        if b"\n" not in piece and b"\r" not in piece:
            # Part of one long line. The parts are joined once, when the line ends.
            self._middle.append(piece)
            self._check_length(len(piece))
            return []
        buffer = b"".join((self._rest, *self._middle, piece))
        self._middle.clear()
        if b"\r" in buffer:
            buffer = self._normalised(buffer)
        end = buffer.rfind(b"\n\n")
        if end < 0:
            self._rest, self._length = buffer, 0
            self._check_length(len(buffer))
            return []
        self._rest = buffer[end + 2 :]
        self._length = len(self._rest)
        events: list[str] = []
        skip = self._skip
        for block in buffer[:end].decode("utf-8", "replace").split("\n\n"):
            if skip and block.startswith(skip):
                self.unwanted += 1
                continue
            data = _data(block)
            if data:
                events.append(data)
        return events

    def _check_length(self, more: int) -> None:
        self._length += more
        if self._length > EVENT_LIMIT:
            raise OverflowError(f"an event of more than {EVENT_LIMIT >> 20} MiB")

    def _without_byte_order_mark(self, piece: bytes) -> bytes:
        """Remove a byte-order mark from the start. A possible beginning of it is kept until more bytes arrive."""
        start = self._rest + piece
        self._rest = b""
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._rest = start
            return b""
        self._fresh = False
        return start.removeprefix(_MARK)

    @staticmethod
    def _normalised(buffer: bytes) -> bytes:
        """Convert all line ends to LF. A CR at the very end is kept, because its LF may be in the next piece."""
        ends_in_cr = buffer.endswith(b"\r")
        body = buffer[:-1] if ends_in_cr else buffer
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return body + b"\r" if ends_in_cr else body


def _data(block: str) -> str:
    # A typical event has one "event:" line and one "data:" line.
    start = block.rfind("\ndata:")
    if start < 0:
        start = 0 if block.startswith("data:") else -1
        if start < 0:
            return _stray(block)
        value = block[5:]
    else:
        value = block[start + 6 :]
    if "\n" in value or "data:" in block[:start]:
        return _joined_data(block)
    return value.removeprefix(" ")


def _stray(block: str) -> str:
    """Return the lines that are neither comments nor fields, with a prefix that makes them invalid JSON."""
    lines = [line for line in block.split("\n") if line and not line.startswith(_FIELDS) and line not in _BARE_FIELDS]
    return "\n".join(("no field:", *lines)) if lines else ""


def _joined_data(block: str) -> str:
    values: list[str] = []
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        if name == "data":
            values.append(value.removeprefix(" "))
    return "\n".join(values)
