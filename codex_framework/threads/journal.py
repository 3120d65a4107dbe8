"""The outputs of a thread: events for its clients, its history, and its record in the thread store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from codex_framework.contract.errors import CodexError, described
from codex_framework.contract.protocol.events import (
    Event,
    EventMsg,
    Request,
    RequestResolvedEvent,
    SessionConfiguredEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.provenance import KIND
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    MetaEntry,
    PluginEntry,
    RecorderStopped,
    ThreadEntry,
    ThreadRecorder,
    TurnContextEntry,
)
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.faults import Label
from codex_framework.threads.history import History
from codex_framework.threads.shown_items import ShownItems
from codex_framework.threads.subscription import Subscription

__all__ = ["UNSAVED", "Journal", "sentence"]

UNSAVED = "Failed to save the conversation transcript"
"""The start of the warning about an unsaved conversation (Codex's words)."""

_STORE = Label("thread store", "rollout", "")

_MAX_EARLY = 100
"""Maximum number of events outside of turns that are kept for the first listener."""


class Journal:
    """Sends events to clients and observers, appends to history, and passes entries to the thread store.

    Args:
        recorder: The recorder of the thread store. None if nothing is stored.
        store: The name of the store, for messages.
        entries: The entries of plugins that are already in the record.
    """

    def __init__(
        self,
        thread_id: str,
        *,
        history: History,
        broadcast: Broadcast,
        recorder: ThreadRecorder | None,
        store: Label = _STORE,
        entries: Sequence[PluginEntry] = (),
    ) -> None:
        self.history = history
        self._thread_id = thread_id
        self._broadcast = broadcast
        self._recorder = recorder
        self._also_kept: Collection[str] = getattr(recorder, "also_kept", ())
        self._store = store
        self._entries = _own_entries(entries)
        self._items = ShownItems(thread_id)
        self._subscriptions: list[Subscription] = []
        self._followers: list[Subscription] = []
        self._early: list[Event] = []
        self._was_heard = False
        self._head: Event | None = None
        self._sent = 0  # events so far
        self._unsaved = False
        self._stopped: RecorderStopped | None = None
        self._ended = False

    @property
    def path(self) -> str | None:
        """The file of the thread, which may not exist yet. None if the thread is not stored."""
        return None if self._recorder is None else self._recorder.path

    @property
    def is_stored(self) -> bool:
        """Whether the thread has a record."""
        return self._recorder is not None

    @property
    def listeners(self) -> int:
        """The number of listening clients."""
        return len(self._subscriptions)

    def answering(self, request: Request[Any]) -> int:
        """Return the number of listening clients that can answer a request."""
        return sum(subscription.can_answer(request) for subscription in self._subscriptions)

    # Events

    def open(self, head: SessionConfiguredEvent, warnings: Sequence[str] = ()) -> None:
        """Set the event that every client receives first, and emit the first warnings."""
        self._head = self._number("", head)
        self._early += [self._number("", WarningEvent(text, slug="start")) for text in warnings]
        self._broadcast.event(self._thread_id, self._head)

    def subscribe(self, *, limit: int, answers: bool, only: tuple[type[EventMsg], ...] | None = None) -> Subscription:
        """Add a client. It receives the first event, then all later ones. The first client gets earlier ones outside of turns too."""
        subscription = Subscription(self._subscriptions.remove, limit=limit, answers=answers, only=only)
        if self._head is not None:
            subscription.put(self._head)
        for event in self._early:
            subscription.put(event)
        self._early.clear()
        self._was_heard = True
        self._subscriptions.append(subscription)
        if self._ended:
            subscription.end()
        return subscription

    def follow(self, *, limit: int) -> Subscription:
        """Add a listener that is no client: it receives all later events, and cannot answer requests."""
        subscription = Subscription(self._followers.remove, limit=limit, answers=False)
        self._followers.append(subscription)
        if self._ended:
            subscription.end()
        return subscription

    def emit(self, submission: str, msg: EventMsg, child: str = "") -> None:
        """Send an event to clients and observers, and record it if its type is recorded."""
        if not msg.is_delta and not child:
            for item in self._items.events_before(submission, msg):
                self._send(submission, item, child)
        self._send(submission, msg, child)

    def _send(self, submission: str, msg: EventMsg, child: str) -> None:
        event = self._number(submission, msg, child)
        if not self._was_heard and not submission:
            self._keep_early(event)
        for subscription in self._subscriptions:
            subscription.put(event)
        for subscription in self._followers:
            subscription.put(event)
        if msg.is_delta:
            return
        self._broadcast.event(self._thread_id, event)
        if msg.is_kept() or msg.type in self._also_kept:
            self._keep((EventEntry(msg),))

    def _number(self, submission: str, msg: EventMsg, child: str = "") -> Event:
        """Return an event with the next number."""
        self._sent += 1
        return Event(submission, msg, child, self._sent)

    def _keep_early(self, event: Event) -> None:
        """Keep an event for the first listener: a component that starts with the thread may be faster. Requests are not kept."""
        is_request = isinstance(event.msg, (Request, RequestResolvedEvent))
        if not is_request and not event.msg.is_delta and len(self._early) < _MAX_EARLY:
            self._early.append(event)

    def warn(self, text: str, slug: str = "warning") -> None:
        """Send clients a warning outside of turns. It is kept for the first listener if nobody listens yet."""
        if self._subscriptions:
            self.emit("", WarningEvent(text, slug=slug))
        else:
            self._early.append(self._number("", WarningEvent(text, slug=slug)))

    # History and record

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the record."""
        self._keep([ItemEntry(item, self.history.append(item)) for item in items])

    def record_turn_context(self, payload: Mapping[str, Any]) -> None:
        """Record the settings of a turn."""
        self._keep((TurnContextEntry(payload),))

    def compact(self, items: Sequence[ResponseItem], message: str) -> None:
        """Replace the history by the items of a compaction."""
        self.history.replace(items)
        self._keep((CompactedEntry(message, tuple(items)),))

    def reload(self, items: Sequence[ResponseItem], entries: Sequence[PluginEntry]) -> None:
        """Adopt the history and entries that the store read back after a rollback was recorded."""
        self.history.replace(items)
        self._entries = _own_entries(entries)

    def append_entry(self, entry: PluginEntry) -> None:
        """Add an entry of a plugin to the record."""
        self._entries.append(entry)
        self._keep((entry,))

    def change_meta(self, changes: Mapping[str, str]) -> None:
        """Record changed fields of the thread's head."""
        self._keep((MetaEntry(changes),))

    def keep(self, entry: PluginEntry) -> None:
        """Add an entry to the record that is not read back here."""
        self._keep((entry,))

    def entries(self, plugin: str, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return a plugin's own entries of a kind, oldest first."""
        return [entry.data for entry in self._entries if entry.plugin == plugin and entry.kind == kind]

    def entries_of(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the entries of a kind of all plugins, oldest first."""
        return [entry.data for entry in self._entries if entry.kind == kind]

    def flush(self, submission: str) -> None:
        """Flush the record to disk. Entries that cannot be written are kept for the next flush, and the user is warned once."""
        if self._recorder is None:
            return
        try:
            self._recorder.flush()
        except Exception as error:  # ThreadError by contract; no other exception may lose the turn either
            self._stopped = error if isinstance(error, RecorderStopped) else None
            if not self._unsaved:
                self._unsaved = True
                text = f"{UNSAVED}; it is kept in memory, and saving will be retried. Error: {self._error_text('flush', error)}"
                self.emit(submission, WarningEvent(text, slug="unsaved"))
        else:
            self._unsaved, self._stopped = False, None

    def flush_before_effects(self, submission: str) -> None:
        """Flush the record, so that it explains later effects even after a crash.

        Raises:
            RecorderStopped: No effect may follow, because it could not be recorded.
        """
        self.flush(submission)
        if self._stopped is not None:
            raise self._stopped

    def close(self) -> None:
        """Flush and close the record."""
        if self._recorder is None:
            return
        try:
            self._recorder.close()
        except Exception as error:  # a broken store must not prevent the rest from being closed
            self.emit("", WarningEvent(f"{UNSAVED}: {self._error_text('close', error)}", slug="unsaved"))

    def end(self) -> None:
        """End the events of all clients."""
        self._ended = True
        for subscription in (*self._subscriptions, *self._followers):
            subscription.end()

    def _keep(self, entries: Sequence[ThreadEntry]) -> None:
        """Pass entries to the store. A store that raises, which it must not, is dropped, and the conversation continues without it."""
        if self._recorder is None:
            return
        try:
            self._recorder.append(entries)
        except Exception as error:  # whatever a broken store raises
            append, self._recorder = self._recorder.append, None
            self.warn(
                self._store.describe_failure(
                    "append", error, then="The conversation is no longer saved.", source=append
                ),
                slug="unsaved",
            )

    def _error_text(self, method: str, error: Exception) -> str:
        """Return the text of an error: a store's own words, or a description of its mistake."""
        if isinstance(error, CodexError):
            return sentence(error)
        return self._store.describe_failure(method, error, source=getattr(self._recorder, method))


def _own_entries(entries: Sequence[PluginEntry]) -> list[PluginEntry]:
    """Return the entries that plugins read. Entries about provenance are only for readers of the record."""
    return [entry for entry in entries if entry.kind != KIND]


def sentence(error: BaseException) -> str:
    """Return an error as a sentence for the user: fact and hint of a CodexError, class and text of any other."""
    if not isinstance(error, CodexError):
        return described(error)
    return f"{error}. {error.hint}" if error.hint else str(error)
