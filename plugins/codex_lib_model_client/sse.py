"""A splitter for server-sent events that arrive in pieces of any size."""

from __future__ import annotations

__all__ = ["EventSplitter"]

_MARK = b"\xef\xbb\xbf"
_FIELDS = (":", "event:", "id:", "retry:")
_BARE_FIELDS = ("data", "event", "id", "retry")

EVENT_LIMIT = 64 << 20
"""Maximum length of an event in bytes, so that a server that never ends an event cannot fill the memory: reading one takes about four
times as much."""


class EventSplitter:
    """An incremental parser that returns the data of every complete event.

    Lines may end in LF, CRLF or CR, each of which ends an event immediately. A piece may begin and end anywhere, even within a
    character. Only the field ``data`` of an event is used, because the payload contains its type. An event that is incomplete
    at the end of the stream is dropped, as the standard requires. The standard also ignores lines that contain no known field.
    They are returned as invalid JSON, because they may be a damaged event.

    Args:
        skip: The beginning of events that are not needed, which are counted and not returned. By default, all events are
            returned.

    Attributes:
        unwanted: Number of events skipped because they are not needed. They show that the server is working.

    Raises:
        OverflowError: An event is longer than ``EVENT_LIMIT``. Raised by ``feed``.
    """

    def __init__(self, skip: str = "") -> None:
        self.unwanted = 0
        self._skip = skip
        self._start: bytes | None = b""
        self._parts: list[bytes] = []
        self._length = 0
        self._held = b""
        self._returned = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes, in order."""
        if self._start is not None:
            piece = self._without_byte_order_mark(piece)
        if self._returned or b"\r" in piece:
            piece = self._normalise(piece)
        if self._held:
            piece = self._held + piece
            self._held = b""
        # An event may have any number of pieces. Each is searched once, and they are joined once, when the event ends.
        end = piece.rfind(b"\n\n")
        if end < 0:
            self._keep(piece)
            return []
        text = b"".join((*self._parts, piece[:end])) if self._parts else piece[:end]
        self._parts, self._length = [], 0
        self._keep(piece[end + 2 :])
        return self._events(text)

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of an event. A line end goes to the next piece, because an empty line may follow."""
        if rest.endswith(b"\n"):
            self._held = b"\n"
            rest = rest[:-1]
        if rest:
            self._parts.append(rest)
            self._length += len(rest)
            if self._length > EVENT_LIMIT:
                raise OverflowError(f"an event of more than {EVENT_LIMIT >> 20} MiB")

    def _events(self, text: bytes) -> list[str]:
        events: list[str] = []
        skip = self._skip
        for block in text.decode("utf-8", "replace").split("\n\n"):
            if skip and block.startswith(skip):
                self.unwanted += 1
                continue
            data = _data(block)
            if data:
                events.append(data)
        return events

    def _without_byte_order_mark(self, piece: bytes) -> bytes:
        """Remove a byte-order mark from the start. A possible beginning of it is kept until more bytes arrive."""
        start = (self._start or b"") + piece
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_MARK)

    def _normalise(self, piece: bytes) -> bytes:
        """Convert all line ends to LF.

        A CR ends a line immediately, so that an LF at the start of the next piece belongs to it.
        """
        if self._returned and piece:
            self._returned, piece = False, piece.removeprefix(b"\n")
        if piece.endswith(b"\r"):
            self._returned = True
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


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
