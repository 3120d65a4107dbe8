"""The requests of one connection to a server on loopback."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

__all__ = ["MalformedError", "RecordedRequest", "read_requests"]

_PIECE = 262_144


class MalformedError(Exception):
    """A request is not valid HTTP/1.1. The text says why."""


@attrs.define(kw_only=True)
class RecordedRequest:
    """A received request.

    Attributes:
        headers: The headers, with names in lower case.
        body: The body. If it was compressed (``content-encoding: zstd``), its content.
        connection: The number of the TCP connection, from 1.
        received_at: ``time.monotonic()`` of its first byte.
        answered_at: ``time.monotonic()`` when the answer's last byte was passed to the system; 0 before that.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = attrs.field(repr=False)
    connection: int
    received_at: float
    answered_at: float = 0.0

    @property
    def json(self) -> dict[str, Any]:
        """The body."""
        value: dict[str, Any] = json.loads(self.body)
        return value


def read_requests(connection: socket.socket, number: int) -> Iterator[RecordedRequest]:
    """Yield the requests of a connection, until the client closes it.

    Args:
        number: The number of the connection.

    Raises:
        MalformedError: A request is not valid HTTP/1.1. The text says why.
        OSError: The connection broke.
    """
    reader = _Reader(connection)
    while reader.more():
        received_at = time.monotonic()
        head = reader.until(b"\r\n\r\n")
        if head is None:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise MalformedError(f"the request begins with {first[:100]!r}, not with METHOD PATH HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise MalformedError(f"the header {line[:100]!r} has no colon")
            headers[name.strip().lower()] = value.strip()
        body = _body(reader, headers)
        if body is None:
            return
        yield RecordedRequest(
            method=words[0],
            path=words[1],
            headers=headers,
            body=_decompress(body, headers.get("content-encoding", "")),
            connection=number,
            received_at=received_at,
        )


class _Reader:
    """Reads from a connection and keeps data that is not requested yet."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._kept = b""

    def more(self) -> bool:
        """Wait for the next byte. Return False if the client has closed the connection."""
        if not self._kept:
            self._kept = self._connection.recv(_PIECE)
        return bool(self._kept)

    def until(self, end: bytes) -> bytes | None:
        """Read up to ``end`` and return the data before it, or None if the connection was closed first."""
        while end not in self._kept:
            more = self._connection.recv(_PIECE)
            if not more:
                return None
            self._kept += more
        found, _, self._kept = self._kept.partition(end)
        return found

    def exactly(self, count: int) -> bytes | None:
        """Return this many bytes, or None if the connection was closed before them."""
        parts, have = [self._kept], len(self._kept)
        while have < count:
            more = self._connection.recv(_PIECE)
            if not more:
                return None
            parts.append(more)
            have += len(more)
        whole = b"".join(parts)
        self._kept = whole[count:]
        return whole[:count]


def _body(reader: _Reader, headers: Mapping[str, str]) -> bytes | None:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise MalformedError(f"content-length is {length!r}, not a number of bytes")
        return reader.exactly(int(length))
    parts: list[bytes] = []
    while (line := reader.until(b"\r\n")) is not None:
        size = line.partition(b";")[0].strip()
        try:
            count = int(size, 16)
        except ValueError:
            raise MalformedError(f"a chunk begins with {size[:100]!r}, not with its size") from None
        chunk = reader.exactly(count + 2)
        if chunk is None:
            return None
        if not count:
            return b"".join(parts)
        parts.append(chunk[:-2])
    return None


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding != "zstd":
        return body
    import zstandard  # type: ignore[import-not-found,unused-ignore]

    try:
        content: bytes = zstandard.ZstdDecompressor().decompressobj().decompress(body)
    except zstandard.ZstdError as error:
        raise MalformedError(f"the body is not compressed with zstd: {error}") from error
    return content
