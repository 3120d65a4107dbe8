"""Shared code of thread stores: the state of a thread after its entries, forks, the list of threads, entries as JSON.

A store needs to keep the head of each thread and its entries in order, and little else::

    def load(self, thread_id, codex_home):
        meta, rows = ...
        return fold_entries(meta, (decode_entry(kind, text) for kind, text in rows))
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    EventMsg,
    ItemCompletedEvent,
    ThreadRolledBackEvent,
    TokenCountEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UnknownEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.items import (
    Message,
    ResponseItem,
    begins_turn,
    is_user_message,
    with_paired_outputs,
)
from codex_framework.contract.protocol.turn_items import older_events
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
    ThreadPage,
    ThreadQuery,
    ThreadSummary,
    TurnContextEntry,
)
from codex_framework.contract.value import Value
from codex_framework.contract.version import __version__

__all__ = [
    "BufferedRecorder",
    "ThreadState",
    "begins_thread",
    "changed_meta",
    "count_entries",
    "decode_entry",
    "decode_meta",
    "encode_entry",
    "encode_meta",
    "excerpt",
    "find_id",
    "fold_entries",
    "fork_record",
    "forked_meta",
    "page_of",
    "place_after",
    "preview",
    "preview_of",
    "searchable_text",
    "summary_of",
]

P = TypeVar("P")

_PREVIEW = 200
"""The longest preview, in characters."""

_CONTEXT = 40
"""Characters before and after a found text."""


# The state of a thread


def fold_entries(meta: ThreadMeta, entries: Iterable[ThreadEntry | None]) -> StoredThread:
    """Return the thread that begins with a head and continues with these entries, oldest first.

    An entry that could not be read is None. The user is told how many there are.
    """
    entries = tuple(entries)
    kept = [entry for entry in entries if entry is not None]
    lost = len(entries) - len(kept)
    noun = "entry of the thread was" if lost == 1 else "entries of the thread were"
    warnings = (f"{lost} unreadable {noun} skipped",) if lost else ()
    return _state(kept).stored(changed_meta(meta, kept), warnings=warnings)


def _state(entries: Iterable[ThreadEntry | None]) -> ThreadState[int]:
    state = ThreadState[int]()
    for place, entry in enumerate(entries):
        if entry is not None:
            state.add(entry, place)
    return state


class _Checkpoint(Value, Generic[P]):
    """The state before a turn that was started by a message of the user or of another agent."""

    place: P
    items: list[ResponseItem]
    length: int
    events: int
    entries: int
    turn_context: Mapping[str, Any] | None
    turn_id: str | None = None


class ThreadState(Generic[P]):
    """The state of a thread after the entries added so far.

    Entries are applied oldest first. A compaction replaces the history. A rollback restores the state before a turn, including
    any compactions in that turn; only the token count is kept. Every entry is added with its place in the record, which can be
    anything: a number, an offset in a file.

    Attributes:
        items: The items as recorded. A call may lack its output.
        events: The events for display, without events of turns that were rolled back.
        turn_context: The newest ``turn_context`` payload, or None before the first one.
    """

    def __init__(self) -> None:
        self.items: list[ResponseItem] = []
        self.events: list[EventMsg] = []
        self.turn_context: Mapping[str, Any] | None = None
        self._turn_items: list[ItemCompletedEvent | None] = []  # one for each event
        self._entries: list[PluginEntry] = []
        self._turns: list[_Checkpoint[P]] = []
        self._turn_start: _Checkpoint[P] | None = None
        self._in_turn = False

    @property
    def turns(self) -> tuple[StoredTurn, ...]:
        """The turns that messages started, oldest first, without turns that were rolled back."""
        return tuple(StoredTurn(id=turn.turn_id, first_event=turn.events) for turn in self._turns)

    @property
    def turn_places(self) -> tuple[P, ...]:
        """The place of the first entry of each of :attr:`turns`."""
        return tuple(turn.place for turn in self._turns)

    def stored(self, meta: ThreadMeta, *, path: str | None = None, warnings: Sequence[str] = ()) -> StoredThread:
        """Return the thread as :meth:`ThreadStore.load` returns it. Every call in its history has exactly one output."""
        return StoredThread(
            meta=meta,
            history=tuple(with_paired_outputs(self.items)),
            events=tuple(self.events),
            turn_items=tuple(self._turn_items) if any(self._turn_items) else (),
            last_turn_context=self.turn_context,
            entries=tuple(self._entries),
            turns=self.turns,
            path=path,
            warnings=tuple(warnings),
        )

    def add(self, entry: ThreadEntry, place: P) -> None:
        """Apply an entry."""
        match entry:
            case ItemEntry(item=item):
                if begins_turn(item):
                    self._begin_turn(place)
                self.items.append(item)
            case EventEntry(msg=msg):
                self._add_event(msg, place)
            case TurnContextEntry(payload=payload):
                self.turn_context = _share_values(payload, self.turn_context or {})
            case CompactedEntry(items=items):
                self.items = list(items)
            case PluginEntry():
                self._entries.append(entry)
            case MetaEntry():
                pass  # see `changed_meta`

    def end_turn(self) -> None:
        """Note that no turn is running: the process that recorded the entries so far has ended."""
        self._turn_start, self._in_turn = None, False

    def _begin_turn(self, place: P) -> None:
        """Save the state before this turn, unless the message belongs to a turn that is already running."""
        if self._turn_start is not None:
            self._turns.append(self._turn_start)
            self._turn_start = None
        elif not self._in_turn:
            length = len(self.items)
            while length and _is_context(self.items[length - 1]):
                length -= 1
            self._turns.append(self._checkpoint(place, length))

    def _checkpoint(self, place: P, length: int, turn_id: str | None = None) -> _Checkpoint[P]:
        events, entries = len(self.events), len(self._entries)
        return _Checkpoint(place, self.items, length, events, entries, self.turn_context, turn_id)

    def _add_event(self, msg: EventMsg, place: P) -> None:
        match msg:
            case ThreadRolledBackEvent(num_turns=turns):
                self._roll_back(turns)
                return
            case UnknownEvent(kind="thread_rolled_back"):
                return
            case TurnStartedEvent() | UnknownEvent(kind="task_started" | "turn_started"):
                self._turn_start = self._checkpoint(place, len(self.items), getattr(msg, "turn_id", None))
                self._in_turn = True
            case TurnCompleteEvent() | TurnAbortedEvent():
                self.end_turn()
            case UnknownEvent(kind="task_complete" | "turn_complete" | "turn_aborted"):
                self.end_turn()
            case _:
                pass
        # Newer versions of Codex record whole turn items in place of the events that older ones record.
        item = msg if isinstance(msg, ItemCompletedEvent) else None
        events = None if item is None else older_events(item.item)
        shown = (msg,) if events is None else events
        self.events += shown
        self._turn_items += [item] * len(shown)

    def _roll_back(self, turns: int) -> None:
        if turns < 1 or not self._turns:
            return
        turns = min(turns, len(self._turns))
        before = self._turns[-turns]
        del self._turns[-turns:]
        kept = [entry for entry in self._entries[before.entries :] if entry.turn_id is None]
        self._entries = [*self._entries[: before.entries], *kept]
        self.items = before.items[: before.length]
        self.turn_context = before.turn_context
        self.end_turn()
        # The tokens of the turns that were rolled back were still spent.
        spent = [event for event in self.events[before.events :] if isinstance(event, TokenCountEvent)][-1:]
        self.events = [*self.events[: before.events], *spent]
        self._turn_items = [*self._turn_items[: before.events], *(None for _ in spent)]


def _share_values(payload: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a payload with the equal values of the one before it, because every turn keeps its own for a rollback."""
    shared = {}
    for key, value in payload.items():
        old = before.get(key)
        shared[sys.intern(key)] = old if type(old) is type(value) and old == value else value  # True equals 1
    return shared


def _is_context(item: ResponseItem) -> bool:
    """Return whether the item is context that was inserted before the message with which a turn begins."""
    return isinstance(item, Message) and item.role != "assistant" and not begins_turn(item)


def changed_meta(meta: ThreadMeta, entries: Iterable[ThreadEntry]) -> ThreadMeta:
    """Return a thread's head with the changes that are among the entries."""
    changes = {key: text for entry in entries if isinstance(entry, MetaEntry) for key, text in entry.changes.items()}
    return meta.evolve(extra={**meta.extra, **changes}) if changes else meta


# Entries and heads as JSON


def encode_entry(entry: ThreadEntry) -> tuple[str, str]:
    """Return the kind of an entry, and its JSON. Lone surrogates become ``?``, so that every program can read it."""
    value: Any
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
    """Return an entry from its kind and JSON. None for an unknown kind, and for text that is not JSON of that kind."""
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


def encode_meta(meta: ThreadMeta) -> str:
    """Return a thread's head as JSON."""
    return _encode(meta)


def decode_meta(text: str | bytes) -> ThreadMeta:
    """Return the head that :func:`encode_meta` encoded."""
    return read(ThreadMeta, json.loads(text))


def _encode(value: Any) -> str:
    return encode_json(value).encode("utf-8", "replace").decode()


# Forks


def fork_record(
    meta: ThreadMeta, entries: Sequence[ThreadEntry], *, new_id: str, at: int | str | None = None
) -> tuple[ThreadMeta, Sequence[ThreadEntry]]:
    """Return the head and the entries of a new thread that begins as another one.

    Args:
        meta: The head of the thread to fork.
        entries: All of its entries.
        at: The last turn to keep: its number, starting at 1, or its id. None keeps all.

    Raises:
        ThreadError: There is no such turn.
    """
    end = count_entries(meta.id, entries, at)
    # The newest value of a field counts, so earlier ones must not follow it.
    kept = [entry for entry in entries[:end] if not isinstance(entry, MetaEntry)]
    return forked_meta(changed_meta(meta, entries), new_id), kept


def count_entries(thread_id: str, entries: Sequence[ThreadEntry | None], at: int | str | None) -> int:
    """Return how many entries of a thread its fork begins with.

    Args:
        at: The last turn to keep: its number, starting at 1, or its id. None keeps the whole thread.

    Raises:
        ThreadError: There is no such turn.
    """
    return place_after(thread_id, _state(entries), at, len(entries))


def place_after(thread_id: str, state: ThreadState[P], at: int | str | None, end: P) -> P:
    """Return the place after a turn.

    Args:
        thread_id: The thread, for the error.
        at: The turn: its number, starting at 1, or its id. None is the last one.
        end: The place after the last turn.

    Raises:
        ThreadError: There is no such turn.
    """
    count = len(state.turns)
    if at is None:
        return end
    number = at if isinstance(at, int) else next((n for n, turn in enumerate(state.turns, 1) if turn.id == at), 0)
    if not 1 <= number <= count:
        raise ThreadError(
            f"thread {thread_id} has no turn {at}: it has {count or 'no'} turn{'' if count == 1 else 's'}",
            slug="no-such-turn",
            hint=f"List the turns: codex-framework sessions show {thread_id}",
        )
    return end if number == count else state.turn_places[number]


_OWN_FIELDS = frozenset({"session_id", "parent_thread_id", "context_window", "source_detail"})
"""The fields of ``ThreadMeta.extra`` that a fork does not take over."""


def forked_meta(meta: ThreadMeta, new_id: str) -> ThreadMeta:
    """Return the head of a new thread that begins as another one. It is the user's thread, even if the other is a sub-agent's."""
    of_agent = "source_detail" in meta.extra or "parent_thread_id" in meta.extra
    return meta.evolve(
        id=new_id,
        created_at=time.time(),
        forked_from_id=meta.id,
        source="cli" if of_agent else meta.source,
        cli_version=__version__,
        extra={key: value for key, value in meta.extra.items() if key not in _OWN_FIELDS},
    )


# The list of threads


def searchable_text(entry: ThreadEntry) -> str | None:
    """Return the text of a message of the user or the agent, for a search. None for other entries."""
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
    """Return the list entry of a thread, from its head and further data of the store."""
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


def preview_of(entries: Iterable[ThreadEntry]) -> str | None:
    """Return the beginning of the first message of the user, for a list."""
    for entry in entries:
        if isinstance(entry, EventEntry) and isinstance(entry.msg, UserMessageEvent) and entry.msg.message:
            return preview(entry.msg.message)
    return None


def preview(text: str) -> str:
    """Return the beginning of a message, on one line."""
    return " ".join(text[: _PREVIEW * 2].split())[:_PREVIEW]


def excerpt(text: str, wanted: str) -> str:
    """Return the place at which a text contains another one, which is case-folded, in its context."""
    place = text.casefold().find(wanted)
    start, end = max(0, place - _CONTEXT), place + len(wanted) + _CONTEXT
    cut = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"


def page_of(
    threads: Iterable[ThreadSummary], query: ThreadQuery, texts: Callable[[ThreadSummary], Iterable[str]]
) -> ThreadPage:
    """Return the threads that match a query, most recently changed first.

    Args:
        threads: All threads, or a selection made by a database, in any order.
        texts: Returns the texts of a thread, for a search. See :func:`searchable_text`.

    Raises:
        ThreadError: The limit is not positive, or the cursor is not from this function.
    """
    if query.limit < 1:
        raise ThreadError(f"the limit is {query.limit}", slug="bad-request", hint="Ask for at least one thread.")
    after = None if query.cursor is None else _read_cursor(query.cursor)
    found: list[ThreadSummary] = []
    for thread in sorted(threads, key=_rank, reverse=True):
        if (after is None or _rank(thread) < after) and (fitting := _match(thread, query, texts)) is not None:
            if len(found) == query.limit:
                return ThreadPage(threads=tuple(found), cursor=f"{found[-1].updated_at!r}:{found[-1].id}")
            found.append(fitting)
    return ThreadPage(threads=tuple(found))


def _rank(thread: ThreadSummary) -> tuple[float, str]:
    return thread.updated_at, thread.id


def _read_cursor(cursor: str) -> tuple[float, str]:
    updated_at, _, thread_id = cursor.partition(":")
    try:
        return float(updated_at), thread_id
    except ValueError:
        raise ThreadError(
            f"{cursor!r} is not a cursor of the list of threads",
            slug="bad-request",
            hint="Pass the cursor of the previous page, or none for the first one.",
        ) from None


def _match(
    thread: ThreadSummary, query: ThreadQuery, texts: Callable[[ThreadSummary], Iterable[str]]
) -> ThreadSummary | None:
    if query.archived not in (None, thread.archived) or (thread.parent_id is not None and not query.subagents):
        return None
    if query.cwd is not None and thread.cwd != query.cwd and not _is_same_folder(thread.cwd, query.cwd):
        return None
    if not query.text:
        return thread
    wanted = query.text.casefold()
    if wanted in (thread.name or "").casefold():
        return thread.evolve(match=thread.name)
    text = next((text for text in texts(thread) if wanted in text.casefold()), None)
    return None if text is None else thread.evolve(match=excerpt(text, wanted))


def _is_same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


_SHORTEST_PREFIX = 4
"""Shorter prefixes of ids would often be ambiguous."""


def find_id(wanted: str, names: Mapping[str, str | None]) -> str:
    """Return the id of the thread that a user names by its id, its name or the beginning of its id.

    Args:
        names: The name of each thread, by id. None if it has no name.

    Raises:
        ThreadError: There is no such thread, or there are several.
    """
    found = [wanted] if wanted in names else []
    found = found or [id_ for id_, name in names.items() if wanted and name == wanted]
    found = found or [id_ for id_ in names if len(wanted) >= _SHORTEST_PREFIX and id_.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    raise ThreadError(
        f"{len(found)} sessions are called or begin with {wanted}" if found else f"no thread found with id {wanted}",
        slug="thread-not-found",
        hint="`codex-framework sessions list` lists the sessions.",
    )


# Recorders


def begins_thread(entry: ThreadEntry) -> bool:
    """Return whether the user has said something. Before that, a store writes nothing."""
    if isinstance(entry, EventEntry):
        return isinstance(entry.msg, (TurnStartedEvent, UserMessageEvent))
    return isinstance(entry, ItemEntry) and is_user_message(entry.item)


class BufferedRecorder:
    """A recorder that passes entries on at each flush, but none of a new thread before its first turn.

    Args:
        write: Writes entries, all or none of them. If it raises ThreadError, the entries are kept for the next flush.
        close: Called once, after the last flush: releases a lock, for example.
        begun: Whether the thread has already been written.
    """

    path: str | None = None

    def __init__(
        self,
        write: Callable[[Sequence[ThreadEntry]], None],
        *,
        close: Callable[[], None] = lambda: None,
        begun: bool,
    ) -> None:
        self._write = write
        self._close = close
        self._begun = begun
        self._pending: list[ThreadEntry] = []

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Add entries."""
        self._pending += entries
        self._begun = self._begun or any(map(begins_thread, entries))

    def flush(self) -> None:
        """Write the pending entries. Raises ThreadError."""
        if self._begun and self._pending:
            self._write(tuple(self._pending))
            self._pending.clear()

    def close(self) -> None:
        """Write the pending entries, and release the thread. Raises ThreadError."""
        self.flush()
        close, self._close = self._close, lambda: None
        close()
