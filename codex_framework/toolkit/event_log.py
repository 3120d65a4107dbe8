"""The newest events of a thread as JSON, for clients that lose their connection and come back."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import Event
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.clients import Events

__all__ = ["EventLog", "LoggedEvent"]


class LoggedEvent(NamedTuple):
    """An event in the log.

    Attributes:
        cursor: The position from which a reader continues after this event.
        data: The envelope as JSON: ``{"id", "msg", "number", "thread_id"?, "request_id"?}``.
    """

    number: int
    cursor: str
    data: bytes
    is_delta: bool


class EventLog:
    """Follows a thread, and keeps its newest events for any number of readers.

    A reader is just a cursor without a queue, so a slow or absent reader costs no memory, and each event is encoded once. If
    the log is full, deltas and then the oldest events are dropped. A reader that has missed an event gets an error and can
    continue from :attr:`oldest`; deltas do not count, because a later event has their content.

    Args:
        events: The events of a thread that was just started or resumed. Requests count as attended until :meth:`close` is called.
        on_event: Called with each event, before readers get it.
        most_events: How many events are kept.
        most_bytes: How many bytes of JSON are kept. An event that is larger is kept until the next one comes.
    """

    def __init__(
        self,
        events: Events,
        *,
        on_event: Callable[[Event], None] | None = None,
        most_events: int = 1_000,
        most_bytes: int = 4 << 20,
    ) -> None:
        self._events = events
        self._on_event = on_event
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._run = secrets.token_hex(4)
        self._kept: deque[LoggedEvent] = deque()
        self._size = 0
        self._lost = 0  # the newest dropped event that was no delta
        self._changed = asyncio.Event()
        self._ended = False
        self._following = asyncio.ensure_future(self._follow())

    @property
    def oldest(self) -> str:
        """The cursor before the oldest event that is kept."""
        return self._cursor(self._kept[0].number - 1 if self._kept else 0)

    @property
    def newest(self) -> str:
        """The cursor after the newest event."""
        return self._cursor(self._kept[-1].number if self._kept else 0)

    def after(self, cursor: str = "") -> list[LoggedEvent]:
        """Return the events after a cursor. Without one, all events since the thread was started or resumed.

        Raises:
            ThreadError: Some are no longer there, or the cursor is of an earlier run of the thread (``events-lost``).
        """
        number = self._number(cursor)
        if number is None or number < self._lost:
            raise ThreadError(
                f"events after {cursor or 'the start'!r} are no longer there",
                slug="events-lost",
                hint="Read the missed events from the record of the thread, then continue with the remaining events.",
            )
        found = []
        for event in reversed(self._kept):
            if event.number <= number:
                break
            found.append(event)
        return found[::-1]

    async def read(self, cursor: str = "") -> list[LoggedEvent]:
        """Return the events after a cursor as soon as there is one. Empty after the end. Raises the same error as :meth:`after`."""
        while not (found := self.after(cursor)) and not self._ended:
            await self._changed.wait()
        return found

    def close(self) -> None:
        """Stop following the thread. Readers come to the end of the log."""
        self._events.close()

    def _cursor(self, number: int) -> str:
        return f"{self._run}-{number}"

    def _number(self, cursor: str) -> int | None:
        """Return the number of a cursor. None if the cursor is not of this log."""
        if not cursor:
            return 0
        run, _, number = cursor.partition("-")
        newest = self._kept[-1].number if self._kept else 0
        known = (
            run == self._run and number.isascii() and number.isdigit() and len(number) < 20 and int(number) <= newest
        )
        return int(number) if known else None

    async def _follow(self) -> None:
        try:
            async for event in self._events:
                if self._on_event is not None:
                    self._on_event(event)
                data = encode_json(event).encode(errors="replace")
                if len(self._kept) >= self._most_events or self._size + len(data) > self._most_bytes:
                    await asyncio.sleep(0)  # readers that are not behind get what is dropped now
                    self._make_room(len(data))
                self._kept.append(LoggedEvent(event.number, self._cursor(event.number), data, event.msg.is_delta))
                self._size += len(data)
                self._wake()
        finally:
            self._ended = True
            self._wake()

    def _make_room(self, size: int) -> None:
        """Drop the deltas of the older half, and then the oldest events.

        It drops a quarter more than necessary, because readers get a turn before each drop.
        """
        older = [self._kept.popleft() for _ in range(len(self._kept) // 2)]
        self._size -= sum(len(event.data) for event in older if event.is_delta)
        self._kept.extendleft(event for event in reversed(older) if not event.is_delta)
        while self._kept and (
            4 * len(self._kept) > 3 * self._most_events or 4 * (self._size + size) > 3 * self._most_bytes
        ):
            dropped = self._kept.popleft()
            self._size -= len(dropped.data)
            if not dropped.is_delta:
                self._lost = dropped.number

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
