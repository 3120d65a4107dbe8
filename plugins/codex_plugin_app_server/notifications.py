"""Notifications, created from a thread's events. Only this module maps events to notifications."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from codex_framework import Event, EventMsg, Value
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentReasoningSectionBreakEvent,
    ApplyPatchApprovalRequestEvent,
    DeprecationNoticeEvent,
    ErrorEvent,
    ExecApprovalRequestEvent,
    ExecCommandOutputDeltaEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PlanUpdateEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
    StreamErrorEvent,
    TerminalInteractionEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    ToolCallProgressEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnDiffEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.turn_items import tool_call_item
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_app_server.items import camel, camel_keys, dynamic_tool_item, thread_item
from codex_plugin_app_server.table import Json

__all__ = ["Notification", "Translator", "error_json", "goal_json", "rate_limits_json", "token_usage_json", "turn_json"]


_REVIEW = ("risk_level", "user_authorization", "rationale")

_SHOWN_OTHERWISE = frozenset({"apply_patch", "update_plan", "view_image"})
"""Tools whose calls have special items or notifications."""

_REALTIME_ITEMS: Mapping[str, Json] = {
    "ConversationItemAdded": {},
    "HandoffRequested": {"type": "handoff_request"},
    "InputAudioSpeechStarted": {"type": "input_audio_buffer.speech_started"},
    "ResponseCancelled": {"type": "response.cancelled"},
}
"""Events of a realtime conversation that clients get as items, with what these say besides."""


class Notification(Value):
    """A notification for the clients of a thread.

    Attributes:
        droppable: Whether a later notification contains everything that this one says.
    """

    method: str
    params: Json
    droppable: bool = False


class Translator:
    """Translates the events of one thread. It keeps what later notifications need of earlier events: items and the turn."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._turn_id = ""
        self._started: dict[str, int] = {}  # when each item of the turn began
        self._message: Json | None = None  # the turn's last message
        self._error: Json | None = None

    def translate(self, event: Event) -> Iterator[Notification]:
        """Yield the notifications for an event."""
        make = self._KINDS.get(type(event.msg)) or self._KINDS_BY_TAG.get(event.msg.type)
        if make is not None:
            yield from make(self, event.id or self._turn_id, event.msg)

    # Turns

    def _begin_turn(self, turn_id: str, msg: TurnStartedEvent) -> Iterator[Notification]:
        del turn_id
        self._turn_id, self._message, self._error = msg.turn_id, None, None
        yield self._note("turn/started", turn=turn_json(msg.turn_id, "inProgress", started_at=msg.started_at))

    def _end_turn(self, turn_id: str, msg: TurnCompleteEvent | TurnAbortedEvent) -> Iterator[Notification]:
        if isinstance(msg, TurnAbortedEvent):
            status, error = "interrupted", None
        else:
            error = self._error or (None if msg.error is None else error_json(str(msg.error.get("message", ""))))
            status = "completed" if error is None else "failed"
        ended = turn_json(
            msg.turn_id or turn_id,
            status,
            items=() if self._message is None or error is not None else (self._message,),
            error=error,
            started_at=msg.started_at,
            completed_at=msg.completed_at,
            duration_ms=msg.duration_ms,
        )
        self._started.clear()
        yield self._note("turn/completed", turn=ended)

    def _fail(self, turn_id: str, msg: ErrorEvent | StreamErrorEvent) -> Iterator[Notification]:
        will_retry = isinstance(msg, StreamErrorEvent)
        details = msg.additional_details if isinstance(msg, StreamErrorEvent) else None
        error = error_json(msg.message, msg.codex_error_info, details)
        if not will_retry:
            self._error = error
        yield self._note("error", error=error, willRetry=will_retry, turnId=turn_id)

    def _count_tokens(self, turn_id: str, msg: TokenCountEvent) -> Iterator[Notification]:
        if msg.info is not None:
            yield self._note("thread/tokenUsage/updated", turnId=turn_id, tokenUsage=token_usage_json(msg.info))

    def _diff(self, turn_id: str, msg: TurnDiffEvent) -> Iterator[Notification]:
        yield self._note("turn/diff/updated", turnId=turn_id, diff=msg.unified_diff)

    def _plan(self, turn_id: str, msg: PlanUpdateEvent) -> Iterator[Notification]:
        plan = [{"step": step.step, "status": camel(step.status)} for step in msg.plan]
        yield self._note("turn/plan/updated", turnId=turn_id, explanation=msg.explanation, plan=plan)

    # Items

    def _start_item(self, turn_id: str, item: Mapping[str, Any], began: int) -> Iterator[Notification]:
        """Yield ``item/started``, unless the item has begun before with a question about it."""
        item_id = str(item.get("id"))
        shown = item if "startedAtMs" in item else thread_item(item, began, None)
        if shown is not None and item_id not in self._started:
            self._started[item_id] = began
            yield self._note("item/started", item=shown, turnId=turn_id, startedAtMs=began)

    def _complete_item(self, turn_id: str, item: Mapping[str, Any], ended: int) -> Iterator[Notification]:
        began = self._started.get(str(item.get("id")))
        if began is None:
            yield from self._start_item(turn_id, item, ended)
            began = ended
        shown = item if "completedAtMs" in item else thread_item(item, began, ended)
        if shown is not None:
            if shown["type"] == "agentMessage":
                self._message = shown
            yield self._note("item/completed", item=shown, turnId=turn_id, contentTokenCount=None, completedAtMs=ended)

    def _item_started(self, turn_id: str, msg: ItemStartedEvent) -> Iterator[Notification]:
        yield from self._start_item(msg.turn_id or turn_id, msg.item, msg.started_at_ms)

    def _item_completed(self, turn_id: str, msg: ItemCompletedEvent) -> Iterator[Notification]:
        yield from self._complete_item(msg.turn_id or turn_id, msg.item, msg.completed_at_ms)

    def _tool_began(self, turn_id: str, msg: ToolCallBeginEvent) -> Iterator[Notification]:
        if msg.tool in _SHOWN_OTHERWISE:
            return
        yield from self._start_item(msg.turn_id or turn_id, tool_call_item(msg), msg.started_at_ms)

    def _tool_ended(self, turn_id: str, msg: ToolCallEndEvent) -> Iterator[Notification]:
        if msg.tool in _SHOWN_OTHERWISE:
            return
        seconds = int(msg.duration_s)
        duration = {"secs": seconds, "nanos": int((msg.duration_s - seconds) * 1e9)}
        yield from self._complete_item(msg.turn_id or turn_id, {**tool_call_item(msg), "duration": duration}, _now_ms())

    def _tool_progress(self, turn_id: str, msg: ToolCallProgressEvent) -> Iterator[Notification]:
        yield self._note(
            "item/mcpToolCall/progress", turnId=turn_id, itemId=msg.call_id, message=msg.text, droppable=True
        )

    def _command_asked(self, turn_id: str, msg: ExecApprovalRequestEvent) -> Iterator[Notification]:
        """Show the command that the user is asked about, before the question."""
        if msg.network_approval_context is None:
            item = {
                "type": "CommandExecution",
                "id": msg.call_id,
                "command": msg.command,
                "cwd": msg.cwd,
                "parsed_cmd": msg.parsed_cmd,
            }
            yield from self._start_item(msg.turn_id or turn_id, item, msg.started_at_ms)

    def _patch_asked(self, turn_id: str, msg: ApplyPatchApprovalRequestEvent) -> Iterator[Notification]:
        changes = {path: to_wire(change) for path, change in msg.changes.items()}
        item = {"type": "FileChange", "id": msg.call_id, "changes": changes}
        yield from self._start_item(msg.turn_id or turn_id, item, msg.started_at_ms)

    def _dynamic_tool_called(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        wire = to_wire(msg)
        began = int(wire.get("startedAtMs") or _now_ms())
        item = {**dynamic_tool_item(wire, ended=False), "startedAtMs": began, "completedAtMs": None}
        yield from self._start_item(turn_id, item, began)

    def _dynamic_tool_ended(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        wire = to_wire(msg)
        item = dynamic_tool_item(wire, ended=True)
        ended = int(wire.get("completed_at_ms") or _now_ms())
        began = self._started.get(item["id"], ended)
        yield from self._complete_item(turn_id, {**item, "startedAtMs": began, "completedAtMs": ended}, ended)

    # Deltas

    def _message_delta(self, turn_id: str, msg: AgentMessageContentDeltaEvent) -> Iterator[Notification]:
        yield self._delta("item/agentMessage/delta", msg.turn_id or turn_id, msg.item_id, delta=msg.delta)

    def _summary_delta(self, turn_id: str, msg: ReasoningContentDeltaEvent) -> Iterator[Notification]:
        turn_id, index = msg.turn_id or turn_id, msg.summary_index
        yield self._delta("item/reasoning/summaryTextDelta", turn_id, msg.item_id, delta=msg.delta, summaryIndex=index)

    def _summary_part(self, turn_id: str, msg: AgentReasoningSectionBreakEvent) -> Iterator[Notification]:
        yield self._delta("item/reasoning/summaryPartAdded", turn_id, msg.item_id, summaryIndex=msg.summary_index)

    def _reasoning_delta(self, turn_id: str, msg: ReasoningRawContentDeltaEvent) -> Iterator[Notification]:
        turn_id, index = msg.turn_id or turn_id, msg.content_index
        yield self._delta("item/reasoning/textDelta", turn_id, msg.item_id, delta=msg.delta, contentIndex=index)

    def _output_delta(self, turn_id: str, msg: ExecCommandOutputDeltaEvent) -> Iterator[Notification]:
        text = msg.chunk.decode("utf-8", "replace")
        yield self._delta("item/commandExecution/outputDelta", turn_id, msg.call_id, delta=text)

    def _plan_delta(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        wire = to_wire(msg)
        yield self._delta("item/plan/delta", wire["turn_id"] or turn_id, wire["item_id"], delta=wire["delta"])

    def _terminal_input(self, turn_id: str, msg: TerminalInteractionEvent) -> Iterator[Notification]:
        yield self._note(
            "item/commandExecution/terminalInteraction",
            turnId=turn_id,
            itemId=msg.call_id,
            processId=msg.process_id,
            stdin=msg.stdin,
        )

    # Notices

    def _warning(self, turn_id: str, msg: WarningEvent) -> Iterator[Notification]:
        del turn_id
        yield self._note("warning", message=msg.message)

    def _deprecated(self, turn_id: str, msg: DeprecationNoticeEvent) -> Iterator[Notification]:
        del turn_id
        yield Notification("deprecationNotice", {"summary": msg.summary, "details": msg.details})

    def _rerouted(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        wire = to_wire(msg)
        models = {"fromModel": wire["from_model"], "toModel": wire["to_model"]}
        yield self._note("model/rerouted", turnId=turn_id, **models, reason=camel(wire["reason"]))

    def _verification(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        known = [name for name in to_wire(msg)["verifications"] if name == "trusted_access_for_cyber"]
        if known:
            yield self._note("model/verification", turnId=turn_id, verifications=[camel(name) for name in known])

    def _moderation(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        yield self._note("turn/moderationMetadata", turnId=turn_id, metadata=to_wire(msg)["metadata"])

    def _guardian_warning(self, turn_id: str, msg: WarningEvent) -> Iterator[Notification]:
        del turn_id
        yield self._note("guardianWarning", message=msg.message)

    def _guardian_review(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        wire = to_wire(msg)
        status, ended = camel(wire["status"]), wire.get("completed_at_ms")
        review = {"status": status, **{camel(name): wire.get(name) for name in _REVIEW}}
        action = camel_keys(wire["action"])
        shown: dict[str, Any] = {
            "turnId": wire.get("turn_id") or turn_id,
            "reviewId": wire["id"],
            "targetItemId": wire.get("target_item_id"),
            "startedAtMs": wire["started_at_ms"],
            "review": review,
            "action": {**action, **{name: camel(action[name]) for name in ("type", "source") if name in action}},
        }
        if status == "inProgress":
            yield self._note("item/autoApprovalReview/started", **shown)
        else:
            shown["completedAtMs"] = ended or _now_ms()
            shown["decisionSource"] = wire.get("decision_source") or "agent"
            yield self._note("item/autoApprovalReview/completed", **shown)

    def _hook(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        wire = to_wire(msg)
        run = camel_keys(wire["run"])
        words = {name: camel(run[name]) for name in ("eventName", "source")}
        method = "hook/started" if msg.type == "hook_started" else "hook/completed"
        yield self._note(method, turnId=wire.get("turn_id") or turn_id or None, run={"entries": [], **run, **words})

    def _mcp_startup(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        del turn_id
        wire = to_wire(msg)
        status = wire["status"]
        shown = {"name": wire["server"], "status": status["state"], "error": status.get("error"), "failureReason": None}
        yield self._note("mcpServer/startupStatus/updated", **shown)

    # Realtime conversations

    def _realtime_started(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        del turn_id
        wire = to_wire(msg)
        session = wire.get("realtime_session_id")
        yield self._note("thread/realtime/started", realtimeSessionId=session, version=wire.get("version") or "v2")

    def _realtime_sdp(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        del turn_id
        yield self._note("thread/realtime/sdp", sdp=to_wire(msg)["sdp"])

    def _realtime_closed(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        del turn_id
        yield self._note("thread/realtime/closed", reason=to_wire(msg).get("reason"))

    def _realtime_event(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        del turn_id
        for kind, content in to_wire(msg)["payload"].items():
            match kind:
                case "InputTranscriptDelta" | "OutputTranscriptDelta":
                    role = "user" if kind.startswith("Input") else "assistant"
                    method = "thread/realtime/transcript/delta"
                    yield self._note(method, role=role, delta=content["delta"], droppable=True)
                case "InputTranscriptDone" | "OutputTranscriptDone":
                    role = "user" if kind.startswith("Input") else "assistant"
                    yield self._note("thread/realtime/transcript/done", role=role, text=content["text"])
                case "AudioOut":
                    audio = {"samplesPerChannel": None, "itemId": None, **camel_keys(content)}
                    yield self._note("thread/realtime/outputAudio/delta", audio=audio, droppable=True)
                case "Error":
                    yield self._note("thread/realtime/error", message=content)
                case _ if kind in _REALTIME_ITEMS:
                    yield self._note("thread/realtime/itemAdded", item={**_REALTIME_ITEMS[kind], **content})
                case _:
                    pass  # nothing that a client shows

    def _goal(self, turn_id: str, msg: EventMsg) -> Iterator[Notification]:
        del turn_id
        wire = to_wire(msg)
        if wire.get("goal") is None:
            yield self._note("thread/goal/cleared")
        else:
            yield self._note("thread/goal/updated", turnId=wire.get("turn_id"), goal=goal_json(wire["goal"]))

    def _note(self, method: str, *, droppable: bool = False, **params: Any) -> Notification:
        return Notification(method, {"threadId": self._thread_id, **params}, droppable)

    def _delta(self, method: str, turn_id: str, item_id: str, **params: Any) -> Notification:
        return self._note(method, turnId=turn_id, itemId=item_id, droppable=True, **params)

    _KINDS: ClassVar[Mapping[type[EventMsg], Callable[[Any, str, Any], Iterator[Notification]]]] = {
        TurnStartedEvent: _begin_turn,
        TurnCompleteEvent: _end_turn,
        TurnAbortedEvent: _end_turn,
        ErrorEvent: _fail,
        StreamErrorEvent: _fail,
        TokenCountEvent: _count_tokens,
        TurnDiffEvent: _diff,
        PlanUpdateEvent: _plan,
        ItemStartedEvent: _item_started,
        ItemCompletedEvent: _item_completed,
        ToolCallBeginEvent: _tool_began,
        ToolCallEndEvent: _tool_ended,
        ToolCallProgressEvent: _tool_progress,
        ExecApprovalRequestEvent: _command_asked,
        ApplyPatchApprovalRequestEvent: _patch_asked,
        AgentMessageContentDeltaEvent: _message_delta,
        ReasoningContentDeltaEvent: _summary_delta,
        AgentReasoningSectionBreakEvent: _summary_part,
        ReasoningRawContentDeltaEvent: _reasoning_delta,
        ExecCommandOutputDeltaEvent: _output_delta,
        TerminalInteractionEvent: _terminal_input,
        WarningEvent: _warning,
        DeprecationNoticeEvent: _deprecated,
    }

    _KINDS_BY_TAG: ClassVar[Mapping[str, Callable[[Any, str, Any], Iterator[Notification]]]] = {
        "dynamic_tool_call_request": _dynamic_tool_called,
        "dynamic_tool_call_response": _dynamic_tool_ended,
        "thread_goal_updated": _goal,
        "guardian_warning": _guardian_warning,
        "guardian_assessment": _guardian_review,
        "hook_started": _hook,
        "hook_completed": _hook,
        "mcp_startup_update": _mcp_startup,
        "realtime_conversation_closed": _realtime_closed,
        "realtime_conversation_realtime": _realtime_event,
        "realtime_conversation_sdp": _realtime_sdp,
        "realtime_conversation_started": _realtime_started,
        "model_reroute": _rerouted,
        "model_verification": _verification,
        "plan_delta": _plan_delta,
        "turn_moderation_metadata": _moderation,
    }
    """Events of plugins, which need not be installed."""


def turn_json(
    turn_id: str,
    status: str,
    *,
    items: tuple[Json, ...] = (),
    view: str | None = None,
    error: Json | None = None,
    started_at: int | None = None,
    completed_at: int | None = None,
    duration_ms: int | None = None,
) -> dict[str, Any]:
    """Return a ``Turn``."""
    return {
        "id": turn_id,
        "rootTurnId": turn_id,
        "items": list(items),
        "itemsView": view or ("summary" if items else "notLoaded"),
        "status": status,
        "error": error,
        "startedAt": started_at,
        "completedAt": completed_at,
        "durationMs": duration_ms,
    }


def error_json(message: str, info: object = None, details: str | None = None) -> dict[str, Any]:
    """Return a ``TurnError``. ``info`` is a name in snake case, or a mapping from a name to its facts."""
    shown = camel(info) if isinstance(info, str) else camel_keys(info)
    return {"message": message, "codexErrorInfo": shown, "additionalDetails": details, "misalignment": None}


def rate_limits_json(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``RateLimitSnapshot``."""
    empty = dict.fromkeys(("limitId", "limitName", "primary", "secondary", "credits", "planType"))
    given = camel_keys(snapshot)
    for name in ("primary", "secondary"):
        window = given.get(name)
        if isinstance(window, dict):
            given[name] = {
                "usedPercent": int(window.get("usedPercent") or 0),
                "windowDurationMins": window.get("windowMinutes"),
                "resetsAt": window.get("resetsAt"),
            }
    return {**empty, **given}


def goal_json(goal: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``ThreadGoal``. ``goal`` is the kernel's wire form."""
    return {"tokenBudget": None, **camel_keys(goal)}


def token_usage_json(info: TokenUsageInfo) -> dict[str, Any]:
    """Return a ``ThreadTokenUsage``."""
    return {
        "total": _usage(info.total_token_usage),
        "last": _usage(info.last_token_usage),
        "modelContextWindow": info.model_context_window,
    }


def _usage(usage: TokenUsage) -> dict[str, int]:
    return {
        "totalTokens": usage.total_tokens,
        "inputTokens": usage.input_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_write_input_tokens,
        "outputTokens": usage.output_tokens,
        "reasoningOutputTokens": usage.reasoning_output_tokens,
    }


def _now_ms() -> int:
    return int(time.time() * 1000)
