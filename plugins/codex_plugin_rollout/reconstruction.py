"""Reconstruction of a thread from its rollout files: the history for the next prompt, and the events.

Lines are applied oldest first. A compaction replaces the history. A rollback restores the state before a turn, including any
compactions in that turn. An unreadable line is skipped and reported. Lines of an unknown kind are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from codex_framework.contract.protocol.events import EventMsg, ItemCompletedEvent, TokenCountEvent
from codex_framework.contract.protocol.events.event import PACKED_TEXTS
from codex_framework.contract.protocol.items import (
    ResponseItem,
    begins_turn,
    is_user_message,
    user_message,
    with_paired_outputs,
)
from codex_framework.contract.protocol.turn_items import older_events
from codex_framework.contract.protocol.wire import WireError, packed_item, read, read_event, read_item
from codex_framework.contract.roles.stores import PluginEntry, StoredTurn
from codex_framework.toolkit.thread_records import is_context
from codex_plugin_rollout.head import changed

__all__ = ["Place", "Reconstruction"]

_PRIVATE_FIELD = "internal_chat_message_metadata_passthrough"
"""Internal field that newer Codex versions add to items. Some servers reject it."""

_TEXTS = ("text", "message", "last_agent_message")
"""Fields of events with long texts. One wide character makes Python store a text with four bytes for each character."""

_LONG = 512
"""Minimum length, in characters, of event texts that are packed."""


@attrs.frozen
class Place:
    """A line of a thread.

    Attributes:
        part: The index of its file among the thread's files.
        ordinal: Its ordinal.
        offset: The number of bytes before it.
    """

    part: int
    ordinal: int
    offset: int


@attrs.frozen
class _Checkpoint:
    """The state before a turn that was started by a message of the user or of another agent, with the first line of the turn."""

    items: list[ResponseItem]
    length: int
    events: int
    entries: int
    turn_context: Mapping[str, Any] | None
    place: Place
    turn_id: str | None = None


class Reconstruction:
    """The state of a thread after the lines applied so far.

    Attributes:
        meta: The head of the thread's own file, or else the first ``session_meta`` payload with an ``id``. (The file of a fork
            may also contain its parent's head, further down.) It has the newest values of fields that can change.
        turn_context: The newest ``turn_context`` payload, or None if there was none.
    """

    def __init__(self, meta: Mapping[str, Any] | None = None) -> None:
        self.meta = meta
        self.turn_context: Mapping[str, Any] | None = None
        self._items: list[ResponseItem] = []
        self._events: list[EventMsg] = []
        self._turn_items: list[ItemCompletedEvent | None] = []  # one for each event
        self._entries: list[PluginEntry] = []
        self._checkpoints: list[_Checkpoint] = []
        self._turn_start: _Checkpoint | None = None
        self._in_turn = False
        self._number = 0
        self._skipped: list[int] = []
        self._warnings: list[str] = []
        self._has_lines = False
        self._texts: dict[bytes, bytes] = {}
        self._part = -1
        self._ordinal = self._offset = self._next_offset = 0

    @property
    def is_foreign(self) -> bool:
        """Whether there are whole lines, and none of them is one of a rollout file."""
        return bool(self._skipped) and not self._has_lines

    @property
    def turns(self) -> tuple[StoredTurn, ...]:
        """The turns that messages started, oldest first, without those that were rolled back."""
        return tuple(StoredTurn(id=turn.turn_id, first_event=turn.events) for turn in self._checkpoints)

    @property
    def turn_places(self) -> tuple[Place, ...]:
        """The first line of each of :attr:`turns`."""
        return tuple(turn.place for turn in self._checkpoints)

    @property
    def end(self) -> Place:
        """The place after the last whole line."""
        return Place(self._part, self._ordinal + 1, self._next_offset)

    @property
    def history(self) -> tuple[ResponseItem, ...]:
        """The items for the next prompt. Every call has exactly one output."""
        return tuple(with_paired_outputs(self._items))

    @property
    def events(self) -> tuple[EventMsg, ...]:
        """The persisted events, without those of turns that were rolled back."""
        return tuple(self._events)

    @property
    def turn_items(self) -> tuple[ItemCompletedEvent | None, ...]:
        """The turn item of each of :attr:`events`, or nothing if the files have no turn items."""
        return tuple(self._turn_items) if any(self._turn_items) else ()

    @property
    def entries(self) -> tuple[PluginEntry, ...]:
        """The lines of plugins, without those that belong to turns that were rolled back."""
        return tuple(self._entries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems in the files, as sentences for the user."""
        return tuple(self._warnings)

    def take(self, lines: Iterable[bytes], *, end: int | None = None, file: str = "the conversation's file") -> bool:
        """Apply lines of a file in order.

        Args:
            end: The ordinal of the first line to leave out. None if all lines are applied.
            file: The file's name in warnings.

        Returns:
            Whether the lines reached ``end``.
        """
        self._number, self._skipped = 0, []
        self._turn_start, self._in_turn = None, False
        reached = end is None
        torn = False
        ordinal = -1
        self._part += 1
        self._next_offset = 0
        for line in lines:
            self._number += 1
            raw = _read(line)
            ordinal = _ordinal(raw, ordinal)
            self._offset = self._next_offset
            if raw is not None or line.endswith(b"\n"):
                self._next_offset += len(line)
                self._ordinal = ordinal
            if end is not None and ordinal >= end - 1:
                reached = True
                if ordinal >= end:
                    break
            if raw is None:
                torn = not line.endswith(b"\n")
                if not torn:
                    self._skipped.append(self._number)
            elif raw and isinstance(raw["payload"], dict):
                self._has_lines = True
                self._apply(raw["type"], raw["payload"])
        self._warn(file, torn=torn)
        return reached

    def _warn(self, file: str, *, torn: bool) -> None:
        skipped = self._skipped
        if skipped:
            places = ", ".join(map(str, skipped[:5])) + (", ..." if len(skipped) > 5 else "")
            self._warnings.append(f"{len(skipped)} unreadable line(s) of {file} were skipped (line {places})")
        if torn:
            self._warnings.append(f"the last line of {file} was incomplete and was skipped")

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
            case "plugin_entry":
                self._plugin_entry(payload)
            case "session_meta" if isinstance(payload.get("id"), str):
                self.meta = payload if self.meta is None else changed(self.meta, payload)

    def _add(self, item: ResponseItem) -> None:
        if begins_turn(item):
            self._open_turn()
        self._items.append(item)

    def _open_turn(self) -> None:
        """Save the state before this turn, unless the message belongs to a turn that is already running."""
        if self._turn_start is not None:
            self._checkpoints.append(self._turn_start)
            self._turn_start = None
        elif not self._in_turn:
            self._checkpoints.append(self._checkpoint_before_context())

    def _checkpoint_before_context(self) -> _Checkpoint:
        length = len(self._items)
        while length and is_context(self._items[length - 1]):
            length -= 1
        return self._checkpoint(length)

    def _checkpoint(self, length: int, turn_id: object = None) -> _Checkpoint:
        return _Checkpoint(
            self._items,
            length,
            len(self._events),
            len(self._entries),
            self.turn_context,
            Place(self._part, self._ordinal, self._offset),
            turn_id if isinstance(turn_id, str) else None,
        )

    def _event(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
            return
        if kind in ("task_started", "turn_started"):
            self._turn_start = self._checkpoint(len(self._items), payload.get("turn_id"))
            self._in_turn = True
            self._texts.clear()
        elif kind in ("task_complete", "turn_complete", "turn_aborted"):
            self._turn_start = None
            self._in_turn = False
        item, events = _events(payload)
        self._events.extend(map(self._packed, events))
        self._turn_items.extend([item] * len(events))

    def _packed(self, event: EventMsg) -> EventMsg:
        """Store long texts as UTF-8 until they are read, and store a text only once if the turn repeats it."""
        packed = {}
        for name in _TEXTS:
            text = event.__dict__.get(name)
            if isinstance(text, str) and len(text) >= _LONG and not hasattr(type(event), name):
                encoded = text.encode("utf-8", "surrogatepass")
                packed[name] = self._texts.setdefault(encoded, encoded)
                del event.__dict__[name]
        if packed:
            event.__dict__[PACKED_TEXTS] = packed
        return event

    def _plugin_entry(self, payload: dict[str, Any]) -> None:
        try:
            self._entries.append(read(PluginEntry, payload))
        except WireError:
            self._skipped.append(self._number)

    def _roll_back(self, turns: Any) -> None:
        if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1 or not self._checkpoints:
            return
        checkpoint = self._checkpoints[-min(turns, len(self._checkpoints))]
        del self._checkpoints[-min(turns, len(self._checkpoints)) :]
        kept = [entry for entry in self._entries[checkpoint.entries :] if entry.turn_id is None]
        self._entries = [*self._entries[: checkpoint.entries], *kept]
        self._items = checkpoint.items[: checkpoint.length]
        self.turn_context = checkpoint.turn_context
        self._turn_start, self._in_turn = None, False
        # The tokens of the turns that were rolled back were still spent.
        spent = [event for event in self._events[checkpoint.events :] if isinstance(event, TokenCountEvent)]
        self._events = [*self._events[: checkpoint.events], *spent[-1:]]
        self._turn_items = [*self._turn_items[: checkpoint.events], *(None for _ in spent[-1:])]

    def _compact(self, payload: dict[str, Any]) -> None:
        replacement = payload.get("replacement_history")
        if isinstance(replacement, list):
            self._items = [_item(part) for part in replacement if isinstance(part, dict)]
            return
        user_messages = [item for item in self._items if is_user_message(item)]
        summary = payload.get("message")
        self._items = [*user_messages, user_message(summary)] if isinstance(summary, str) and summary else user_messages


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a line's object, which has ``type`` and ``payload``. It is empty for an empty line, and None for an unreadable one."""
    if not line.strip(b" \t\r\n\0"):  # a power failure can leave NULs in place of a line
        return {}
    try:
        raw = json.loads(line)
        return raw if "type" in raw and "payload" in raw else None
    except (ValueError, TypeError, RecursionError):
        return None


def _ordinal(raw: dict[str, Any] | None, before: int) -> int:
    """Return a line's ordinal. A line without one has the ordinal after that of the previous line."""
    ordinal = raw.get("ordinal") if raw else None
    return ordinal if isinstance(ordinal, int) else before + 1


def _item(payload: dict[str, Any]) -> ResponseItem:
    payload.pop(_PRIVATE_FIELD, None)
    return packed_item(read_item(payload))


def _events(payload: dict[str, Any]) -> tuple[ItemCompletedEvent | None, Sequence[EventMsg]]:
    """Return the turn item of a line, and the events that an older version of Codex would have written.

    Newer versions write ``item_completed`` events with whole turn items in place of message events.
    """
    event = read_event(payload)
    if not isinstance(event, ItemCompletedEvent):
        return None, [event]
    older = older_events(event.item)
    return event, [event] if older is None else older
