"""The output of a command in bounded memory: the first and the last half MiB are kept."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable

from codex_framework.contract.roles.commands import OutputChunk

__all__ = ["CappedOutput", "OutputStream", "decode", "omission_line", "split_incomplete"]

CAP = 1 << 20
"""Maximum number of bytes kept of one stream (Codex: 1 MiB, in two halves)."""

_MAX_CHAR_BYTES = 4

_LONGEST_WORD = 4096
"""Bytes of a word that is not cut."""


def omission_line(omitted: int) -> str:
    """Return the line that replaces dropped bytes."""
    return f"... {omitted} bytes omitted ..."


def decode(data: bytes | bytearray) -> str:
    """Decode UTF-8. Each undecodable sequence becomes one U+FFFD."""
    return data.decode("utf-8", "replace")


def split_incomplete(data: bytes | bytearray) -> int:
    """Return where to cut ``data`` so that it does not end within a character: its length, or up to 3 bytes less.

    Bytes that cannot become a character any more are not cut off.
    """
    size = len(data)
    for distance in range(1, min(_MAX_CHAR_BYTES, size + 1)):
        byte = data[size - distance]
        if byte < 0x80:
            return size
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF5 else 1
            return size - distance if needed > distance else size
    return size


def _skip_continuation(data: bytes | bytearray) -> int:
    """Return how many bytes at the start (0 to 3) belong to a character that began earlier."""
    for index in range(min(_MAX_CHAR_BYTES - 1, len(data))):
        if data[index] & 0xC0 != 0x80:
            return index
    return min(_MAX_CHAR_BYTES - 1, len(data))


def _last_word(data: bytes | bytearray) -> int:
    """Return where the last word begins, which is at the end if there is whitespace. Longer words are cut."""
    start = max(len(data) - _LONGEST_WORD, 0)
    return start + len(re.sub(rb"\S+\Z", b"", bytes(data[start:])))


def _first_word(data: bytes | bytearray) -> int:
    """Return where the first word ends. Longer words are cut."""
    start = bytes(data[:_LONGEST_WORD])
    return len(start) - len(re.sub(rb"\A\S+", b"", start))


class CappedOutput:
    """The bytes of a stream: all of them up to ``cap``, then only the first half and the last half.

    Appending takes amortised constant time per byte. Memory use is at most ``1.25 * cap`` plus one chunk.

    Args:
        whole_words: Whether words are never cut at the gap, so that no unrecognisable half of a secret remains.

    Attributes:
        total: Total number of appended bytes.
    """

    __slots__ = ("_half", "_head", "_slack", "_tail", "_whole_words", "total")

    def __init__(self, cap: int = CAP, *, whole_words: bool = False) -> None:
        self._whole_words = whole_words
        self._half = cap // 2
        self._slack = self._half + max(cap // 4, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def append(self, data: bytes) -> None:
        """Append bytes."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            if len(data) <= room:
                return
            data = data[room:]
        if len(data) >= self._half:
            self._tail[:] = data[len(data) - self._half :]
            return
        self._tail += data
        if len(self._tail) > self._slack:
            del self._tail[: len(self._tail) - self._half]

    def copy(self) -> CappedOutput:
        """Return an independent copy."""
        other = CappedOutput(self._half * 2, whole_words=self._whole_words)
        other._head[:] = self._head
        other._tail[:] = self._tail
        other.total = self.total
        return other

    def _parts(self) -> tuple[bytearray, bytearray | bytes]:
        """Return the head and the tail, cut at character boundaries if there is a gap between them."""
        if self.total <= 2 * self._half:
            return self._head, self._tail
        tail = self._tail[-self._half :]
        if self._whole_words:
            return self._head[: _last_word(self._head)], tail[_first_word(tail) :]
        return self._head[: split_incomplete(self._head)], tail[_skip_continuation(tail) :]

    @property
    def omitted(self) -> int:
        """Number of bytes dropped between head and tail, without the bytes of characters cut at the gap."""
        return max(0, self.total - 2 * self._half)

    def text(self) -> str:
        """Return the kept bytes as text, without a mark at the gap."""
        head, tail = self._parts()
        return decode(head + tail)

    def marked_text(self) -> str:
        """Return the kept bytes as text. A line at the gap states the number of missing bytes."""
        if not self.omitted:
            return self.text()
        head, tail = self._parts()
        return f"{decode(head)}\n{omission_line(self.omitted)}\n{decode(tail)}"

    def take_incomplete(self, *, word: bool = False) -> bytes:
        """Remove and return an incomplete character (0 to 3 bytes) at the end, so that the next buffer can start with it.

        Args:
            word: Whether to take the last word, which may be incomplete as well.
        """
        last = self._tail or self._head
        cut = _last_word(last) if word and self._whole_words else split_incomplete(last)
        rest = bytes(last[cut:])
        del last[cut:]
        self.total -= len(rest)
        return rest


_MAX_BYTES = 1 << 20


class OutputStream:
    """A queue of output chunks for one reader.

    Args:
        ended: Whether the output has already ended.
        resume: Called when a full queue has room again. Its owner adds no chunks while the queue is full, so that nothing is
            lost. By default, the queue contains at most 1 MiB and drops the oldest chunks if the reader is slow.
    """

    def __init__(self, *, ended: bool, resume: Callable[[], None] | None = None) -> None:
        self._resume = resume
        self._queue: deque[OutputChunk] = deque()
        self._size = 0
        self._ended = ended
        self._changed = asyncio.Event()

    def put(self, chunk: OutputChunk) -> None:
        """Add a chunk. If the queue is too large, and the reader may lose something, the oldest chunks are dropped."""
        self._queue.append(chunk)
        self._size += len(chunk.data)
        while self._resume is None and self._size > _MAX_BYTES and len(self._queue) > 1:
            self._size -= len(self._queue.popleft().data)
        self._changed.set()

    @property
    def full(self) -> bool:
        """Whether no more chunks should be added at the moment."""
        return self._resume is not None and self._size > _MAX_BYTES

    def end(self) -> None:
        """Mark the end of the output."""
        self._ended = True
        self._changed.set()

    async def read(self) -> AsyncIterator[OutputChunk]:
        """Yield the chunks until the end."""
        while True:
            while self._queue:
                was_full = self.full
                chunk = self._queue.popleft()
                self._size -= len(chunk.data)
                if was_full and not self.full and self._resume is not None:
                    self._resume()
                yield chunk
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()
