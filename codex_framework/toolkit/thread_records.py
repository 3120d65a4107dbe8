"""What the thread stores of plugins share: the state of a thread after its entries, and entries as JSON.

A store needs to keep the entries of each thread in order, and little else::

    def load(self, thread_id, codex_home):
        meta, rows = ...
        return fold_entries(meta, (decode_entry(kind, text) for kind, text in rows))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    EventMsg,
    ThreadRolledBackEvent,
    TokenCountEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.items import (
    Message,
    ResponseItem,
    begins_turn,
    is_user_message,
    with_paired_outputs,
)
from codex_framework.contract.protocol.wire import WireError, encode_item, encode_json, read, read_event, read_item
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    MetaEntry,
    PluginEntry,
    StoredThread,
    StoredTurn,
    ThreadEntry,
    ThreadMeta,
    ThreadSummary,
    TurnContextEntry,
)
from codex_framework.contract.value import Value

__all__ = [
    "begins_thread",
    "count_entries",
    "decode_entry",
    "encode_entry",
    "fold_entries",
    "is_context",
    "searchable_text",
    "summary_of",
]


def begins_thread(entry: ThreadEntry) -> bool:
    """Return whether the user has said something. Before that, a store writes nothing."""
    if isinstance(entry, EventEntry):
        return isinstance(entry.msg, (TurnStartedEvent, UserMessageEvent))
    return isinstance(entry, ItemEntry) and is_user_message(entry.item)


def is_context(item: ResponseItem) -> bool:
    """Return whether an item is context that was inserted before the message with which a turn begins."""
    return isinstance(item, Message) and item.role != "assistant" and not begins_turn(item)


def fold_entries(meta: ThreadMeta, entries: Iterable[ThreadEntry]) -> StoredThread:
    """Return the thread that begins with a head and continues with these entries, oldest first."""
    fold = _Fold(entries)
    return StoredThread(
        meta=meta if not fold.meta else meta.evolve(extra={**meta.extra, **fold.meta}),
        history=tuple(with_paired_outputs(fold.items)),
        events=tuple(fold.events),
        last_turn_context=fold.context,
        entries=tuple(fold.own),
        turns=tuple(turn.stored for turn in fold.turns),
    )


def count_entries(thread_id: str, entries: Iterable[ThreadEntry], at: int | str | None) -> int:
    """Return how many entries of a thread its fork begins with.

    Args:
        at: The last turn to keep: its number, starting at 1, or its id. None keeps the whole thread.

    Raises:
        ThreadError: There is no such turn.
    """
    fold = _Fold(entries)
    turns = fold.turns
    if at is None:
        return fold.count
    number = at if isinstance(at, int) else next((n for n, turn in enumerate(turns, 1) if turn.stored.id == at), None)
    if number is None or not 1 <= number <= len(turns):
        there = f"it has {len(turns)} turn{'' if len(turns) == 1 else 's'}"
        raise ThreadError(
            f"thread {thread_id} has no turn {at}: {there}",
            slug="no-such-turn",
            hint=f"List the turns: codex-framework sessions show {thread_id}",
        )
    return fold.count if number == len(turns) else turns[number].place


def encode_entry(entry: ThreadEntry) -> tuple[str, str]:
    """Return the kind of an entry, and its JSON. Lone surrogates become ``?``, so that every program can read it."""
    match entry:
        case ItemEntry(item=item, encoded=encoded):
            return "item", (encode_item(item) if encoded is None else encoded).decode()
        case EventEntry(msg=msg):
            kind, value = "event", msg
        case TurnContextEntry(payload=value):
            kind = "turn_context"
        case MetaEntry(changes=value):
            kind = "meta"
        case PluginEntry():
            kind, value = "plugin", entry
        case CompactedEntry(message=message, items=items):
            kind, value = "compacted", {"message": message, "items": list(items)}
    return kind, encode_json(value).encode("utf-8", "replace").decode()


def decode_entry(kind: str, text: str) -> ThreadEntry | None:
    """Return an entry from its kind and JSON. None for a kind of a newer version, and for what is not JSON of that kind."""
    try:
        raw = json.loads(text)
        match kind:
            case "item":
                return ItemEntry(read_item(raw), text.encode())
            case "event":
                return EventEntry(read_event(raw))
            case "turn_context":
                return TurnContextEntry(dict(raw))
            case "meta":
                return MetaEntry({str(key): str(value) for key, value in raw.items()})
            case "plugin":
                return read(PluginEntry, raw)
            case "compacted":
                return CompactedEntry(str(raw["message"]), tuple(map(read_item, raw["items"])))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, WireError):
        pass
    return None


def searchable_text(entry: ThreadEntry) -> str | None:
    """Return the text of a message of the user or the agent, which a search looks at. None for other entries."""
    if isinstance(entry, EventEntry) and isinstance(entry.msg, (UserMessageEvent, AgentMessageEvent)):
        return entry.msg.message
    return None


def summary_of(
    meta: ThreadMeta,
    *,
    updated_at: float,
    name: str | None = None,
    preview: str | None = None,
    archived: bool = False,
    match: str | None = None,
) -> ThreadSummary:
    """Return a thread in a list, from its head and what the store knows besides."""
    parent = meta.extra.get("parent_thread_id")
    return ThreadSummary(
        id=meta.id,
        cwd=meta.cwd,
        created_at=meta.created_at,
        updated_at=updated_at,
        source=meta.source,
        model_provider=meta.model_provider,
        name=name,
        preview=preview,
        archived=archived,
        forked_from_id=meta.forked_from_id,
        parent_id=parent if isinstance(parent, str) else None,
        match=match,
        meta=meta.evolve(base_instructions=None),
    )


class _Turn(Value):
    """The state before a turn, and the index of the turn's first entry."""

    stored: StoredTurn
    place: int
    items: list[ResponseItem]  # later items are appended to it; a compaction or a rollback begins another list
    length: int
    own: int
    context: Mapping[str, Any] | None


class _Fold:
    """The state of a thread after its entries.

    A turn counts once a message begins it. It starts with its first entry: the start of the turn, or the context that was added
    before the message.
    """

    def __init__(self, entries: Iterable[ThreadEntry]) -> None:
        self.items: list[ResponseItem] = []
        self.events: list[EventMsg] = []
        self.own: list[PluginEntry] = []
        self.context: Mapping[str, Any] | None = None
        self.meta: dict[str, str] = {}
        self.turns: list[_Turn] = []
        self.count = 0
        self._begun: _Turn | None = None
        self._is_running = False
        for entry in entries:
            self._add(entry)
            self.count += 1

    def _add(self, entry: ThreadEntry) -> None:
        match entry:
            case ItemEntry(item=item):
                if begins_turn(item):
                    self._begin_turn()
                self.items.append(item)
            case EventEntry(msg=ThreadRolledBackEvent(num_turns=turns)):
                self._roll_back(turns)
            case EventEntry(msg=msg):
                self._follow(msg)
                self.events.append(msg)
            case CompactedEntry(items=items):
                self.items = list(items)
            case PluginEntry():
                self.own.append(entry)
            case MetaEntry(changes=changes):
                self.meta.update(changes)
            case TurnContextEntry(payload=payload):
                self.context = payload

    def _follow(self, msg: EventMsg) -> None:
        if isinstance(msg, TurnStartedEvent):
            self._begun, self._is_running = self._turn(len(self.items), msg.turn_id), True
        elif isinstance(msg, (TurnCompleteEvent, TurnAbortedEvent)):
            self._begun, self._is_running = None, False

    def _begin_turn(self) -> None:
        if self._begun is not None:
            self.turns.append(self._begun)
            self._begun = None
        elif not self._is_running:  # otherwise the message steers the turn
            length = len(self.items)
            while length and is_context(self.items[length - 1]):
                length -= 1
            self.turns.append(self._turn(length, None))

    def _turn(self, length: int, turn_id: str | None) -> _Turn:
        stored = StoredTurn(id=turn_id, first_event=len(self.events))
        return _Turn(stored, self.count, self.items, length, len(self.own), self.context)

    def _roll_back(self, count: int) -> None:
        if count < 1 or not self.turns:
            return
        first = self.turns[-min(count, len(self.turns))]
        del self.turns[-min(count, len(self.turns)) :]
        self.items, self.context = first.items[: first.length], first.context
        self.own = [*self.own[: first.own], *(entry for entry in self.own[first.own :] if entry.turn_id is None)]
        # The tokens of the turns were spent nevertheless.
        spent = [event for event in self.events[first.stored.first_event :] if isinstance(event, TokenCountEvent)]
        self.events = [*self.events[: first.stored.first_event], *spent[-1:]]
        self._begun, self._is_running = None, False
