"""A parser for HTTP/1.1 responses that arrive in pieces of any size. It does no I/O."""

from __future__ import annotations

from codex_framework.toolkit.model_server.transport_errors import BadAnswerError

__all__ = ["AnswerParser", "BadAnswerError"]

_HEAD_LIMIT = 65_536
_SIZE_LINE_LIMIT = 1_024


class AnswerParser:
    """The parser of one response.

    Attributes:
        status: The status code, or 0 until the head is complete.
        phrase: The reason phrase after the status.
        headers: The headers, with names in lower case. The values of repeated headers are joined with a comma.
        complete: Whether the end of the body has been received.
    """

    def __init__(self) -> None:
        self.status = 0
        self.phrase = ""
        self.headers: dict[str, str] = {}
        self.complete = False
        self._buffer = b""
        self._kept_open = False
        self._chunked = False
        self._left: int | None = None
        """Number of bytes left in the body, or in the current chunk including its line end.

        None means that the body ends when the connection closes.
        """
        self._extra = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used for another request."""
        return self.complete and self._kept_open and not self._extra

    def feed(self, data: bytes) -> bytes:
        """Parse a piece of the response and return the body bytes in it.

        Raises:
            BadAnswerError: The data is not a valid HTTP response.
        """
        if not self.status:
            data = self._head(data)
            if not self.status:
                return b""
        if self.complete:
            self._extra = self._extra or bool(data)
            return b""
        if self._chunked:
            return self._chunks(data)
        if self._left is None:
            return data
        body, self._extra = data[: self._left], len(data) > self._left
        self._left -= len(body)
        self.complete = self._left == 0
        return body

    def end(self) -> None:
        """Handle the end of the connection, which is also the end of a body without a length."""
        if self.status and not self._chunked and self._left is None:
            self.complete = True

    def _head(self, data: bytes) -> bytes:
        """Parse the head, and return the data after it."""
        self._buffer += data
        while True:
            head, separator, rest = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                if len(self._buffer) > _HEAD_LIMIT:
                    raise BadAnswerError("the head of the response is too long")
                if self._buffer and not b"HTTP/".startswith(self._buffer[:5]):
                    raise BadAnswerError("the response is not HTTP")
                return b""
            self._buffer = rest
            version, status, phrase = _status_line(head)
            if status >= 200:
                break
        self._buffer = b""
        self.status, self.phrase = status, phrase
        for line in head.decode("latin-1").split("\r\n")[1:]:
            name, _, value = line.partition(":")
            key = name.strip().lower()
            self.headers[key] = f"{self.headers[key]}, {value.strip()}" if key in self.headers else value.strip()
        self._begin_body(version)
        return rest

    def _begin_body(self, version: str) -> None:
        connection = self.headers.get("connection", "").lower()
        self._kept_open = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
        if self.status in (204, 304):
            self.complete = True
        elif self.headers.get("transfer-encoding", "").lower().endswith("chunked"):
            self._chunked, self._left = True, 0
        elif (length := self.headers.get("content-length")) is not None:
            if not length.isdecimal():
                raise BadAnswerError(f"the response has the content-length {length!r}")
            self._left = int(length)
            self.complete = self._left == 0
        else:
            self._kept_open = False

    def _chunks(self, data: bytes) -> bytes:
        """Decode chunked data and return the body bytes in it.

        The remaining length of a chunk includes its line end, which is not part of the body.
        """
        assert self._left is not None
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        pieces: list[bytes] = []
        start, end = 0, len(data)
        while start < end:
            if self._left:
                stop = min(start + self._left, end)
                self._left -= stop - start
                # This piece may contain none, one or both bytes of the line end.
                pieces.append(
                    data[start : stop - max(2 - self._left, 0)] if stop - start > max(2 - self._left, 0) else b""
                )
                start = stop
                continue
            line_end = data.find(b"\r\n", start)
            if line_end < 0:
                if end - start > _SIZE_LINE_LIMIT:
                    raise BadAnswerError("a chunk of the response has no size")
                self._buffer = data[start:]
                break
            size = _size(data[start:line_end])
            if size == 0:
                self._trailer(data[start:])
                break
            start = line_end + 2
            self._left = size + 2
        return b"".join(pieces)

    def _trailer(self, data: bytes) -> None:
        """Parse the last chunk, starting at its size, and the trailer after it."""
        _, separator, rest = data.partition(b"\r\n\r\n")
        if not separator:
            self._buffer = data
            return
        self.complete, self._extra = True, bool(rest)


def _status_line(head: bytes) -> tuple[str, int, str]:
    line = head.partition(b"\r\n")[0].decode("latin-1")
    version, _, rest = line.partition(" ")
    status, _, phrase = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or len(status) != 3 or not status.isdecimal():
        raise BadAnswerError("the response is not HTTP")
    return version, int(status), phrase.strip()


def _size(line: bytes) -> int:
    try:
        size = int(line.partition(b";")[0], 16)
    except ValueError:
        size = -1
    if size < 0:
        raise BadAnswerError("a chunk of the response has no size")
    return size
