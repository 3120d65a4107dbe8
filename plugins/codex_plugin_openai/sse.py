"""Server-sent events, cut out of whatever pieces the network delivers."""

from __future__ import annotations

__all__ = ["EventSplitter"]

# These make up most of a long patch and nobody needs them: the finished item has the arguments.
_UNWANTED = "event: response.function_call_arguments.delta"


class EventSplitter:
    """Takes bytes as they come and gives the data of every event that is complete.

    Lines may end in LF, CRLF or CR, pieces may begin and end anywhere, also within a character. Of an event's fields
    only ``data`` counts: the payload says itself what it is. An event that the stream breaks off in is dropped, as the
    standard has it.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._middle: list[bytes] = []
        self._fresh = True

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that this piece completes, in order."""
        if self._fresh:
            piece = self._without_mark(piece)
        if b"\n" not in piece and b"\r" not in piece:
            # The middle of one long line: joined once, when its end has come.
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
        found: list[str] = []
        for block in buffer[:end].decode("utf-8", "replace").split("\n\n"):
            if block.startswith(_UNWANTED):
                continue
            data = _data(block)
            if data:
                found.append(data)
        return found

    def _without_mark(self, piece: bytes) -> bytes:
        """The first piece without its byte-order mark; one cut in two is so unlikely that it may cost an event."""
        self._fresh = not piece
        return piece.removeprefix(b"\xef\xbb\xbf")

    @staticmethod
    def _normalised(buffer: bytes) -> bytes:
        """All line ends as LF. A CR at the very end waits: its LF may be in the next piece."""
        held = buffer.endswith(b"\r")
        body = buffer[:-1] if held else buffer
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return body + b"\r" if held else body


def _data(block: str) -> str:
    # The usual event: one "event:" line and one "data:" line.
    start = block.rfind("\ndata:")
    if start < 0:
        start = 0 if block.startswith("data:") else -1
        if start < 0:
            return ""
        value = block[5:]
    else:
        value = block[start + 6 :]
    if "\n" in value or "data:" in block[:start]:
        return _several(block)
    return value.removeprefix(" ")


def _several(block: str) -> str:
    values: list[str] = []
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        if name == "data":
            values.append(value.removeprefix(" "))
    return "\n".join(values)
