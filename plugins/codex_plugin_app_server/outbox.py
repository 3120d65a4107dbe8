"""The messages on their way to one client."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Outbox"]

_MOST_BYTES = 8 << 20
"""Deltas are dropped beyond this size of the queue, and the client is read no further."""

_TOO_MANY_BYTES = 4 * _MOST_BYTES
"""The maximum length of the queue behind the current message. If one more message arrives, the client has stopped reading and
is disconnected.
"""


class Outbox:
    """A bounded queue. Putting never waits, because a slow client must not stop a thread."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._size = 0  # of what has not left
        self._queued = 0  # of that, what has not been taken
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._overflowed = asyncio.Event()
        self.closed = False

    def put(self, message: bytes, *, droppable: bool = False) -> None:
        """Queue a message, or close the queue of a client that does not read.

        Args:
            droppable: Whether a later message contains everything that this one says.
        """
        if self.closed or (droppable and self._size >= _MOST_BYTES):
            return
        if self._queued >= _TOO_MANY_BYTES:
            self._messages.clear()
            self._overflowed.set()
            self.close()
            return
        self._messages.append(message)
        self._size += len(message)
        self._queued += len(message)
        if self._size >= _MOST_BYTES:
            self._has_room.clear()
        self._changed.set()

    async def take(self) -> list[bytes]:
        """Wait for messages and return all of them. Empty after the end."""
        while not self._messages and not self.closed:
            self._changed.clear()
            await self._changed.wait()
        taken = list(self._messages)
        self._messages.clear()
        self._queued = 0
        return taken

    def sent(self, messages: list[bytes]) -> None:
        """Take note that messages have left."""
        self._size -= sum(map(len, messages))
        if self._size < _MOST_BYTES:
            self._has_room.set()

    async def room(self) -> None:
        """Wait until the client has read enough to be heard again."""
        await self._has_room.wait()

    async def overflow(self) -> None:
        """Wait until the client has stopped reading for too long."""
        await self._overflowed.wait()

    def close(self) -> None:
        """Accept no further messages. Queued messages can still be taken."""
        self.closed = True
        self._changed.set()
        self._has_room.set()
