"""The body of a response as events: server-sent events, or one JSON value on each line.

A server may also ignore that it was asked for a stream, or answer with a web page.
"""

from __future__ import annotations

from codex_lib_model_client.sse import EVENT_LIMIT, EventSplitter

__all__ = ["BodySplitter", "LineSplitter", "PageError"]

_MARK = b"\xef\xbb\xbf"
_SPACE = 1024
"""Number of bytes that are kept of the space before a body."""


class PageError(Exception):
    """The server answered with a page for people."""


class BodySplitter:
    """Splits a body into events by its first character, because servers send wrong content types.

    Args:
        skip: As for :class:`~codex_lib_model_client.sse.EventSplitter`.

    Attributes:
        unwanted: Number of pieces of a body that is not a stream, and of skipped events. They show that the server is working.
        whole: Whether the body is one JSON value and not a stream.
    """

    def __init__(self, skip: str = "") -> None:
        self.whole = False
        self._begun = False
        self._start = b""
        self._pieces: list[bytes] = []
        self._length = 0
        self._events = EventSplitter(skip)

    @property
    def unwanted(self) -> int:
        """The number of parts that are not returned."""
        return len(self._pieces) + self._events.unwanted

    def feed(self, piece: bytes) -> list[str]:
        """Return the events that this piece completes, in order.

        Raises:
            OverflowError: An event, or the whole body, is too long.
            PageError: The body is a web page.
        """
        if self._begun:
            return self._whole_piece(piece) if self.whole else self._events.feed(piece)
        piece = self._start + piece
        text = piece.removeprefix(_MARK).lstrip()
        if not text or _MARK.startswith(piece):
            self._start = piece[-_SPACE:]  # of endless space, only the end can belong to an event
            return []
        self._begun = True
        if text.startswith(b"<"):
            raise PageError
        self.whole = text.startswith((b"{", b"["))
        return self._whole_piece(text) if self.whole else self._events.feed(piece)

    def rest(self) -> list[str]:
        """Return the JSON values of a body that is no stream, once: one, or one on each line."""
        text = b"".join(self._pieces).decode("utf-8", "replace").strip()
        self._pieces.clear()
        lines = [line.strip() for line in text.split("\n")]
        if len(lines) > 1 and all(line.startswith("{") and line.endswith("}") for line in lines if line):
            return [line for line in lines if line]
        return [text] if text else []

    def _whole_piece(self, piece: bytes) -> list[str]:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > EVENT_LIMIT:
            raise OverflowError(f"a response of more than {EVENT_LIMIT >> 20} MiB")
        return []


class LineSplitter:
    """Splits a body into its lines, each of which is an event (NDJSON). Empty lines are left out.

    Attributes:
        unwanted: Number of empty lines. They show that the server is working.
    """

    def __init__(self) -> None:
        self.unwanted = 0
        self._begun = False
        self._line: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> list[str]:
        """Return the events that this piece completes, in order.

        Raises:
            OverflowError: An event is too long.
            PageError: The body is a web page.
        """
        *ends, rest = piece.split(b"\n")
        events: list[str] = []
        for end in ends:
            events.extend(self._event(end))
        self._line.append(rest)
        self._length += len(rest)
        if self._length > EVENT_LIMIT:
            raise OverflowError(f"an event of more than {EVENT_LIMIT >> 20} MiB")
        return events

    def rest(self) -> list[str]:
        """Return the last line, if it has no end, once."""
        return self._event(b"")

    def _event(self, end: bytes) -> list[str]:
        text = b"".join((*self._line, end)).removeprefix(_MARK).decode("utf-8", "replace").strip()
        self._line, self._length = [], 0
        if not text:
            self.unwanted += 1
            return []
        if not self._begun and text.startswith("<"):
            raise PageError
        self._begun = True
        return [text]
