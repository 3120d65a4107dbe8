"""The role of a thread store, which keeps conversations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.value import Value, field

__all__ = [
    "CompactedEntry",
    "EventEntry",
    "ItemEntry",
    "PluginEntry",
    "StoredThread",
    "ThreadEntry",
    "ThreadMeta",
    "ThreadRecorder",
    "ThreadStore",
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


class ItemEntry(Value):
    """An item of the history. ``encoded`` is its JSON, if it has already been encoded."""

    item: ResponseItem
    encoded: bytes | None = field(default=None, eq=False, repr=False)


class EventEntry(Value):
    """An event to keep. Stores do not receive other events, except those that a recorder names in ``also_kept``."""

    msg: EventMsg


class TurnContextEntry(Value):
    """The settings a turn ran with (wire: ``turn_context``)."""

    payload: Mapping[str, Any]


class PluginEntry(Value, kw_only=True):
    """A plugin's own entry.

    Attributes:
        plugin: The plugin's name.
        kind: The plugin's name for this kind of entry.
        data: Plain JSON data.
        turn_id: The turn with which it is rolled back. None means that it is never rolled back.
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


ThreadEntry: TypeAlias = ItemEntry | EventEntry | TurnContextEntry | PluginEntry | CompactedEntry


class StoredThread(Value, kw_only=True):
    """A thread read back.

    Attributes:
        history: The start of the next prompt. Compactions, rollbacks and truncated lines have been applied.
        events: The stored events, oldest first, for display.
        last_turn_context: The newest ``turn_context`` payload.
        entries: Entries of plugins, oldest first, without those of turns that were rolled back.
        path: The file. None means that there is none.
        warnings: Faults that were found and how they were repaired, for the user.
    """

    meta: ThreadMeta
    history: tuple[ResponseItem, ...]
    events: tuple[EventMsg, ...] = ()
    last_turn_context: Mapping[str, Any] | None = None
    entries: tuple[PluginEntry, ...] = ()
    path: str | None = None
    warnings: tuple[str, ...] = ()


class ThreadRecorder(Protocol):
    """Writes one thread.

    A recorder may have an attribute ``also_kept``, a frozenset of types of events (``{"exec_command_end"}``). It then receives these
    events in addition to those that every store keeps. The attribute is read once.
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
            ThreadError: There is none, or it cannot be read. A truncated last line is repaired and is not an error.
        """
        raise NotImplementedError

    @abstractmethod
    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the newest thread. With ``cwd``, only threads that were started there are considered."""
        raise NotImplementedError
