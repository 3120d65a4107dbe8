"""Events on their way from a thread to one listener."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from codex_framework.protocol.events import Event

__all__ = ["Subscription"]


class Subscription:
    """A queue of events with one reader.

    ``put`` never waits: a thread must not stand still because a client is slow. Iteration takes what is there without going
    through the event loop, so thousands of deltas cost little.
    """

    def __init__(self, on_close: Callable[[Subscription], None]) -> None:
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._on_close = on_close
        self._ended = False
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        if self._ended:
            return
        self._events.append(event)
        self._wake()

    def end(self) -> None:
        """No more events will come; what is queued can still be read."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """Stop listening."""
        self._events.clear()
        self.end()
        if not self._closed:
            self._closed = True
            self._on_close(self)

    def __aiter__(self) -> AsyncIterator[Event]:
        """Events until the thread has shut down or the subscription is closed."""
        return self

    async def __anext__(self) -> Event:
        """The next event."""
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._events.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
