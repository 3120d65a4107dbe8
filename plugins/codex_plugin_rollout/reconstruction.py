"""Reading a rollout file back: what the next prompt starts from, and what has happened.

Lines are applied oldest first. A compaction replaces the history; a rollback returns to the state before a turn, compactions in that
turn included; a line that cannot be read is skipped and reported. Kinds of line that are not known here are for others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from codex_framework.protocol.events import (
    AgentMessageEvent,
    AgentReasoningEvent,
    EventMsg,
    TokenCountEvent,
    UserMessageEvent,
)
from codex_framework.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    ResponseItem,
    user_message,
)
from codex_framework.protocol.wire import read_event, read_item
from codex_plugin_rollout.turns import is_context, is_persons_message

__all__ = ["Reconstruction", "mended"]

_PRIVATE_FIELD = "internal_chat_message_metadata_passthrough"
"""Bookkeeping of newer Codex versions inside items, which not every server takes."""


@attrs.frozen
class _Mark:
    """The state before a turn of a person."""

    items: list[ResponseItem]
    length: int
    events: int
    turn_context: Mapping[str, Any] | None


class Reconstruction:
    """Takes lines, oldest first.

    Attributes:
        meta: The first ``session_meta`` payload with an ``id`` (a fork holds its parent's too, further down).
    """

    def __init__(self) -> None:
        self.meta: Mapping[str, Any] | None = None
        self.turn_context: Mapping[str, Any] | None = None
        self._items: list[ResponseItem] = []
        self._events: list[EventMsg] = []
        self._marks: list[_Mark] = []
        self._turn_start: _Mark | None = None
        self._in_turn = False
        self._number = 0
        self._skipped: list[int] = []
        self._torn = False

    @property
    def history(self) -> tuple[ResponseItem, ...]:
        """The items a prompt starts from; every call has exactly one output."""
        return tuple(mended(self._items))

    @property
    def events(self) -> tuple[EventMsg, ...]:
        """The kept events, without those of turns that were rolled back."""
        return tuple(self._events)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with the lines, for a person."""
        found = []
        if self._skipped:
            places = ", ".join(map(str, self._skipped[:5])) + (", ..." if len(self._skipped) > 5 else "")
            found.append(
                f"{len(self._skipped)} unreadable line(s) of the conversation's file were skipped (line {places})"
            )
        if self._torn:
            found.append("the last line of the conversation's file was cut off and has been left out")
        return tuple(found)

    def take(self, lines: Iterable[bytes]) -> None:
        """Apply lines as they stand in the file."""
        for line in lines:
            self._number += 1
            if not line.strip(b" \t\r\n\0"):  # NULs are what a power failure leaves of a line
                continue
            try:
                raw = json.loads(line)
                kind, payload = raw["type"], raw["payload"]
            except (ValueError, TypeError, KeyError, RecursionError):
                if line.endswith(b"\n"):
                    self._skipped.append(self._number)
                else:
                    self._torn = True
                continue
            if isinstance(payload, dict):
                self._apply(kind, payload)

    def _apply(self, kind: str, payload: dict[str, Any]) -> None:
        match kind:
            case "response_item":
                self._add(_item(payload))
            case "event_msg":
                self._event(payload)
            case "turn_context":
                self.turn_context = payload
            case "compacted":
                self._compact(payload)
            case "session_meta" if self.meta is None and isinstance(payload.get("id"), str):
                self.meta = payload

    def _add(self, item: ResponseItem) -> None:
        if is_persons_message(item):
            self._open_turn()
        self._items.append(item)

    def _open_turn(self) -> None:
        """Remember the state before this turn, unless the message was sent into a turn that runs already."""
        if self._turn_start is not None:
            self._marks.append(self._turn_start)
            self._turn_start = None
        elif not self._in_turn:
            self._marks.append(self._mark_before_context())

    def _mark_before_context(self) -> _Mark:
        length = len(self._items)
        while length and is_context(self._items[length - 1]):
            length -= 1
        return _Mark(self._items, length, len(self._events), self.turn_context)

    def _event(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
            return
        if kind in ("task_started", "turn_started"):
            self._turn_start = _Mark(self._items, len(self._items), len(self._events), self.turn_context)
            self._in_turn = True
        elif kind in ("task_complete", "turn_complete", "turn_aborted"):
            self._turn_start = None
            self._in_turn = False
        self._events.extend(_events(payload))

    def _roll_back(self, turns: Any) -> None:
        if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1 or not self._marks:
            return
        mark = self._marks[-min(turns, len(self._marks))]
        del self._marks[-min(turns, len(self._marks)) :]
        self._items = mark.items[: mark.length]
        self.turn_context = mark.turn_context
        self._turn_start, self._in_turn = None, False
        # The tokens of the undone turns have been spent all the same.
        spent = [event for event in self._events[mark.events :] if isinstance(event, TokenCountEvent)]
        self._events = [*self._events[: mark.events], *spent[-1:]]

    def _compact(self, payload: dict[str, Any]) -> None:
        replacement = payload.get("replacement_history")
        if isinstance(replacement, list):
            self._items = [_item(part) for part in replacement if isinstance(part, dict)]
            return
        said = [item for item in self._items if is_persons_message(item)]
        summary = payload.get("message")
        self._items = [*said, user_message(summary)] if isinstance(summary, str) and summary else said


def mended(items: Iterable[ResponseItem]) -> list[ResponseItem]:
    """The items with exactly one output for each call: ``aborted`` stands in for a missing one, one without a call is left out.

    A thread that was killed in the middle of a call ends with such a call.
    """
    items = list(items)
    waiting: dict[str, list[int]] = {}
    orphans: set[int] = set()
    for index, item in enumerate(items):
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            waiting.setdefault(item.call_id or "", []).append(index)
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            calls = waiting.get(item.call_id)
            if calls:
                calls.pop()
            else:
                orphans.add(index)
    missing = {index for calls in waiting.values() for index in calls}
    if not missing and not orphans:
        return items
    result: list[ResponseItem] = []
    for index, item in enumerate(items):
        if index not in orphans:
            result.append(item)
        if index in missing:
            result.append(_aborted(item))
    return result


def _aborted(call: ResponseItem) -> ResponseItem:
    if isinstance(call, CustomToolCall):
        return CustomToolCallOutput(call.call_id, "aborted")
    assert isinstance(call, (FunctionCall, LocalShellCall))
    return FunctionCallOutput(call.call_id or "", "aborted")


def _item(payload: dict[str, Any]) -> ResponseItem:
    payload.pop(_PRIVATE_FIELD, None)
    return read_item(payload)


def _events(payload: dict[str, Any]) -> list[EventMsg]:
    """The event, or what an older Codex would have written for it: newer ones write whole turn items in place of messages."""
    item = payload.get("item")
    if payload.get("type") != "item_completed" or not isinstance(item, dict):
        return [read_event(payload)]
    content = [part for part in _list(item.get("content")) if isinstance(part, dict)]
    text = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    match item.get("type"):
        case "UserMessage":
            images = tuple(part["image_url"] for part in content if isinstance(part.get("image_url"), str))
            local = tuple(part["path"] for part in content if isinstance(part.get("path"), str))
            return [UserMessageEvent(text, images or None, local)]
        case "AgentMessage":
            phase = item.get("phase")
            return [AgentMessageEvent(text, phase if isinstance(phase, str) else None)]
        case "Reasoning":
            return [AgentReasoningEvent(part) for part in _list(item.get("summary_text")) if isinstance(part, str)]
        case _:
            return [read_event(payload)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
