"""Reconstruction of a thread from its rollout files: the history for the next prompt, and the events.

Lines are applied oldest first. An unreadable line is skipped and reported. Lines of an unknown kind are ignored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from codex_framework.contract.protocol.events import EventMsg, TurnStartedEvent
from codex_framework.contract.protocol.events.event import PACKED_TEXTS
from codex_framework.contract.protocol.items import ResponseItem, is_user_message, user_message
from codex_framework.contract.protocol.wire import WireError, packed_item, read, read_event, read_item
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    PluginEntry,
    ThreadEntry,
    TurnContextEntry,
)
from codex_framework.toolkit.thread_records import ThreadState
from codex_plugin_rollout.head import changed

__all__ = ["Place", "Reconstruction"]

_PRIVATE_FIELD = "internal_chat_message_metadata_passthrough"
"""Internal field that newer Codex versions add to items. Some servers reject it."""

_TEXTS = ("text", "message", "last_agent_message")
"""Fields of events with long texts. One wide character makes Python store a text with four bytes for each character."""

_SHORT = 40
"""Maximum length, in characters, of the texts of turn items that are stored only once."""

_LONG = 512
"""Minimum length, in characters, of event texts that are packed."""


class Place(NamedTuple):
    """A line of a thread.

    Attributes:
        part: The index of its file among the thread's files.
        ordinal: Its ordinal.
        offset: The number of bytes before it.
    """

    part: int
    ordinal: int
    offset: int


class Reconstruction:
    """The state of a thread after the lines applied so far.

    Attributes:
        meta: The head of the thread's own file, or else the first ``session_meta`` payload with an ``id``. (The file of a fork
            may also contain its parent's head, further down.) It has the newest values of fields that can change.
        state: The state of the thread. The place of an entry is its line.
        warnings: The problems in the files, as sentences for the user.
    """

    def __init__(self, meta: Mapping[str, Any] | None = None) -> None:
        self.meta = meta
        self.state = ThreadState[Place]()
        self.warnings: list[str] = []
        self._number = 0
        self._skipped: list[int] = []
        self._has_lines = False
        self._texts: dict[bytes, bytes] = {}
        self._part = -1
        self._ordinal = self._offset = self._next_offset = 0

    @property
    def is_foreign(self) -> bool:
        """Whether there are whole lines, and none of them is one of a rollout file."""
        return bool(self._skipped) and not self._has_lines

    @property
    def end(self) -> Place:
        """The place after the last whole line."""
        return Place(self._part, self._ordinal + 1, self._next_offset)

    def take(self, lines: Iterable[bytes], *, end: int | None = None, file: str = "the conversation's file") -> bool:
        """Apply lines of a file in order.

        Args:
            end: The ordinal of the first line to leave out. None if all lines are applied.
            file: The file's name in warnings.

        Returns:
            Whether the lines reached ``end``.
        """
        self._number, self._skipped = 0, []
        self.state.end_turn()
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
            self.warnings.append(f"{len(skipped)} unreadable line(s) of {file} were skipped (line {places})")
        if torn:
            self.warnings.append(f"the last line of {file} was incomplete and was skipped")

    def _apply(self, kind: str, payload: dict[str, Any]) -> None:
        match kind:
            case "response_item":
                self._add(ItemEntry(_item(payload)))
            case "event_msg":
                if "item" in payload:
                    payload["item"] = _intern_value(payload["item"])
                self._add_event(read_event(payload))
            case "turn_context":
                self._add(TurnContextEntry(payload))
            case "compacted":
                self._add(CompactedEntry("", self._compacted(payload)))
            case "plugin_entry":
                try:
                    self._add(read(PluginEntry, payload))
                except WireError:
                    self._skipped.append(self._number)
            case "session_meta" if isinstance(payload.get("id"), str):
                self.meta = payload if self.meta is None else changed(self.meta, payload)

    def _add(self, entry: ThreadEntry) -> None:
        self.state.add(entry, Place(self._part, self._ordinal, self._offset))

    def _add_event(self, event: EventMsg) -> None:
        if isinstance(event, TurnStartedEvent):
            self._texts.clear()
        count = len(self.state.events)
        self._add(EventEntry(event))
        for added in self.state.events[count:]:
            self._pack(added)

    def _pack(self, event: EventMsg) -> None:
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

    def _compacted(self, payload: dict[str, Any]) -> tuple[ResponseItem, ...]:
        replacement = payload.get("replacement_history")
        if isinstance(replacement, list):
            return tuple(_item(part) for part in replacement if isinstance(part, dict))
        user_messages = [item for item in self.state.items if is_user_message(item)]
        summary = payload.get("message")
        if isinstance(summary, str) and summary:
            user_messages.append(user_message(summary))
        return tuple(user_messages)


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


def _intern_value(value: Any) -> Any:
    """Return a value of JSON whose names and short texts are stored only once for all lines."""
    if isinstance(value, dict):
        return {sys.intern(key): _intern_value(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_intern_value(part) for part in value]
    return sys.intern(value) if isinstance(value, str) and len(value) <= _SHORT else value


def _item(payload: dict[str, Any]) -> ResponseItem:
    payload.pop(_PRIVATE_FIELD, None)
    return packed_item(read_item(payload))
