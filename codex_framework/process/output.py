"""Output of a command, kept in bounded memory: the first and the last half MiB of it, however much there was."""

from __future__ import annotations

__all__ = ["CappedOutput", "decode", "omission_line", "split_incomplete"]

CAP = 1 << 20
"""Bytes kept of one stream (Codex: 1 MiB, in two halves)."""

_LONGEST_CHAR = 4


def omission_line(omitted: int) -> str:
    """The line that stands where bytes were dropped."""
    return f"... {omitted} bytes omitted ..."


def decode(data: bytes | bytearray) -> str:
    """UTF-8 to text; each undecodable sequence becomes one U+FFFD."""
    return data.decode("utf-8", "replace")


def split_incomplete(data: bytes | bytearray) -> int:
    """Where ``data`` must be cut so that it does not end within a character: its length, or up to 3 bytes less.

    Bytes that can no longer become a character are not held back.
    """
    size = len(data)
    for back in range(1, min(_LONGEST_CHAR, size + 1)):
        byte = data[size - back]
        if byte < 0x80:
            return size
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF5 else 1
            return size - back if needed > back else size
    return size


def _skip_continuation(data: bytes | bytearray) -> int:
    """How many bytes at the start belong to a character that began before ``data``: 0 to 3."""
    for index in range(min(_LONGEST_CHAR - 1, len(data))):
        if data[index] & 0xC0 != 0x80:
            return index
    return min(_LONGEST_CHAR - 1, len(data))


class CappedOutput:
    """Bytes of a stream: all of them up to ``cap``, then the first half and the last half.

    Appending costs amortised constant time per byte, and memory is at most ``1.25 * cap`` plus one chunk.

    Attributes:
        total: Bytes appended in all.
    """

    __slots__ = ("_half", "_head", "_slack", "_tail", "total")

    def __init__(self, cap: int = CAP) -> None:
        self._half = cap // 2
        self._slack = self._half + max(cap // 4, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def append(self, data: bytes) -> None:
        """Add what was read."""
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
        """An independent copy."""
        twin = CappedOutput(self._half * 2)
        twin._head[:] = self._head
        twin._tail[:] = self._tail
        twin.total = self.total
        return twin

    def _kept(self) -> tuple[bytearray, bytearray | bytes]:
        """Head and tail, cut at character borders where something is missing between them."""
        if self.total <= 2 * self._half:
            return self._head, self._tail
        tail = self._tail[-self._half :]
        return self._head[: split_incomplete(self._head)], tail[_skip_continuation(tail) :]

    @property
    def omitted(self) -> int:
        """Bytes that were dropped between head and tail, without those of a character that was cut there."""
        return max(0, self.total - 2 * self._half)

    def text(self) -> str:
        """What was kept, decoded; nothing marks the gap."""
        head, tail = self._kept()
        return decode(head + tail)

    def marked_text(self) -> str:
        """What was kept, decoded, with a line in the gap that says how many bytes are missing."""
        if not self.omitted:
            return self.text()
        head, tail = self._kept()
        return f"{decode(head)}\n{omission_line(self.omitted)}\n{decode(tail)}"

    def take_incomplete(self) -> bytes:
        """Remove and return a character's beginning at the very end (0 to 3 bytes): the next buffer starts with it."""
        last = self._tail or self._head
        cut = split_incomplete(last)
        rest = bytes(last[cut:])
        del last[cut:]
        self.total -= len(rest)
        return rest
