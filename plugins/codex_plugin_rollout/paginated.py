"""The events of a paginated file: a thread of a newer Codex version, whose clients read only turn items.

Commands, patches and messages are saved as ``item_completed`` events with a whole turn item, not as separate events.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.event_items import INTERACTION, item_of, wire_duration
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    AgentReasoningEvent,
    ContextCompactedEvent,
    EventMsg,
    ExecCommandEndEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PatchApplyEndEvent,
    ToolCallEndEvent,
    TurnStartedEvent,
    UserMessageEvent,
    ViewImageToolCallEvent,
)
from codex_framework.contract.protocol.turn_items import older_events, tool_call_item
from codex_framework.contract.roles.stores import EventEntry, ThreadEntry
from codex_plugin_rollout.lines import entry_line, event_line

__all__ = ["PaginatedEvents"]

_EVENTS: Mapping[str, type[EventMsg]] = {
    "UserMessage": UserMessageEvent,
    "ImageView": ViewImageToolCallEvent,
    "CommandExecution": ExecCommandEndEvent,
    "FileChange": PatchApplyEndEvent,
}
"""The event that follows the item of a kind."""


class PaginatedEvents:
    """Converts events to the events of a paginated file.

    Attributes:
        turn_items: The types of events that other files do not keep.
        first_ordinal: The ordinal of the file's first line.
    """

    turn_items = frozenset(
        {"item_started", "item_completed", "exec_command_end", "tool_call_end", "view_image_tool_call"}
    )

    def __init__(self, thread_id: str, history_base: object) -> None:
        self.first_ordinal = 0
        match history_base:
            case {"end_ordinal_exclusive": int(end)}:
                self.first_ordinal = end
        self._thread_id = thread_id
        self._turn_id = ""
        self._written: list[EventMsg] = []
        self._told: type[EventMsg] | None = None
        self._ids: dict[str, str] = {}
        self._began: dict[str, int] = {}  # when each item of the turn began

    def line(self, entry: ThreadEntry, now: float) -> bytes | None:
        """Return the line for an entry, without an ordinal, or None if the file already has it or does not keep it.

        Args:
            now: Unix seconds.
        """
        if not isinstance(entry, EventEntry):
            return entry_line(entry, now)
        event = self._kept(entry.msg, now)
        if event is entry.msg and entry.msg.type not in self.turn_items:
            return entry_line(entry, now)
        return None if event is None else event_line(event, now)

    def _kept(self, msg: EventMsg, now: float) -> EventMsg | Mapping[str, Any] | None:
        """Return the event to write instead of ``msg``, or None if nothing is written."""
        if isinstance(msg, ItemStartedEvent):
            self._began[str(msg.item.get("id"))] = msg.started_at_ms
            return None
        if isinstance(msg, ItemCompletedEvent):
            self._note(msg.item)
            if msg.started_at_ms is None:
                msg = msg.evolve(started_at_ms=self._began.get(str(msg.item.get("id"))))
            return msg if msg.item.get("id") else msg.evolve(item={**msg.item, "id": _new_id()})
        if isinstance(msg, TurnStartedEvent):
            self._turn_id = msg.turn_id
            self._written.clear()
            self._ids.clear()
            self._began.clear()
            return msg
        if msg in self._written:
            self._written.remove(msg)
            return None
        if self._told is not None and isinstance(msg, self._told):
            self._told = None
            return None
        if self._is_told(msg):
            return None
        item = _turn_item(msg)
        return msg if item is None else self._completed(msg, self._with_own_id(item), int(now * 1000))

    def _note(self, item: Mapping[str, Any]) -> None:
        """Remember the events that an item replaces. The kernel sends them after it."""
        kind = str(item.get("type"))
        self._told = _EVENTS.get(kind)
        if self._told is None:
            self._written.extend(older_events(item) or ())
        elif isinstance(item.get("id"), str):
            self._ids[item["id"]] = kind

    def _is_told(self, msg: EventMsg) -> bool:
        """Return whether another item covers the event: input to a running command, or a call that has a patch item."""
        if isinstance(msg, ExecCommandEndEvent):
            return msg.source == INTERACTION
        return isinstance(msg, ToolCallEndEvent) and self._ids.get(msg.call_id) == "FileChange"

    def _with_own_id(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return an item with a unique id. Clients identify items by id, and one call may run several commands."""
        wanted, number = item["id"], 1
        while item["id"] in self._ids:
            number += 1
            item["id"] = f"{wanted}-{number}"
        self._ids[item["id"]] = item["type"]
        return item

    def _completed(self, msg: EventMsg, item: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        took_ms = int(getattr(msg, "duration_s", 0) * 1000)
        return {
            "type": "item_completed",
            "thread_id": self._thread_id,
            "turn_id": getattr(msg, "turn_id", None) or self._turn_id,
            "item": item,
            "started_at_ms": now_ms - took_ms,
            "completed_at_ms": now_ms,
        }


def _turn_item(msg: EventMsg) -> dict[str, Any] | None:
    match msg:
        case UserMessageEvent() | ViewImageToolCallEvent() | ExecCommandEndEvent() | PatchApplyEndEvent():
            return item_of(msg, getattr(msg, "call_id", None) or _new_id())
        case AgentMessageEvent(text, phase):
            item = {"type": "AgentMessage", "id": _new_id(), "content": [{"type": "Text", "text": text}]}
            return item if phase is None else {**item, "phase": phase}
        case AgentReasoningEvent(text):
            return {"type": "Reasoning", "id": _new_id(), "summary_text": [text], "raw_content": []}
        case ToolCallEndEvent():
            return _tool_call(msg)
        case ContextCompactedEvent():
            return {"type": "ContextCompaction", "id": _new_id()}
        case _:
            return None


def _tool_call(msg: ToolCallEndEvent) -> dict[str, Any]:
    return {**tool_call_item(msg), "duration": wire_duration(msg.duration_s)}


def _new_id() -> str:
    return str(uuid.uuid4())
