"""Asks the model and follows its response: deltas, items, usage."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import assert_never

from codex_framework.contract.protocol.events.message import (
    AgentMessageContentDeltaEvent,
    AgentReasoningSectionBreakEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
)
from codex_framework.contract.protocol.events.turn import TokenCountEvent
from codex_framework.contract.protocol.items import CustomToolCall, Message, Reasoning, ResponseItem
from codex_framework.contract.protocol.turn_items import older_events, turn_item
from codex_framework.contract.roles.models import (
    Completed,
    ItemAdded,
    ItemDone,
    ModelEvent,
    ModelRequest,
    RateLimits,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["Sampling"]

TAIL_PATIENCE_S = 2.0
"""How long a stream may go on after its response is complete, in seconds."""

PREVIEW_PAUSE_S = 0.5
"""Least time between two previews of input that is still being written, in seconds (Codex: 500 ms)."""


class Sampling:
    """Follows one response.

    Args:
        take: Takes each item when it is complete, before clients are told of it.
        announce: Whether clients hear the response.
        of_history: Whether the request holds the history as it is.
    """

    def __init__(
        self,
        scope: TurnScope,
        interception: Interception,
        take: Callable[[ResponseItem], None],
        *,
        announce: bool = True,
        of_history: bool = True,
    ) -> None:
        self._scope = scope
        self._interception = interception
        self._take = take
        self._announce = announce
        self._of_history = of_history
        self._previews: dict[str, tuple[str, str, list[str]]] = {}
        self._previewed_at = 0.0
        self.first_token_at: float | None = None

    async def run(self, request: ModelRequest) -> Completed | None:
        """Ask, and take the response to its end, so that its connection can be used again.

        Returns:
            How it was completed. None if the stream ended before that.

        Raises:
            ModelError: The provider, or an interceptor, failed.
            StopTurn: An interceptor ends the turn.
        """
        scope = self._scope
        if scope.guards.request:
            request = await self._interception.request(request)
        scope.samples += 1
        scope.conversation.budget.request()
        completed: Completed | None = None
        stream = scope.client.stream(request)
        try:
            async with asyncio.timeout(None) as limit:
                async for event in self._seen(stream):
                    if isinstance(event, Completed):
                        completed = event
                        limit.reschedule(asyncio.get_running_loop().time() + TAIL_PATIENCE_S)
                        self._count(event)
                    else:
                        self._model_event(event)
        except Exception:  # the response is whole already: what comes after it can be missed
            if completed is None:
                raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return completed

    def _seen(self, stream: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
        """The stream as interceptors leave it."""
        return self._held_back(stream) if self._interception.holds_items else stream

    async def _held_back(self, stream: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
        """Pass on no text of the model before an interceptor has seen the whole of it."""
        async for event in stream:
            match event:
                case ItemDone(item) if isinstance(item, (Message, Reasoning)):
                    yield ItemDone(await self._interception.item(item))
                case TextDelta() | ReasoningDelta() | ReasoningPartAdded() | ItemAdded(Message() | Reasoning()):
                    continue
                case _:
                    yield event

    def _count(self, event: Completed) -> None:
        if event.usage is not None:
            info = self._scope.usage(event.usage, of_history=self._of_history)
            self._scope.emit(TokenCountEvent(info, self._scope.last_rate_limits))

    def _model_event(self, event: ModelEvent) -> None:
        """Take one event of the response."""
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()
        if not self._announce:
            self._quiet_event(event)
            return
        scope = self._scope
        match event:
            case TextDelta(item_id, delta):
                scope.emit(AgentMessageContentDeltaEvent(scope.thread_id, scope.turn_id, item_id, delta))
            case ReasoningDelta(item_id, delta, index, raw):
                kind = ReasoningRawContentDeltaEvent if raw else ReasoningContentDeltaEvent
                scope.emit(kind(scope.thread_id, scope.turn_id, item_id, delta, index))
            case ReasoningPartAdded(item_id, index):
                scope.emit(AgentReasoningSectionBreakEvent(item_id, index))
            case ToolInputDelta(item_id, delta):
                self._preview(item_id, delta)
            case ItemAdded(item):
                self._item_added(item)
            case ItemDone(item):
                self._take(item)
                self._item_done(item)
            case RateLimits(snapshot):
                scope.last_rate_limits = snapshot
            case Completed():
                pass  # taken by run()
            case _:
                assert_never(event)

    def _quiet_event(self, event: ModelEvent) -> None:
        """Take one event of a response that clients do not hear."""
        match event:
            case ItemDone(item):
                self._take(item)
            case RateLimits(snapshot):
                self._scope.last_rate_limits = snapshot
            case _:
                pass

    def _item_added(self, item: ResponseItem) -> None:
        shown = turn_item(item)
        if shown is not None:
            scope = self._scope
            scope.emit(ItemStartedEvent(scope.thread_id, scope.turn_id, shown, _now_ms()))
        elif isinstance(item, CustomToolCall):
            self._previews[item.id or ""] = (item.call_id, item.name, [item.input] if item.input else [])

    def _item_done(self, item: ResponseItem) -> None:
        scope = self._scope
        scope.emit(RawResponseItemEvent(item))
        shown = turn_item(item)
        if shown is None:
            return
        scope.emit(ItemCompletedEvent(scope.thread_id, scope.turn_id, shown, _now_ms()))
        for event in older_events(shown) or ():
            scope.emit(event)

    def _preview(self, item_id: str, delta: str) -> None:
        begun = self._previews.get(item_id)
        if begun is None:
            return
        call_id, name, parts = begun
        parts.append(delta)
        now = time.monotonic()
        if now - self._previewed_at < PREVIEW_PAUSE_S:
            return
        registered = self._scope.router.find(name)
        if registered is None or registered.preview is None:
            return
        with contextlib.suppress(Exception):  # a preview is a courtesy: whatever is wrong shows when the call is run
            event = registered.preview(call_id, "".join(parts))
            if event is not None:
                self._previewed_at = now
                self._scope.emit(event)


def _now_ms() -> int:
    return int(time.time() * 1000)
