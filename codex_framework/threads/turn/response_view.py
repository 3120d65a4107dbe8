"""The clients' view of a response while it streams: messages, reasoning, items of the turn, previews of calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

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
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    Message,
    OutputText,
    ResponseItem,
    UnknownItem,
    message_text,
)
from codex_framework.contract.protocol.turn_items import older_events, older_start, turn_item
from codex_framework.contract.roles.interceptors import MessageView
from codex_framework.contract.roles.models import (
    Completed,
    ItemAdded,
    ModelEvent,
    ModelNotice,
    ModelWarning,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.loader.registration import RegisteredTool
from codex_framework.threads.faults import WrongValue, kind_of
from codex_framework.threads.plugin_calls import PluginTimeout, call_with_timeout
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.model_stream import (
    check_fields,
    check_text,
    refuse_event,
)
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["ResponseView"]

Take = Callable[[ResponseItem, str | None], None]

PREVIEW_PAUSE_S = 0.5
"""Minimum time between two previews of input that is still being generated, in seconds (Codex: 500 ms)."""

SHOWN_PATIENCE_S = 30.0
"""How long a tool may take to complete what clients see of a call that the server ran, in seconds."""


class ResponseView:
    """The events for clients of one response."""

    def __init__(self, scope: TurnScope, interception: Interception) -> None:
        self._scope = scope
        self._interception = interception
        self._previews: dict[str, tuple[str, str, list[str]]] = {}
        self._previewed_at = 0.0
        self._messages: _ViewedMessages | None = None
        if interception.views_messages:
            self._messages = _ViewedMessages(interception.message_views, self._emit_start)

    def show(self, event: ModelEvent) -> None:
        """Show one event of the response that is not a completed item.

        Raises:
            WrongValue: It is no event of a response, or has a wrong value.
        """
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
                check_fields(item, scope.client)
                self._begin_item(item)
            case ModelWarning(message):
                check_text(event, message, scope)
                scope.emit(WarningEvent(message, slug="server-says"))
            case ModelNotice(notice):
                self._emit_notice(notice)
            case Completed():
                pass
            case _:
                refuse_event(event, scope.client)

    async def complete_item(self, item: ResponseItem, take: Take) -> None:
        """Show a completed item. For a call that the server ran, its tool completes the clients' view.

        Args:
            take: Called with the item before clients see it.
        """
        if self._messages is not None and isinstance(item, Message) and item.role == "assistant":
            self._complete_message(item, self._messages, take)
            return
        take(item, None)
        self._scope.emit(RawResponseItemEvent(item))
        found = self._find_server_tool(item)
        self._emit_end(turn_item(item) if found is None else await self._complete_by_tool(item, found))

    def _emit_notice(self, notice: EventMsg) -> None:
        """Send clients a server's notice about the turn, once.

        Raises:
            WrongValue: It is not an event, or it is a request, which a server cannot make.
        """
        if not isinstance(notice, EventMsg) or isinstance(notice, Request):
            hint = "Put an EventMsg that is no Request into the ModelNotice."
            raise WrongValue(f"it yielded a notice with {kind_of(notice)}", self._scope.client.stream, hint=hint)
        if notice not in self._scope.notices:
            self._scope.notices.append(notice)
            self._scope.emit(notice)

    def _complete_message(self, item: Message, messages: _ViewedMessages, take: Take) -> None:
        """Complete a message of which clients may see only a part."""
        scope = self._scope
        whole, rest = messages.complete(item)
        take(item, whole)
        if rest:
            scope.emit(AgentMessageContentDeltaEvent(scope.thread_id, scope.turn_id, item.id or "", rest))
        scope.emit(RawResponseItemEvent(item))
        if whole:
            self._emit_end(turn_item(item.evolve(content=(OutputText(whole),))))

    def _begin_item(self, item: ResponseItem) -> None:
        if self._messages is not None and isinstance(item, Message) and item.role == "assistant":
            self._messages.begin(item)
        else:
            self._emit_start(item)

    def _emit_start(self, item: ResponseItem) -> None:
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
            self._scope.conversation.notices.tell(found.label.describe_failure("shown", error, source=found.shown))
        else:
            return {**changed, "type": whole["type"], "id": whole["id"]}
        return whole

    def _emit_end(self, shown: dict[str, Any] | None) -> None:
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


class _ViewedMessages:
    """The messages of one response, whose text passes through the views of interceptors while it streams.

    Args:
        views: Makes the views of a message, the first one to be asked first.
        start: Called before the first text of a message is shown, with the message as it began.
    """

    def __init__(self, views: Callable[[], Sequence[MessageView]], start: Callable[[Message], None]) -> None:
        self._views = views
        self._start = start
        self._open: dict[str, _Message] = {}

    def begin(self, item: Message) -> None:
        """Take the beginning of a message. Clients see it when there is text to show."""
        self._open[item.id or ""] = _Message(self._views(), item)

    def show(self, item_id: str, text: str) -> str:
        """Return the visible part of a piece of text. Whitespace at the start of a message is delayed until the next text."""
        message = self._open.get(item_id)
        if message is None:
            message = self._open[item_id] = _Message(self._views(), None)
        return self._hold_space(message, message.take(text))

    def _hold_space(self, message: _Message, text: str) -> str:
        whole = message.waiting + text
        if not message.has_begun and not whole.strip():
            message.waiting = whole
            return ""
        message.waiting = ""
        if whole and not message.has_begun:
            message.has_begun = True
            if message.item is not None:
                self._start(message.item)
        return whole

    def complete(self, item: Message) -> tuple[str, str]:
        """Return what clients see of a whole message, and the part of it that was not returned before."""
        message = self._open.pop(item.id or "", None)
        text = message_text(item)
        if message is None or not text.startswith(received := "".join(message.received)):
            message = _Message(self._views(), None if message is None or message.has_begun else message.item)
            received = ""
        rest = message.take(text[len(received) :]) + message.end()
        shown = self._hold_space(message, rest)
        return ("".join(message.shown) if message.has_begun else ""), shown


class _Message:
    def __init__(self, views: Sequence[MessageView], item: Message | None) -> None:
        self._views = views
        self.item = item
        self.received: list[str] = []
        self.shown: list[str] = []
        self.waiting = ""
        self.has_begun = False

    def take(self, text: str) -> str:
        """Return the part of a text that the views show."""
        self.received.append(text)
        return self._pass_through(text, self._views)

    def end(self) -> str:
        """Return the text that the views have kept back. Each view's text is passed to the views after it."""
        return "".join(
            [self._pass_through(view.end(), self._views[place + 1 :]) for place, view in enumerate(self._views)]
        )

    def _pass_through(self, text: str, views: Sequence[MessageView]) -> str:
        for view in views:
            text = view.feed(text) if text else text
        self.shown.append(text)
        return text


def _now_ms() -> int:
    return int(time.time() * 1000)
