"""Events on their way from a thread to one listener."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from codex_framework.contract.protocol.events import Event, EventMsg, Request, WarningEvent

__all__ = ["Subscription"]


class Subscription:
    """A queue of events with one reader.

    ``put`` never waits, because a slow client must not stop a thread. Iteration takes queued events without going through the event
    loop, so thousands of deltas cost little. A reader that falls ``limit`` events behind loses deltas. A reader that falls four
    times as
    far behind is ended, with a warning as its last event.

    Args:
        on_close: Called once, when the subscription is closed.
        limit: Maximum number of unread events.
        answers: Whether this listener can answer requests.
        only: The classes of the events to deliver, with those derived from them. By default, all.
    """

    def __init__(
        self,
        on_close: Callable[[Subscription], None],
        *,
        limit: int = 10_000,
        answers: bool = True,
        only: tuple[type[EventMsg], ...] | None = None,
    ) -> None:
        self.answers = answers
        self._only = only
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._on_close = on_close
        self._limit = limit
        self._ended = False
        self._closed = False

    def can_answer(self, request: Request[Any]) -> bool:
        """Return whether this listener gets a request and can answer it."""
        return self.answers and (self._only is None or isinstance(request, self._only))

    def put(self, event: Event) -> None:
        """Add an event, unless it is of a class that this listener does not want."""
        if self._ended or (self._only is not None and not isinstance(event.msg, self._only)):
            return
        behind = len(self._events)
        if behind >= self._limit:
            if event.msg.is_delta:
                return
            if behind >= 4 * self._limit:
                self._events.append(
                    Event(
                        "",
                        WarningEvent(
                            f"this client is {behind} events behind and was disconnected", slug="listener-behind"
                        ),
                    )
                )
                self.answers = False
                self.end()
                return
        self._events.append(event)
        if self._waiter is not None:
            self._wake()

    def end(self) -> None:
        """End the events. Queued events can still be read."""
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
        """Yield events until the thread has shut down or the subscription is closed."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event."""
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._events.popleft()

    async def each(self, function: Callable[[Event], None]) -> None:
        """Call a function with every event, until the thread has shut down."""
        async for event in self:
            function(event)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
