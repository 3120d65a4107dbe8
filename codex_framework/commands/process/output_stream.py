"""A stream of live output to one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from codex_framework.contract.roles.commands import OutputChunk

__all__ = ["OutputStream"]

_MAX_BYTES = 1 << 20


class OutputStream:
    """A queue of output chunks for one reader. It holds at most 1 MiB, however slow the reader is.

    Args:
        ended: Whether the output has already ended.
    """

    def __init__(self, *, ended: bool) -> None:
        self._queue: deque[OutputChunk] = deque()
        self._size = 0
        self._ended = ended
        self._changed = asyncio.Event()

    def put(self, chunk: OutputChunk) -> None:
        """Add a chunk. If the queue is too large, the oldest chunks are dropped."""
        self._queue.append(chunk)
        self._size += len(chunk.data)
        while self._size > _MAX_BYTES and len(self._queue) > 1:
            self._size -= len(self._queue.popleft().data)
        self._changed.set()

    def end(self) -> None:
        """Mark the end of the output."""
        self._ended = True
        self._changed.set()

    async def read(self) -> AsyncIterator[OutputChunk]:
        """Yield the chunks until the end."""
        while True:
            while self._queue:
                chunk = self._queue.popleft()
                self._size -= len(chunk.data)
                yield chunk
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()
