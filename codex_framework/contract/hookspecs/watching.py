"""The hooks for notification, measurement, observation and the record of changes."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.observers import Notifier, Observer, Telemetry
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.provenance import ChangeRecorder

__all__ = ["codex_change_recorders", "codex_notifiers", "codex_observers", "codex_telemetry"]


@hookspec
def codex_notifiers(plugin: PluginContext) -> Iterable[Notifier]:  # type: ignore[empty-body]
    r"""Offer notifiers, which tell the user that a turn has ended, has failed or needs an answer.

    Example:
        ```python
        import sys

        from codex_framework import Notifier, hookimpl


        class Bell(Notifier):
            name = "bell"

            def notify(self, notification):
                sys.stderr.write("\a")


        @hookimpl
        def codex_notifiers():
            return [Bell()]
        ```
    """


@hookspec
def codex_telemetry(plugin: PluginContext) -> Iterable[Telemetry]:  # type: ignore[empty-body]
    """Offer telemetry, which receives spans, events and counters.

    Example:
        ```python
        from codex_framework import Telemetry, hookimpl


        class Counter(Telemetry):
            name = "counter"

            def __init__(self):
                self.calls = 0

            def record(self, measurement):
                self.calls += measurement.name == "codex.tool.call"


        @hookimpl
        def codex_telemetry():
            return [Counter()]
        ```
    """


@hookspec
def codex_observers(plugin: PluginContext) -> Iterable[Observer]:  # type: ignore[empty-body]
    """Offer observers, which receive every event except deltas, on a separate operating-system thread.

    Example:
        ```python
        import sys

        from codex_framework import Observer, hookimpl


        class Log(Observer):
            name = "log"

            def observe(self, thread_id, event):
                print(thread_id, event.msg.type, file=sys.stderr)


        @hookimpl
        def codex_observers():
            return [Log()]
        ```
    """


@hookspec
def codex_change_recorders(plugin: PluginContext) -> Iterable[ChangeRecorder]:  # type: ignore[empty-body]
    """Offer change recorders, which describe for the thread's record who changed, refused or added something.

    Example:
        ```python
        from codex_framework import hookimpl
        from codex_framework.contract.roles.provenance import ChangeRecorder, TurnRecorder


        class OnlyRefusals(TurnRecorder):
            def change_entries(self, passage):
                return ()

            def fact_entries(self, fact):
                return [fact] if fact.did in ("refused", "stopped") else []


        class Refusals(ChangeRecorder):
            name = "refusals"

            def begin_turn(self):
                return OnlyRefusals()


        @hookimpl
        def codex_change_recorders():
            return [Refusals()]
        ```
    """
