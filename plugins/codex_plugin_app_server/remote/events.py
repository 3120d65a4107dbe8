"""The kernel's events, made of an app server's notifications: the inverse of ``notifications`` and ``items``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from codex_framework import EventMsg
from codex_framework.contract.protocol.events import (
    AddFile,
    AgentMessageContentDeltaEvent,
    AgentReasoningSectionBreakEvent,
    ContextCompactedEvent,
    DeleteFile,
    DeprecationNoticeEvent,
    ErrorEvent,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    FileChange,
    ItemCompletedEvent,
    ItemStartedEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    PlanStep,
    PlanUpdateEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
    StreamErrorEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UpdateFile,
    ViewImageToolCallEvent,
    WarningEvent,
)

__all__ = ["EventReader"]

Json = Mapping[str, Any]


class EventReader:
    """Reads the notifications about one thread, and yields the events of one turn of it.

    Attributes:
        turn_id: The id of the turn. None while it is unknown.
        usage: The tokens of the thread so far.
        has_ended: Whether the turn has ended.
    """

    def __init__(self, thread_id: str) -> None:
        self.turn_id: str | None = None
        self.usage = TokenUsage()
        self.has_ended = False
        self._thread_id = thread_id
        self._message: str | None = None
        self._has_failed = False

    def read(self, method: str, params: Json) -> Iterator[EventMsg]:
        """Yield the events of a notification, or nothing if it is about something else.

        Raises:
            ValueError: It has not the form that the protocol says.
        """
        make = self._KINDS.get(method)
        if make is None or params.get("threadId") not in (None, self._thread_id):
            return
        turn = params.get("turnId") or (params.get("turn") or {}).get("id")
        if turn is not None and self.turn_id not in (None, turn) and method != "thread/tokenUsage/updated":
            return
        try:
            yield from make(self, params)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{method}: {error!r}") from error

    # Turns

    def begin_turn(self, turn: Json) -> EventMsg:
        """Return the event for the start of a turn, which is the response that names it. Some turns have no notification."""
        self.turn_id = str(turn["id"])
        return TurnStartedEvent(self.turn_id, turn.get("startedAt"))

    def _end_turn(self, params: Json) -> Iterator[EventMsg]:
        turn = params["turn"]
        self.has_ended = True
        times = {"completed_at": turn.get("completedAt"), "duration_ms": turn.get("durationMs")}
        if turn["status"] == "interrupted":
            yield TurnAbortedEvent(turn["id"], "interrupted", **times)
            return
        if turn["status"] == "failed" and not self._has_failed:
            yield from self._error({"error": turn.get("error") or {}})
        yield TurnCompleteEvent(turn["id"], self._message, **times)

    def _error(self, params: Json) -> Iterator[EventMsg]:
        error = params["error"]
        message, details = str(error.get("message") or "the turn failed"), error.get("additionalDetails")
        info = _snake_keys(error.get("codexErrorInfo"))
        if params.get("willRetry"):
            yield StreamErrorEvent(message, info, details)
        else:
            self._has_failed = True
            yield ErrorEvent(message, info)

    def _count_tokens(self, params: Json) -> Iterator[EventMsg]:
        told = params["tokenUsage"]
        self.usage = _usage(told["total"])
        yield TokenCountEvent(TokenUsageInfo(self.usage, _usage(told["last"]), told.get("modelContextWindow")))

    def _plan(self, params: Json) -> Iterator[EventMsg]:
        steps = tuple(PlanStep(str(step["step"]), _snake(step["status"])) for step in params["plan"])
        yield PlanUpdateEvent(steps, params.get("explanation"))

    # Items

    def _item_started(self, params: Json) -> Iterator[EventMsg]:
        item = params["item"]
        make = _STARTS.get(item["type"])
        if make is not None:
            yield make(item, self._turn(params), params["startedAtMs"])
        elif (shown := _turn_item(item)) is not None:
            yield ItemStartedEvent(self._thread_id, self._turn(params), shown, params["startedAtMs"])

    def _item_completed(self, params: Json) -> Iterator[EventMsg]:
        item, ended = params["item"], params["completedAtMs"]
        make = _ENDS.get(item["type"])
        if make is not None:
            yield make(item, self._turn(params), ended)
            return
        if item["type"] == "agentMessage":
            self._message = item["text"]
        if (shown := _turn_item(item)) is not None:
            yield ItemCompletedEvent(self._thread_id, self._turn(params), shown, ended, item.get("startedAtMs"))
        if item["type"] == "contextCompaction":
            yield ContextCompactedEvent()

    def _turn(self, params: Json) -> str:
        return str(params.get("turnId") or self.turn_id or "")

    # Deltas

    def _message_delta(self, params: Json) -> Iterator[EventMsg]:
        yield AgentMessageContentDeltaEvent(self._thread_id, self._turn(params), params["itemId"], params["delta"])

    def _summary_delta(self, params: Json) -> Iterator[EventMsg]:
        place = (self._thread_id, self._turn(params), params["itemId"], params["delta"])
        yield ReasoningContentDeltaEvent(*place, params["summaryIndex"])

    def _summary_part(self, params: Json) -> Iterator[EventMsg]:
        yield AgentReasoningSectionBreakEvent(params["itemId"], params["summaryIndex"])

    def _reasoning_delta(self, params: Json) -> Iterator[EventMsg]:
        place = (self._thread_id, self._turn(params), params["itemId"], params["delta"])
        yield ReasoningRawContentDeltaEvent(*place, params["contentIndex"])

    # Notices

    def _warning(self, params: Json) -> Iterator[EventMsg]:
        yield WarningEvent(str(params["message"]))

    def _configuration_warning(self, params: Json) -> Iterator[EventMsg]:
        details = params.get("details")
        yield WarningEvent(f"{params['summary']} {details}" if details else str(params["summary"]))

    def _deprecated(self, params: Json) -> Iterator[EventMsg]:
        yield DeprecationNoticeEvent(str(params["summary"]), params.get("details"))

    _KINDS: ClassVar[Mapping[str, Callable[[Any, Json], Iterator[EventMsg]]]] = {
        "turn/completed": _end_turn,
        "turn/plan/updated": _plan,
        "error": _error,
        "thread/tokenUsage/updated": _count_tokens,
        "item/started": _item_started,
        "item/completed": _item_completed,
        "item/agentMessage/delta": _message_delta,
        "item/reasoning/summaryTextDelta": _summary_delta,
        "item/reasoning/summaryPartAdded": _summary_part,
        "item/reasoning/textDelta": _reasoning_delta,
        "warning": _warning,
        "guardianWarning": _warning,
        "configWarning": _configuration_warning,
        "deprecationNotice": _deprecated,
    }


# Commands, patches and calls of plugins' tools have events of their own


def _command_started(item: Json, turn_id: str, at: int) -> EventMsg:
    return ExecCommandBeginEvent(
        call_id=item["id"],
        turn_id=turn_id,
        command=_argv(item["command"]),
        cwd=item["cwd"],
        started_at_ms=at,
        process_id=item.get("processId"),
        source=_snake(item.get("source") or "agent"),
    )


def _command_ended(item: Json, turn_id: str, at: int) -> EventMsg:
    output, code, status = item.get("aggregatedOutput") or "", item.get("exitCode"), _snake(item["status"])
    return ExecCommandEndEvent(
        call_id=item["id"],
        turn_id=turn_id,
        command=_argv(item["command"]),
        cwd=item["cwd"],
        completed_at_ms=at,
        stdout="" if status == "declined" else output,
        stderr=output if status == "declined" else "",  # why
        aggregated_output=output,
        exit_code=-1 if code is None else code,
        duration_s=(item.get("durationMs") or 0) / 1000,
        formatted_output=output,
        status=status,
        process_id=item.get("processId"),
        source=_snake(item.get("source") or "agent"),
    )


def _argv(line: str) -> tuple[str, ...]:
    """Return a command as a list. Servers join it with quotes."""
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return (line,)


def _patch_started(item: Json, turn_id: str, at: int) -> EventMsg:
    del at
    return PatchApplyBeginEvent(call_id=item["id"], turn_id=turn_id, auto_approved=True, changes=_changes(item))


def _patch_ended(item: Json, turn_id: str, at: int) -> EventMsg:
    del at
    status = _snake(item["status"])
    return PatchApplyEndEvent(
        call_id=item["id"],
        turn_id=turn_id,
        stdout="",
        stderr="",
        success=status == "completed",
        changes=_changes(item),
        status=status,
    )


def _changes(item: Json) -> dict[str, FileChange]:
    return {change["path"]: _change(change["kind"], change["diff"]) for change in item["changes"]}


def _change(kind: Json, diff: str) -> FileChange:
    match kind["type"]:
        case "add":
            return AddFile(diff)
        case "delete":
            return DeleteFile(diff)
        case _:
            return UpdateFile(diff, kind.get("move_path"))


def _image_viewed(item: Json, turn_id: str, at: int) -> EventMsg:
    del turn_id, at
    return ViewImageToolCallEvent(item["id"], item["path"])


_STARTS: Mapping[str, Callable[[Json, str, int], EventMsg]] = {
    "commandExecution": _command_started,
    "fileChange": _patch_started,
}
_ENDS: Mapping[str, Callable[[Json, str, int], EventMsg]] = {
    "commandExecution": _command_ended,
    "fileChange": _patch_ended,
    "imageView": _image_viewed,
}


# All others are turn items


def _turn_item(item: Json) -> dict[str, Any] | None:
    """Return the kernel's form of an item. None for an item that no output shows."""
    make = _ITEMS.get(item["type"])
    return None if make is None else {"id": str(item["id"]), **make(item)}


def _agent_message(item: Json) -> Json:
    shown = {"type": "AgentMessage", "content": [{"type": "Text", "text": item["text"]}]}
    return {**shown, "phase": item["phase"]} if item.get("phase") else shown


def _reasoning(item: Json) -> Json:
    return {
        "type": "Reasoning",
        "summary_text": list(item.get("summary") or ()),
        "raw_content": list(item.get("content") or ()),
    }


def _tool_call(item: Json) -> Json:
    shown = {name: item.get(name) for name in ("server", "tool", "arguments", "result", "error")}
    return {"type": "McpToolCall", **shown, "status": _snake(item["status"])}


def _agent_call(item: Json) -> Json:
    return {
        "type": "CollabAgentToolCall",
        "tool": _snake(item["tool"]),
        "status": _snake(item["status"]),
        "sender_thread_id": item.get("senderThreadId"),
        "receiver_thread_ids": list(item.get("receiverThreadIds") or ()),
        "prompt": item.get("prompt"),
        "agents_states": {agent: _agent_state(state) for agent, state in (item.get("agentsStates") or {}).items()},
    }


def _agent_state(state: Json) -> object:
    word, message = _snake(state["status"]), state.get("message")
    return word if message is None else {word: message}


def _web_search(item: Json) -> Json:
    action = item.get("action")
    if isinstance(action, Mapping):
        action = {**{_snake(name): value for name, value in action.items()}, "type": _snake(action["type"])}
    return {"type": "WebSearch", "query": item.get("query"), "action": action or {"type": "other"}}


def _image(item: Json) -> Json:
    shown = {_snake(name): item.get(name) for name in ("status", "revisedPrompt", "result", "savedPath")}
    return {"type": "ImageGeneration", **shown}


_ITEMS: Mapping[str, Callable[[Json], Json]] = {
    "agentMessage": _agent_message,
    "reasoning": _reasoning,
    "mcpToolCall": _tool_call,
    "collabAgentToolCall": _agent_call,
    "webSearch": _web_search,
    "imageGeneration": _image,
    "contextCompaction": lambda _: {"type": "ContextCompaction"},
    "plan": lambda item: {"type": "Plan", "text": item["text"]},
}


def _usage(told: Json) -> TokenUsage:
    return TokenUsage(
        input_tokens=told["inputTokens"],
        cached_input_tokens=told["cachedInputTokens"],
        output_tokens=told["outputTokens"],
        reasoning_output_tokens=told["reasoningOutputTokens"],
        total_tokens=told["totalTokens"],
        cache_write_input_tokens=told.get("cacheWriteInputTokens", 0),
    ).plausible()


def _snake(word: str) -> str:
    """Return a ``camelCase`` word in ``snake_case``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", word)


def _snake_keys(value: Any) -> Any:
    """Return a ``CodexErrorInfo`` in the kernel's words."""
    if isinstance(value, Mapping):
        return {_snake(str(key)): _snake_keys(part) for key, part in value.items()}
    return _snake(value) if isinstance(value, str) else value
