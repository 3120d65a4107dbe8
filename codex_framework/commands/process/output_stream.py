"""A stream of live output to one reader.

Apart from ``running``: it knows readers and no process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from codex_framework.contract.roles.commands import OutputChunk

__all__ = ["OutputStream"]

_MAX_BYTES = 1 << 20


class OutputStream:
    """A queue of output chunks for one reader.

    Args:
        ended: Whether the output has already ended.
        resume: Called when a full queue has room again. Its owner adds no chunks while the queue is full, so that nothing is lost.
            By default, the queue holds at most 1 MiB, however slow the reader is, and loses the oldest chunks.
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
        """Whether no more chunks should be added for now."""
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
