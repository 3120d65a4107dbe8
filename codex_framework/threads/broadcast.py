"""Delivery to observers, notifiers and telemetry, none of which can affect a turn.

Each watcher has its own operating-system thread, started at its first delivery. It is called in that thread, one call at a time
and in order; the event loop only fills its queue. A watcher that raises :data:`FAILURES` times for one conversation is muted
for that conversation. A watcher that does not return within :data:`PATIENCE_S` is muted permanently. Both are reported once,
with the plugin's name.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable
from typing import Any

from codex_framework.contract.protocol.events import Event
from codex_framework.contract.roles.observers import (
    MeasurementRow,
    Measurements,
    Notification,
    Notifier,
    Observer,
    Telemetry,
)
from codex_framework.contract.roles.scopes import Trace
from codex_framework.contract.value import Value
from codex_framework.threads.faults import Label
from codex_framework.toolkit.roles import overrides

__all__ = ["FAILURES", "PATIENCE_S", "Broadcast", "Watcher"]

FAILURES = 3
"""The number of failures in one conversation after which a watcher is muted there."""

PATIENCE_S = 5.0
"""Time limit of one call in seconds; beyond it the watcher is muted."""

_GATHER_S = 0.2
"""How long measurements are gathered before telemetry gets them, in seconds. Waking another thread for each would cost the turn."""

_GATHERED = 1_000
"""The number of measurements after which telemetry gets them immediately."""

_BACKLOG = 10_000
"""Maximum queue length; beyond it the watcher is considered stuck."""

Report = Callable[[str, str], None]
"""Called with a conversation's id and a sentence for the user."""


class Role(Value):
    """The name of a watcher, and its method."""

    noun: str
    method: str


_OBSERVER, _NOTIFIER, _TELEMETRY = Role("observer", "observe"), Role("notifier", "notify"), Role("telemetry", "record")


class Watcher:
    """A watching object and its operating-system thread."""

    def __init__(self, role: Role, plugin: str, target: Any, report: Report) -> None:
        self.plugin = plugin
        self._role = role
        self.target = target
        self._report = report
        self._queue: queue.SimpleQueue[tuple[str, str, Callable[[], None]] | threading.Event | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._busy_since: float | None = None
        self._failures: Counter[str] = Counter()
        self._muted: set[str] = set()
        self._given_up = False
        self._told_current = False

    @property
    def label(self) -> Label:
        """Its name in messages."""
        return Label(self._role.noun, self.target.name, self.plugin)

    def tell(self, thread_id: str, call: Callable[[], None], method: str = "") -> None:
        """Queue one call of the role's method, or of ``method``. Never blocks, never raises."""
        if self._given_up or thread_id in self._muted:
            return
        if self._hangs():
            self._given_up = True
            name = self._role.method
            late = self.label.late(name, PATIENCE_S, getattr(self.target, name), then="It is muted.")
            self._report(thread_id, late)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"watcher-{self.plugin}", daemon=True)
            self._thread.start()
        self._queue.put((thread_id, method or self._role.method, call))

    def report_current_failure(self, error: Exception) -> None:
        """Report that ``current`` has raised, once."""
        if not self._told_current:
            self._told_current = True
            self._report("", self.label.describe_failure("current", error, source=self.target.current))

    async def drain(self) -> None:
        """Wait until the calls that are queued now have returned, at most :data:`PATIENCE_S`."""
        if self._thread is not None and self._thread.is_alive() and not self._given_up and not self._hangs():
            reached = threading.Event()
            self._queue.put(reached)
            await _wait_for_thread(reached.is_set)

    async def close(self, last: Callable[[], None] | None = None) -> None:
        """Deliver the queued calls, then ``last``, and wait at most :data:`PATIENCE_S`."""
        if self._given_up:
            return
        if last is not None:
            self.tell("", last, "flush")
        if self._thread is None:
            return
        self._queue.put(None)
        thread = self._thread
        await _wait_for_thread(lambda: not thread.is_alive())

    def _hangs(self) -> bool:
        since = self._busy_since
        return (since is not None and time.monotonic() - since > PATIENCE_S) or self._queue.qsize() > _BACKLOG

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, threading.Event):
                entry.set()
                continue
            thread_id, method, call = entry
            if thread_id in self._muted:
                continue
            self._busy_since = time.monotonic()
            try:
                call()
            except (Exception, SystemExit) as error:  # a watcher may raise anything, and this class contains it
                self._report_failure(thread_id, method, error)
            finally:
                self._busy_since = None

    def _report_failure(self, thread_id: str, method: str, error: BaseException) -> None:
        source = getattr(self.target, method)
        self._failures[thread_id] += 1
        if self._failures[thread_id] == 1:
            self._report(thread_id, self.label.describe_failure(method, error, source=source))
        elif self._failures[thread_id] >= FAILURES:
            self._muted.add(thread_id)
            then = f"It failed {FAILURES} times and is muted for this thread."
            self._report(thread_id, self.label.describe_failure(method, error, then=then, source=source))


async def _wait_for_thread(ended: Callable[[], bool]) -> None:
    """Wait for another thread, at most :data:`PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    pause = 0.001
    while not ended() and time.monotonic() < deadline:
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.05)


class Broadcast:
    """All watchers of a kernel.

    Args:
        report: Called on the event loop with a conversation's id and a sentence.
    """

    def __init__(
        self,
        *,
        observers: Iterable[tuple[str, Observer]] = (),
        notifiers: Iterable[tuple[str, Notifier]] = (),
        telemetry: Iterable[tuple[str, Telemetry]] = (),
        report: Report,
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._report = report
        self._observers = [Watcher(_OBSERVER, plugin, target, self._relay) for plugin, target in observers]
        self._notifiers = [Watcher(_NOTIFIER, plugin, target, self._relay) for plugin, target in notifiers]
        self._telemetry = [Watcher(_TELEMETRY, plugin, target, self._relay) for plugin, target in telemetry]
        self._measured: list[MeasurementRow] = []
        self._gathering: asyncio.TimerHandle | None = None
        self.measures = bool(self._telemetry)

    def withdraw(self, plugins: Container[str]) -> None:
        """Remove the watchers of some plugins."""
        self._observers = [watcher for watcher in self._observers if watcher.plugin not in plugins]
        self._notifiers = [watcher for watcher in self._notifiers if watcher.plugin not in plugins]
        self._telemetry = [watcher for watcher in self._telemetry if watcher.plugin not in plugins]
        self.measures = bool(self._telemetry)

    def event(self, thread_id: str, event: Event) -> None:
        """Deliver an event to the observers, unless it is a delta."""
        if not self._observers or event.msg.is_delta:
            return
        self._remember_loop()
        for watcher in self._observers:
            watcher.tell(thread_id, lambda target=watcher.target: target.observe(thread_id, event))  # type: ignore[misc]

    def notification(self, notification: Notification) -> None:
        """Deliver a notification to the notifiers."""
        self._remember_loop()
        for watcher in self._notifiers:
            watcher.tell(notification.thread_id, lambda target=watcher.target: target.notify(notification))  # type: ignore[misc]

    def add_measurement(self, row: MeasurementRow) -> None:
        """Deliver a measurement to telemetry, soon. May be called on any thread."""
        self._measured.append(row)
        if self._gathering is None:
            self._gather()
        elif len(self._measured) > _GATHERED:
            self._send_measurements()

    def _gather(self) -> None:
        """Collect measurements from now on, and deliver them after a moment."""
        try:
            self._remember_loop()
            self._gathering = asyncio.get_running_loop().call_later(_GATHER_S, self._send_measurements)
        except RuntimeError:  # measured on another thread
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._send_measurements)

    def _send_measurements(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        rows, self._measured = self._measured, []
        batch = Measurements(rows)
        for watcher in self._telemetry if batch else ():
            target: Telemetry = watcher.target
            if overrides(target, Telemetry, "record_many"):
                watcher.tell("", lambda target=target: target.record_many(batch))  # type: ignore[misc]
                continue
            for each in batch:
                watcher.tell(each.thread_id, lambda target=target, each=each: target.record(each))  # type: ignore[misc]

    def current(self) -> Trace | None:
        """Return the trace of the surrounding program, if telemetry provides one."""
        for watcher in self._telemetry:
            try:
                trace = watcher.target.current()
            except Exception as error:  # a watcher may raise anything, and the span becomes the first of its trace
                watcher.report_current_failure(error)
                continue
            if isinstance(trace, Trace):
                return trace
        return None

    async def drain(self) -> None:
        """Wait until all watchers have received the data so far, each at most its time limit. Their failures are then reported."""
        self._send_measurements()
        await asyncio.gather(*(each.drain() for each in (*self._observers, *self._notifiers, *self._telemetry)))
        await asyncio.sleep(0)  # for what their threads have reported

    async def close(self) -> None:
        """Let all watchers finish, each within its time limit."""
        self._send_measurements()
        await asyncio.gather(
            *(watcher.close() for watcher in self._observers),
            *(watcher.close(_flush_of(watcher.target)) for watcher in self._notifiers),
            *(watcher.close(watcher.target.flush) for watcher in self._telemetry),
        )
        await asyncio.sleep(0)  # what a watcher's thread reported at its end is on its way

    def _remember_loop(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()

    def _relay(self, thread_id: str, sentence: str) -> None:
        """Pass a report from a watcher's thread to the event loop."""
        if self._loop is None or self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(self._report, thread_id, sentence)
        except RuntimeError:  # the loop was closed in between, so nobody can receive it
            return


def _flush_of(notifier: Notifier) -> Callable[[], None] | None:
    """Return the function that ends a notifier, or None if it need not be called, so that no thread is started for it."""
    return notifier.flush if overrides(notifier, Notifier, "flush") else None
