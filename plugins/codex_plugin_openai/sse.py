"""A splitter for server-sent events that arrive in pieces of any size."""

from __future__ import annotations

__all__ = ["EventSplitter"]

# These events make up most of a long patch and are not needed: the finished item contains the arguments.
_UNWANTED = "event: response.function_call_arguments.delta"


class EventSplitter:
    """An incremental parser that returns the data of every complete event.

    Lines may end in LF, CRLF or CR. A piece may begin and end anywhere, even within a character. Only the field ``data`` of an
    event is used, because the payload contains its type. An event that the end of the stream cuts off is dropped, as the standard
    requires.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._middle: list[bytes] = []
        self._fresh = True

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes, in order."""
        if self._fresh:
            piece = self._without_byte_order_mark(piece)
        if b"\n" not in piece and b"\r" not in piece:
            # Part of one long line. The parts are joined once, when the line ends.
            self._middle.append(piece)
            return []
        buffer = b"".join((self._rest, *self._middle, piece))
        self._middle.clear()
        if b"\r" in buffer:
            buffer = self._normalised(buffer)
        end = buffer.rfind(b"\n\n")
        if end < 0:
            self._rest = buffer
            return []
        self._rest = buffer[end + 2 :]
        events: list[str] = []
        for block in buffer[:end].decode("utf-8", "replace").split("\n\n"):
            if block.startswith(_UNWANTED):
                continue
            data = _data(block)
            if data:
                events.append(data)
        return events

    def _without_byte_order_mark(self, piece: bytes) -> bytes:
        """Remove the byte-order mark from the first piece.

        A mark that is split between two pieces is not recognised. This is very unlikely and costs at most one event.
        """
        self._fresh = not piece
        return piece.removeprefix(b"\xef\xbb\xbf")

    @staticmethod
    def _normalised(buffer: bytes) -> bytes:
        """Convert all line ends to LF. A CR at the very end is kept, because its LF may be in the next piece."""
        ends_in_cr = buffer.endswith(b"\r")
        body = buffer[:-1] if ends_in_cr else buffer
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return body + b"\r" if ends_in_cr else body


def _data(block: str) -> str:
    # The usual event has one "event:" line and one "data:" line.
    start = block.rfind("\ndata:")
    if start < 0:
        start = 0 if block.startswith("data:") else -1
        if start < 0:
            return ""
        value = block[5:]
    else:
        value = block[start + 6 :]
    if "\n" in value or "data:" in block[:start]:
        return _joined_data(block)
    return value.removeprefix(" ")


def _joined_data(block: str) -> str:
    values: list[str] = []
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        if name == "data":
            values.append(value.removeprefix(" "))
    return "\n".join(values)
