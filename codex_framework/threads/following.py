"""The events of one turn, from its start to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from codex_framework.contract.protocol.events import (
    EventMsg,
    SessionConfiguredEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
)
from codex_framework.threads.subscription import Subscription
from codex_framework.threads.tasks import Tasks

__all__ = ["UNLIMITED", "followed"]

UNLIMITED = 1 << 62
"""The program that runs a turn reads its events itself, so none has to be dropped."""


async def followed(
    subscription: Subscription, start: Callable[[], Awaitable[str]], tasks: Tasks
) -> AsyncIterator[EventMsg]:
    """Start a turn and yield the events of the thread to the turn's end. If no turn starts, yield what is there.

    Args:
        start: Starts the turn and returns its id.
    """
    before = tasks.begun
    try:
        turn_id = await start()
        if tasks.begun == before and not tasks.pending:
            subscription.end()  # no turn comes; the queue has the refusal, if there was one
        head = True
        async for event in subscription:
            if head and isinstance(event.msg, SessionConfiguredEvent):
                head = False
                continue
            yield event.msg
            if event.id == turn_id and isinstance(event.msg, (TurnCompleteEvent, TurnAbortedEvent)):
                return
    finally:
        subscription.close()
