"""What a thread tells and what it keeps: its clients, its history, its record in the thread store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events import (
    Event,
    EventMsg,
    SessionConfiguredEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    PluginEntry,
    ThreadEntry,
    ThreadRecorder,
    TurnContextEntry,
)
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.history import History
from codex_framework.threads.subscription import Subscription

__all__ = ["UNSAVED", "Journal", "sentence"]

UNSAVED = "Failed to save the conversation transcript"
"""How a warning begins that tells of an unsaved conversation (Codex's words)."""


class Journal:
    """Tells clients and observers, appends to history, and hands to the store what is kept.

    Args:
        recorder: None keeps nothing on disk.
        entries: Lines of plugins that are in the record already.
    """

    def __init__(
        self,
        thread_id: str,
        *,
        history: History,
        broadcast: Broadcast,
        recorder: ThreadRecorder | None,
        entries: Sequence[PluginEntry] = (),
    ) -> None:
        self.history = history
        self._thread_id = thread_id
        self._broadcast = broadcast
        self._recorder = recorder
        self._entries = list(entries)
        self._subscriptions: list[Subscription] = []
        self._early: list[Event] = []
        self._head: Event | None = None
        self._unsaved = False
        self._ended = False

    @property
    def path(self) -> str | None:
        """Where the thread is, or will be, on disk. None if it is not kept."""
        return None if self._recorder is None else self._recorder.path

    @property
    def listeners(self) -> int:
        """How many clients listen."""
        return len(self._subscriptions)

    @property
    def answering(self) -> int:
        """How many clients listen that can answer requests."""
        return sum(subscription.answers for subscription in self._subscriptions)

    def attended(self) -> bool:
        """Return whether a client listens that can answer requests."""
        return any(subscription.answers for subscription in self._subscriptions)

    # Telling

    def open(self, head: SessionConfiguredEvent, warnings: Sequence[str] = ()) -> None:
        """Begin with the event that every client hears first."""
        self._head = Event("", head)
        self._early += [Event("", WarningEvent(text)) for text in warnings]
        self._broadcast.event(self._thread_id, self._head)

    def subscribe(self, *, limit: int, answers: bool) -> Subscription:
        """Add a client: the head first, then everything from now on."""
        subscription = Subscription(self._subscriptions.remove, limit=limit, answers=answers)
        if self._head is not None:
            subscription.put(self._head)
        for event in self._early:
            subscription.put(event)
        self._early.clear()
        self._subscriptions.append(subscription)
        if self._ended:
            subscription.end()
        return subscription

    def emit(self, submission: str, msg: EventMsg, child: str = "") -> None:
        """Tell clients and observers; keep what is to be kept."""
        event = Event(submission, msg, child)
        for subscription in self._subscriptions:
            subscription.put(event)
        if msg.is_delta:
            return
        self._broadcast.event(self._thread_id, event)
        if msg.is_kept():
            self._keep((EventEntry(msg),))

    def warn(self, text: str) -> None:
        """Tell clients something that belongs to no turn; kept for the first listener if there is none yet."""
        if self._subscriptions:
            self.emit("", WarningEvent(text))
        else:
            self._early.append(Event("", WarningEvent(text)))

    # Keeping

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the record."""
        self._keep([ItemEntry(item, self.history.append(item)) for item in items])

    def turn_context(self, payload: Mapping[str, Any]) -> None:
        """Keep the settings that a turn runs with."""
        self._keep((TurnContextEntry(payload),))

    def compact(self, items: Sequence[ResponseItem], message: str) -> None:
        """Put items in the place of the history."""
        self.history.replace(items)
        self._keep((CompactedEntry(message, tuple(items)),))

    def reload(self, items: Sequence[ResponseItem], entries: Sequence[PluginEntry]) -> None:
        """Take over what the store made of the record, after a rollback was written into it."""
        self.history.replace(items)
        self._entries = list(entries)

    def append_entry(self, entry: PluginEntry) -> None:
        """Add a line of a plugin's own."""
        self._entries.append(entry)
        self._keep((entry,))

    def entries(self, plugin: str, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return a plugin's own lines of a kind, oldest first."""
        return [entry.data for entry in self._entries if entry.plugin == plugin and entry.kind == kind]

    def flush(self, submission: str) -> None:
        """Bring the record to disk. What cannot be written is kept and tried again; the person is told once."""
        if self._recorder is None:
            return
        try:
            self._recorder.flush()
        except Exception as error:  # ThreadError by contract; anything else is no reason to lose the turn either
            if not self._unsaved:
                self._unsaved = True
                text = f"{UNSAVED}; it is kept in memory and tried again. Error: {sentence(error)}"
                self.emit(submission, WarningEvent(text))
        else:
            self._unsaved = False

    def close(self) -> None:
        """Flush the record for good."""
        if self._recorder is None:
            return
        try:
            self._recorder.close()
        except Exception as error:  # a store that is broken must not keep the rest from being closed
            self.emit("", WarningEvent(f"{UNSAVED}: {sentence(error)}"))

    def end(self) -> None:
        """Tell clients no more."""
        self._ended = True
        for subscription in list(self._subscriptions):
            subscription.end()

    def _keep(self, entries: Sequence[ThreadEntry]) -> None:
        """Hand entries to the store. One that breaks its promise not to raise is given up: the conversation goes on without."""
        if self._recorder is None:
            return
        try:
            self._recorder.append(entries)
        except Exception as error:  # whatever a broken store raises
            self._recorder = None
            self.warn(f"the conversation is not kept any more: its store failed: {type(error).__name__}: {error}")


def sentence(error: BaseException) -> str:
    """Return an error as a sentence for a person: fact and hint of an error of ours, class and text of any other."""
    if not isinstance(error, CodexError):
        return f"{type(error).__name__}: {error}"
    return f"{error}. {error.hint}" if error.hint else str(error)
