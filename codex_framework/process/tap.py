"""Output on its way to somebody who reads it as it comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from codex_framework.roles.tools import OutputChunk

__all__ = ["Tap"]

_MOST_BYTES = 1 << 20


class Tap:
    """Chunks on their way to one reader; holds at most 1 MiB, however slow that is.

    Args:
        ended: Whether the output has ended already.
    """

    def __init__(self, *, ended: bool) -> None:
        self._waiting: deque[OutputChunk] = deque()
        self._size = 0
        self._ended = ended
        self._changed = asyncio.Event()

    def put(self, chunk: OutputChunk) -> None:
        """Add a chunk; the oldest go where there are too many."""
        self._waiting.append(chunk)
        self._size += len(chunk.data)
        while self._size > _MOST_BYTES and len(self._waiting) > 1:
            self._size -= len(self._waiting.popleft().data)
        self._changed.set()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._changed.set()

    async def read(self) -> AsyncIterator[OutputChunk]:
        """The chunks, until the end."""
        while True:
            while self._waiting:
                chunk = self._waiting.popleft()
                self._size -= len(chunk.data)
                yield chunk
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()
