"""Messages on their way to the realtime server, at most so many of each kind."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from codex_plugin_realtime.messages import encoded

__all__ = ["Outbox"]

_LIMITS = {"audio": 256, "text": 64, "output": 64}
"""The maximum number of waiting messages of a kind, as in Codex. ``output`` is speech of the thread, and answers to the server."""


class Outbox:
    """The messages, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._counts = dict.fromkeys(_LIMITS, 0)
        self._added = asyncio.Event()
        self._taken = asyncio.Event()

    def has_room(self, kind: str) -> bool:
        """Return whether another message of a kind may be added."""
        return self._counts[kind] < _LIMITS[kind]

    def add(self, kind: str, messages: Iterable[Mapping[str, Any]]) -> None:
        """Add the messages of one step, which stay together."""
        for message in messages:
            self._waiting.append((kind, encoded(message)))
            self._counts[kind] += 1
        self._added.set()

    async def add_when_free(self, kind: str, messages: Iterable[Mapping[str, Any]]) -> None:
        """Wait until there is room, and add the messages."""
        while not self.has_room(kind):
            self._taken.clear()
            await self._taken.wait()
        self.add(kind, messages)

    async def next(self) -> bytes:
        """Wait for a message, and take it."""
        while not self._waiting:
            self._added.clear()
            await self._added.wait()
        kind, message = self._waiting.popleft()
        self._counts[kind] -= 1
        self._taken.set()
        return message
