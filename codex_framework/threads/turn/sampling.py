"""Sends a request to the model and reads its response."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import get_args

from codex_framework.contract.errors import CodexError, ModelError
from codex_framework.contract.protocol.events.thread import ModelFallbackEvent, WarningEvent
from codex_framework.contract.protocol.events.turn import TokenCountEvent, TokenUsage
from codex_framework.contract.protocol.items import (
    Message,
    Reasoning,
    ResponseItem,
    UnknownItem,
)
from codex_framework.contract.roles.models import (
    AnsweredBy,
    Completed,
    ItemAdded,
    ItemDone,
    LeftOut,
    ModelEvent,
    ModelRequest,
    RateLimits,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
)
from codex_framework.threads.faults import Label, source_place
from codex_framework.threads.plugin_calls import await_with_timeout
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.model_requests import report_loss
from codex_framework.threads.turn.model_stream import (
    check_fields,
    check_item,
    check_limits,
    check_usage,
    open_stream,
    refuse_event,
)
from codex_framework.threads.turn.response_view import ResponseView
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["Sampling"]

_EVENTS = get_args(ModelEvent)

TAIL_PATIENCE_S = 2.0
"""How long a stream may continue after its response is complete, in seconds."""


class Sampling:
    """One request and its response.

    Args:
        take: Called with each completed item before clients receive it, and with the text that they see if it is not the item's.
        announce: Whether clients receive the response.
        of_history: Whether the request contains exactly the history.
    """

    def __init__(
        self,
        scope: TurnScope,
        interception: Interception,
        take: Callable[[ResponseItem, str | None], None],
        *,
        announce: bool = True,
        of_history: bool = True,
    ) -> None:
        self._scope = scope
        self._interception = interception
        self._take = take
        self._of_history = of_history
        self._view = ResponseView(scope, interception) if announce else None
        self.first_token_at: float | None = None
        self._answering = (scope.provider.id, scope.model.slug)

    async def run(self, request: ModelRequest) -> Completed:
        """Send the request and read the response to its end, so that its connection can be reused.

        Raises:
            ModelError: The provider, or an interceptor, failed. So did a provider that breaks its contract.
            StopTurn: An interceptor ends the turn.
        """
        try:
            if request.measure is None:
                completed = await self._exchange(request)
            else:
                completed = await self._scope.reports.telemetry.measure_sample(
                    request, self._scope.provider.id, self._exchange, lambda: self.first_token_at
                )
        except CodexError:
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            text = self._label.describe_failure("stream", error, source=self._scope.client.stream)
            raise ModelError(text) from error
        if completed is None:
            place = source_place(self._scope.client.stream)
            raise ModelError(
                "stream disconnected before completion: stream closed before response.completed"
                f" ({self._label}: stream() ended without Completed{place}."
                " Yield Completed last, and raise ModelError where a response breaks off.)",
                retryable=True,
            )
        return completed

    @property
    def _label(self) -> Label:
        return self._scope.conversation.host.models.label(self._scope.provider)

    async def _exchange(self, request: ModelRequest) -> Completed | None:
        scope = self._scope
        if scope.guards.request:
            request = await self._interception.request(request)
        scope.samples += 1
        scope.conversation.budget.request()
        completed: Completed | None = None
        stream = open_stream(scope.client, request)
        try:
            events = aiter(self._hold_back(stream) if self._interception.holds_items else stream)
            async for event in events:
                if isinstance(event, Completed):
                    check_usage(event, scope.client)
                    completed = event
                    self._report_usage(event.usage)
                    await self._drain(events)
                    break
                if isinstance(event, ItemDone):
                    await self._take_item(event)
                else:
                    self._take_event(event)
        except ModelError as error:
            if isinstance(error.usage, TokenUsage):
                self._report_usage(error.usage)
            raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return completed

    async def _drain(self, events: AsyncIterator[ModelEvent]) -> None:
        """Read the rest of a stream whose response is complete, for a limited time. It may be lost."""
        with contextlib.suppress(Exception):
            await await_with_timeout(TAIL_PATIENCE_S, self._read_rest(events))

    async def _read_rest(self, events: AsyncIterator[ModelEvent]) -> None:
        async for event in events:
            if isinstance(event, ItemDone):
                await self._take_item(event)
            elif not isinstance(event, Completed):
                self._take_event(event)

    async def _hold_back(self, stream: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
        """Hold back text of the model until interceptors have checked all of it."""
        async for event in stream:
            match event:
                case ItemDone(item) if isinstance(item, (Message, Reasoning)):
                    yield ItemDone(await self._interception.item(item))
                case TextDelta() | ReasoningDelta() | ReasoningPartAdded() | ItemAdded(Message() | Reasoning()):
                    continue
                case _:
                    yield event

    def _report_usage(self, usage: TokenUsage | None) -> None:
        if usage is not None:
            info = self._scope.count_tokens(usage.plausible(), of_history=self._of_history)
            self._scope.emit(TokenCountEvent(info, self._scope.last_rate_limits))

    async def _take_item(self, event: ItemDone) -> None:
        """Handle a completed item.

        Raises:
            ModelError: The item is of no use.
        """
        item = event.item
        if isinstance(item, UnknownItem):
            check_item(item)
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()
        check_fields(item, self._scope.client)
        self._scope.conversation.origins.note(item, self._answering[0], self._scope.turn_id)
        if self._view is None:
            self._take(item, None)
        else:
            await self._view.complete_item(item, self._take)

    def _take_event(self, event: ModelEvent) -> None:
        """Handle one event of the response that is not a completed item."""
        if self.first_token_at is None and not isinstance(event, (LeftOut, AnsweredBy)):
            self.first_token_at = time.monotonic()
        match event:
            case RateLimits(snapshot):
                check_limits(snapshot, self._scope.client)
                self._scope.last_rate_limits = snapshot
            case LeftOut():
                report_loss(self._scope, event, *self._answering)
            case AnsweredBy():
                self._note_fallback(event)
            case _ if self._view is not None:
                self._view.show(event)
            case _ if not isinstance(event, _EVENTS):
                refuse_event(event, self._scope.client)

    def _note_fallback(self, event: AnsweredBy) -> None:
        scope, (provider, model) = self._scope, self._answering
        self._answering = (event.provider, event.model)
        if event.reason:
            text = f"`{model}` of `{provider}` failed ({event.reason}); going on with `{event.model}` of `{event.provider}`"
            scope.emit(WarningEvent(text, slug="model-fallback"))
            scope.emit(ModelFallbackEvent(provider, model, event.provider, event.model, event.reason))
