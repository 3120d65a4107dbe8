"""The role of a thread store: where conversations live."""

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
        source: ``cli``, ``exec``, ``vscode``, ``mcp`` or a name of one's own.
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
    """An item of history. ``encoded`` is its JSON, where it is at hand already."""

    item: ResponseItem
    encoded: bytes | None = field(default=None, eq=False, repr=False)


class EventEntry(Value):
    """An event worth keeping. The events of other classes never reach a store."""

    msg: EventMsg


class TurnContextEntry(Value):
    """The settings a turn ran with (wire: ``turn_context``)."""

    payload: Mapping[str, Any]


class PluginEntry(Value, kw_only=True):
    """A line of a plugin's own.

    Attributes:
        plugin: The plugin's name.
        kind: The plugin's word for it.
        data: Plain JSON data.
        turn_id: The turn with which it is rolled back. None if it stays.
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
        history: What the next prompt starts from: compactions, rollbacks and cut lines are accounted for.
        events: The kept events, oldest first, for showing the past.
        last_turn_context: The newest ``turn_context`` payload.
        entries: Lines of plugins, oldest first, without those of turns that were rolled back.
        path: The file, where there is one.
        warnings: What was wrong with it and how it was mended, for a person.
    """

    meta: ThreadMeta
    history: tuple[ResponseItem, ...]
    events: tuple[EventMsg, ...] = ()
    last_turn_context: Mapping[str, Any] | None = None
    entries: tuple[PluginEntry, ...] = ()
    path: str | None = None
    warnings: tuple[str, ...] = ()


class ThreadRecorder(Protocol):
    """Writes one thread."""

    @property
    def path(self) -> str | None:
        """The file, once there is one (or where it will be)."""
        ...

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Take entries. Never raises and never blocks: what cannot be written yet is kept and tried again at flush."""
        ...

    def flush(self) -> None:
        """Write what is held back, so that it survives the end of this process.

        Raises:
            ThreadError: It could not be written (full disk, read-only folder); nothing is dropped, a later flush tries again.
        """
        ...

    def close(self) -> None:
        """Flush and let go. Safe to call twice. Raises as :meth:`flush`."""
        ...


class ThreadStore:
    """Keeps threads.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """A recorder for a new thread. Nothing is written before the first flush after a user message."""
        raise NotImplementedError

    @abstractmethod
    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """A recorder that goes on with a stored thread."""
        raise NotImplementedError

    @abstractmethod
    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Read a thread by id, name or file path.

        Raises:
            ThreadError: There is none, or it cannot be read at all. A cut last line is mended, not an error.
        """
        raise NotImplementedError

    @abstractmethod
    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """The id of the newest thread, of those begun in ``cwd`` where that is given."""
        raise NotImplementedError
