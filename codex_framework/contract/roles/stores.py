"""The role of a thread store, which keeps conversations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import EventMsg, ItemCompletedEvent
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.value import Value, field

__all__ = [
    "CHANGING",
    "CompactedEntry",
    "EventEntry",
    "ItemEntry",
    "MetaEntry",
    "PluginEntry",
    "RecorderStopped",
    "StoredThread",
    "StoredTurn",
    "ThreadEntry",
    "ThreadFault",
    "ThreadMeta",
    "ThreadPage",
    "ThreadQuery",
    "ThreadRecorder",
    "ThreadStore",
    "ThreadSummary",
    "TurnContextEntry",
]


class ThreadMeta(Value, kw_only=True):
    """A thread's head (wire: ``session_meta``).

    Attributes:
        created_at: Unix seconds.
        source: ``cli``, ``exec``, ``vscode``, ``mcp`` or another name.
    """

    id: str
    cwd: str
    created_at: float
    originator: str
    source: str
    cli_version: str
    model_provider: str
    base_instructions: str | None = None
    forked_from_id: str | None = None
    git: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(factory=dict)


CHANGING = frozenset({"memory_mode"})
"""The fields of ``ThreadMeta.extra`` that can change after a thread has begun."""


class ItemEntry(Value):
    """An item of the history. ``encoded`` is its JSON, if it has already been encoded."""

    item: ResponseItem
    encoded: bytes | None = field(default=None, eq=False, repr=False)


class EventEntry(Value):
    """An event to keep. Stores receive no other events, except events that a recorder names in ``also_kept``."""

    msg: EventMsg


class TurnContextEntry(Value):
    """The settings a turn ran with (wire: ``turn_context``)."""

    payload: Mapping[str, Any]


class MetaEntry(Value):
    """Fields of the thread's head have changed (wire: a further ``session_meta`` line). The newest value counts, also in forks.

    Attributes:
        changes: The new values of fields of ``ThreadMeta.extra``, by name. The names are some of :data:`CHANGING`.
    """

    changes: Mapping[str, str]


class PluginEntry(Value, kw_only=True):
    """A plugin's own entry.

    Attributes:
        plugin: The plugin's name.
        kind: The plugin's name for this kind of entry.
        data: Plain JSON data.
        turn_id: The turn with which it is rolled back. None if it is never rolled back.
    """

    plugin: str
    kind: str
    data: Mapping[str, Any]
    turn_id: str | None = None


class CompactedEntry(Value):
    """History was replaced (wire: ``compacted``).

    Attributes:
        message: The summary.
        items: The whole new history, oldest first.
    """

    message: str
    items: tuple[ResponseItem, ...]


ThreadEntry: TypeAlias = ItemEntry | EventEntry | TurnContextEntry | MetaEntry | PluginEntry | CompactedEntry


class StoredTurn(Value, kw_only=True):
    """A turn of a stored thread that the user or another agent started and that was not rolled back.

    Attributes:
        id: The turn's id. None if the record does not name it.
        first_event: The index of its first event in ``StoredThread.events``.
    """

    id: str | None
    first_event: int


class StoredThread(Value, kw_only=True):
    """A thread that was read from a store.

    Attributes:
        history: The start of the next prompt. Compactions, rollbacks and truncated lines have been applied.
        events: The stored events, oldest first, for display.
        turn_items: The turn item of each event, if the record contains it. Several events can share an item. Empty if the
            record has no turn items.
        last_turn_context: The newest ``turn_context`` payload.
        entries: Entries of plugins, oldest first, without the entries of turns that were rolled back.
        turns: The turns, oldest first. Their numbers start at 1.
        path: The file, if any.
        warnings: Faults that were found and how they were repaired, for the user.
    """

    meta: ThreadMeta
    history: tuple[ResponseItem, ...]
    events: tuple[EventMsg, ...] = ()
    turn_items: tuple[ItemCompletedEvent | None, ...] = ()
    last_turn_context: Mapping[str, Any] | None = None
    entries: tuple[PluginEntry, ...] = ()
    turns: tuple[StoredTurn, ...] = ()
    path: str | None = None
    warnings: tuple[str, ...] = ()


class ThreadSummary(Value, kw_only=True):
    """A stored thread in a list.

    Attributes:
        created_at, updated_at: Unix seconds. ``updated_at`` is the time of the last change.
        name: The name that the user gave it, if any.
        preview: The first message of the user, if any.
        parent_id: The thread that started it as a sub-agent. None if it is no sub-agent's.
        match: The place that a search found, in its context. None if no text was searched for.
        path: The file, if any.
        meta: The thread's head, without its instructions. None if the store cannot read it cheaply.
    """

    id: str
    cwd: str
    created_at: float
    updated_at: float
    source: str
    model_provider: str = ""
    name: str | None = None
    preview: str | None = None
    archived: bool = False
    forked_from_id: str | None = None
    parent_id: str | None = None
    match: str | None = None
    path: str | None = None
    meta: ThreadMeta | None = None


class ThreadQuery(Value, kw_only=True):
    """A selection of stored threads.

    Attributes:
        limit: The most threads of one page.
        cursor: ``ThreadPage.cursor`` of the previous page. By default, the first page.
        cwd: Only threads that were started in this folder. By default, any folder.
        text: Only threads whose name, or a message in them, contains this text. Case does not matter. By default, any thread.
        archived: Only archived threads (True), only others (False), or both (None).
        subagents: Whether threads of sub-agents are listed, too.
    """

    limit: int = 25
    cursor: str | None = None
    cwd: str | None = None
    text: str | None = None
    archived: bool | None = False
    subagents: bool = False


class ThreadPage(Value, kw_only=True):
    """A part of the list of stored threads.

    Attributes:
        threads: The threads, most recently changed first.
        cursor: The start of the next page. None on the last page.
    """

    threads: tuple[ThreadSummary, ...]
    cursor: str | None = None


class ThreadFault(Value, kw_only=True):
    """Damage in the record of a thread.

    Attributes:
        thread_id: The thread, if known.
        fact: The damage, as a sentence.
        repair: The action of :meth:`ThreadStore.repair`, as a sentence. None if it cannot be repaired.
        path: The file.
    """

    thread_id: str | None
    fact: str
    repair: str | None = None
    path: str | None = None


class RecorderStopped(ThreadError):  # noqa: N818  # named like the other errors that end something
    """A recorder cannot continue, for example because another process continues the thread.

    The turn ends before its next effect.
    """


class ThreadRecorder(Protocol):
    """Writes one thread.

    A recorder may have an attribute ``also_kept``, a frozenset of types of events (``{"exec_command_end"}``). It then receives
    these events in addition to the events that every store keeps. The attribute is read once.
    """

    @property
    def path(self) -> str | None:
        """The path of the file, which may not exist yet."""
        ...

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Add entries. Never raises and never blocks: entries that cannot be written yet are kept and retried at the next flush."""
        ...

    def flush(self) -> None:
        """Write buffered entries, so that they survive the end of this process.

        Raises:
            ThreadError: The entries cannot be written (full disk, read-only folder). They are kept, and a later flush retries.
                The turn continues, unless this is a :class:`RecorderStopped`.
        """
        ...

    def close(self) -> None:
        """Flush and release the file. Safe to call twice. Raises the same errors as :meth:`flush`."""
        ...


class ThreadStore:
    """Keeps threads.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """Return a recorder for a new thread. Nothing is written before the first flush after the start of a turn."""
        raise NotImplementedError

    @abstractmethod
    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """Return a recorder that continues a stored thread."""
        raise NotImplementedError

    @abstractmethod
    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Read a thread by id, name or file path.

        Raises:
            ThreadError: The thread does not exist or cannot be read. A truncated last line is repaired and is not an error.
        """
        raise NotImplementedError

    @abstractmethod
    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the newest thread. With ``cwd``, only threads that were started there are considered."""
        raise NotImplementedError

    # Stores can do without the following methods.

    def find(self, query: ThreadQuery, codex_home: str) -> ThreadPage:  # noqa: ARG002  # for those who override it
        """List threads, most recently changed first.

        Raises:
            ThreadError: The threads cannot be read, or the cursor is not of this store.
        """
        _refuse(self, "list threads")

    def fork(self, thread_id: str, codex_home: str, *, new_id: str, at: int | str | None = None) -> None:  # noqa: ARG002
        """Store a new thread that begins as another one, which does not change.

        Args:
            thread_id: The id, name or file of the other thread.
            new_id: The id of the new thread.
            at: The last turn to keep: its number, starting at 1, or its id. None keeps the whole thread.

        Raises:
            ThreadError: There is no such thread or no such turn, or it cannot be read or written.
        """
        _refuse(self, "fork threads")

    def rename(self, thread_id: str, name: str, codex_home: str) -> None:  # noqa: ARG002
        """Give a thread a name, by which it can be loaded. An empty name removes its name. Raises ThreadError."""
        _refuse(self, "name threads")

    def archive(self, thread_id: str, codex_home: str) -> None:  # noqa: ARG002
        """Move a thread to the archive, where it is not listed and cannot be resumed. Raises ThreadError."""
        _refuse(self, "archive threads")

    def unarchive(self, thread_id: str, codex_home: str) -> None:  # noqa: ARG002
        """Move a thread back from the archive. Raises ThreadError."""
        _refuse(self, "archive threads")

    def delete(self, thread_id: str, codex_home: str) -> None:  # noqa: ARG002
        """Delete a thread permanently.

        Raises:
            ThreadError: The thread does not exist, is in use, is continued by another thread, or cannot be deleted.
        """
        _refuse(self, "delete threads")

    def check(self, codex_home: str, thread_id: str | None = None) -> Iterable[ThreadFault]:  # noqa: ARG002
        """Return the damages in a thread's record. None checks all threads. Raises ThreadError."""
        _refuse(self, "check threads")

    def repair(self, thread_id: str, codex_home: str) -> Iterable[ThreadFault]:  # noqa: ARG002
        """Repair a thread's record, and return the damages that were found.

        Nothing that can be read is lost, and a copy of the original is kept.

        Raises:
            ThreadError: There is no such thread, it is in use, or its record cannot be written.
        """
        _refuse(self, "repair threads")

    def export(self, thread_id: str, codex_home: str) -> Iterable[bytes]:  # noqa: ARG002
        """Return the lines of a rollout file that contains the whole thread. Raises ThreadError."""
        _refuse(self, "export threads")


def _refuse(store: ThreadStore, what: str) -> NoReturn:
    raise ThreadError(
        f"the thread store {store.name!r} cannot {what}",
        slug="store-cannot",
        hint="Use the store `rollout` for that, or ask the author of the store.",
    )
