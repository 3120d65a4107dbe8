"""Sends a request to the model and handles its response: deltas, items, usage."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, get_args

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.message import (
    AgentMessageContentDeltaEvent,
    AgentReasoningSectionBreakEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
)
from codex_framework.contract.protocol.events.requests import Request
from codex_framework.contract.protocol.events.thread import ModelFallbackEvent, WarningEvent
from codex_framework.contract.protocol.events.turn import TokenCountEvent, TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
    UnknownItem,
)
from codex_framework.contract.protocol.turn_items import older_events, older_start, turn_item
from codex_framework.contract.roles.models import (
    AnsweredBy,
    Completed,
    ItemAdded,
    ItemDone,
    LeftOut,
    ModelEvent,
    ModelNotice,
    ModelRequest,
    ModelWarning,
    RateLimits,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.loader.registration import RegisteredTool
from codex_framework.threads.faults import WrongValue, kind_of
from codex_framework.threads.plugin_calls import PluginTimeout, await_with_timeout, call_with_timeout
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.model_requests import report_loss
from codex_framework.threads.turn.model_stream import (
    check_fields,
    check_item,
    check_limits,
    check_text,
    check_usage,
    open_stream,
    refuse_event,
)
from codex_framework.threads.turn.scope import TurnScope

if TYPE_CHECKING:
    from codex_framework.threads.turn.shown_messages import ShownMessages

__all__ = ["Sampling"]

_EVENTS = get_args(ModelEvent)

TAIL_PATIENCE_S = 2.0
"""How long a stream may continue after its response is complete, in seconds."""

PREVIEW_PAUSE_S = 0.5
"""Minimum time between two previews of input that is still being generated, in seconds (Codex: 500 ms)."""

SHOWN_PATIENCE_S = 30.0
"""How long a tool may take to complete what clients see of a call that the server ran, in seconds."""


class Sampling:
    """The handling of one response.

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
        self._announce = announce
        self._of_history = of_history
        self._previews: dict[str, tuple[str, str, list[str]]] = {}
        self._previewed_at = 0.0
        self._messages: ShownMessages | None = None
        if announce and interception.views_messages:
            from codex_framework.threads.turn.shown_messages import ShownMessages

            self._messages = ShownMessages(interception.message_views, self._emit_begun)
        self.first_token_at: float | None = None
        self._answering = (scope.provider.id, scope.model.slug)

    async def run(self, request: ModelRequest) -> Completed | None:
        """Send the request and read the response to its end, so that its connection can be reused.

        Returns:
            The completion of the response, or None if the stream ended before it.

        Raises:
            ModelError: The provider, or an interceptor, failed.
            StopTurn: An interceptor ends the turn.
        """
        if request.measure is None:
            return await self._exchange(request)
        return await self._scope.reports.telemetry.measure_sample(
            request, self._scope.provider.id, self._exchange, lambda: self.first_token_at
        )

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
        """Handle a completed item. What clients see of a call that the server ran is completed by its tool.

        Raises:
            ModelError: The item is of no use.
        """
        item = event.item
        if isinstance(item, UnknownItem):
            check_item(item)
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()
        self._check(item)
        self._scope.conversation.origins.note(item, self._answering[0], self._scope.turn_id)
        if not self._announce:
            self._take(item, None)
        elif self._messages is not None and isinstance(item, Message) and item.role == "assistant":
            self._complete_message(item, self._messages)
        else:
            self._take(item, None)
            self._scope.emit(RawResponseItemEvent(item))
            found = self._find_server_tool(item)
            self._emit_completed(turn_item(item) if found is None else await self._complete_by_tool(item, found))

    def _take_event(self, event: ModelEvent) -> None:
        """Handle one event of the response that is not a completed item."""
        if self.first_token_at is None and not isinstance(event, (LeftOut, AnsweredBy)):
            self.first_token_at = time.monotonic()
        if not self._announce:
            self._take_quiet_event(event)
            return
        scope = self._scope
        match event:
            case TextDelta(item_id, delta):
                check_text(event, delta, scope)
                if self._messages is not None:
                    delta = self._messages.show(item_id, delta)
                if delta:
                    scope.emit(AgentMessageContentDeltaEvent(scope.thread_id, scope.turn_id, item_id, delta))
            case ReasoningDelta(item_id, delta, index, raw):
                check_text(event, delta, scope)
                kind = ReasoningRawContentDeltaEvent if raw else ReasoningContentDeltaEvent
                scope.emit(kind(scope.thread_id, scope.turn_id, item_id, delta, index))
            case ReasoningPartAdded(item_id, index):
                scope.emit(AgentReasoningSectionBreakEvent(item_id, index))
            case ToolInputDelta(item_id, delta):
                check_text(event, delta, scope)
                self._preview(item_id, delta)
            case ItemAdded(item):
                self._check(item)
                self._begin_item(item)
            case RateLimits(snapshot):
                check_limits(snapshot, scope.client)
                scope.last_rate_limits = snapshot
            case LeftOut():
                report_loss(scope, event, *self._answering)
            case AnsweredBy():
                self._note_fallback(event)
            case ModelWarning(message):
                check_text(event, message, scope)
                scope.emit(WarningEvent(message, slug="server-says"))
            case ModelNotice(notice):
                self._emit_notice(notice)
            case Completed():
                pass  # handled by run()
            case _:
                refuse_event(event, self._scope.client)

    def _take_quiet_event(self, event: ModelEvent) -> None:
        """Handle one event, not a completed item, of a response that clients do not receive."""
        match event:
            case RateLimits(snapshot):
                check_limits(snapshot, self._scope.client)
                self._scope.last_rate_limits = snapshot
            case LeftOut():
                report_loss(self._scope, event, *self._answering)
            case AnsweredBy():
                self._note_fallback(event)
            case _:
                if not isinstance(event, _EVENTS):
                    refuse_event(event, self._scope.client)

    def _emit_notice(self, notice: EventMsg) -> None:
        """Tell clients what the server says of the turn, once.

        Raises:
            WrongValue: It is no event, or a request, which a server cannot make.
        """
        if not isinstance(notice, EventMsg) or isinstance(notice, Request):
            hint = "Put an EventMsg that is no Request into the ModelNotice."
            raise WrongValue(f"it yielded a notice with {kind_of(notice)}", self._scope.client.stream, hint=hint)
        if notice not in self._scope.notices:
            self._scope.notices.append(notice)
            self._scope.emit(notice)

    def _note_fallback(self, event: AnsweredBy) -> None:
        scope, (provider, model) = self._scope, self._answering
        self._answering = (event.provider, event.model)
        if event.reason:
            text = f"`{model}` of `{provider}` failed ({event.reason}); going on with `{event.model}` of `{event.provider}`"
            scope.emit(WarningEvent(text, slug="model-fallback"))
            scope.emit(ModelFallbackEvent(provider, model, event.provider, event.model, event.reason))

    def _check(self, item: object) -> None:
        check_fields(item, self._scope.client)

    def _complete_message(self, item: Message, messages: ShownMessages) -> None:
        """Complete a message of which clients may see only a part."""
        scope = self._scope
        whole, rest = messages.complete(item)
        self._take(item, whole)
        if rest:
            scope.emit(AgentMessageContentDeltaEvent(scope.thread_id, scope.turn_id, item.id or "", rest))
        scope.emit(RawResponseItemEvent(item))
        if whole:
            self._emit_completed(turn_item(item.evolve(content=(OutputText(whole),))))

    def _begin_item(self, item: ResponseItem) -> None:
        if self._messages is not None and isinstance(item, Message) and item.role == "assistant":
            self._messages.begin(item)
        else:
            self._emit_begun(item)

    def _emit_begun(self, item: ResponseItem) -> None:
        shown = turn_item(item)
        if shown is not None:
            scope = self._scope
            scope.emit(ItemStartedEvent(scope.thread_id, scope.turn_id, shown, _now_ms()))
            if (older := older_start(shown)) is not None:
                scope.emit(older)
        elif isinstance(item, CustomToolCall):
            self._previews[item.id or ""] = (item.call_id, item.name, [item.input] if item.input else [])

    def _find_server_tool(self, item: ResponseItem) -> RegisteredTool | None:
        """Return the offered tool of a call that the model's server ran, if the tool completes what clients see."""
        if not isinstance(item, UnknownItem):
            return None
        found = self._scope.router.find(item.kind.removesuffix("_call"))
        return (
            found
            if found is not None and found.shown is not None and self._scope.router.may_call(found.spec.name)
            else None
        )

    async def _complete_by_tool(self, item: ResponseItem, found: RegisteredTool) -> dict[str, Any] | None:
        """Return the turn item of a call, completed by its tool."""
        whole = turn_item(item)
        assert found.shown is not None
        if whole is None:
            return None
        try:
            turn = self._interception.contexts(found.plugin)
            changed: object = await call_with_timeout(SHOWN_PATIENCE_S, found.shown, whole, turn)
            if not isinstance(changed, dict):
                raise WrongValue(f"it returned {kind_of(changed)}, not a turn item", found.shown)
        except PluginTimeout:
            self._scope.conversation.notices.tell(found.label.late("shown", SHOWN_PATIENCE_S, found.shown))
        except Exception as error:  # a plugin may raise anything
            self._scope.conversation.notices.tell(found.label.failed("shown", error, source=found.shown))
        else:
            return {**changed, "type": whole["type"], "id": whole["id"]}
        return whole

    def _emit_completed(self, shown: dict[str, Any] | None) -> None:
        if shown is None:
            return
        scope = self._scope
        scope.emit(ItemCompletedEvent(scope.thread_id, scope.turn_id, shown, _now_ms()))
        for event in older_events(shown, raw=scope.settings.show_raw_agent_reasoning) or ():
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
        with contextlib.suppress(Exception):  # a preview is optional, and errors appear when the call is run
            event = registered.preview(call_id, "".join(parts))
            if event is not None:
                self._previewed_at = now
                self._scope.emit(event)


def _now_ms() -> int:
    return int(time.time() * 1000)
