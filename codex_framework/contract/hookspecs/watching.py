"""The hooks for notification, measurement and observation."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.observers import Notifier, Observer, Telemetry
from codex_framework.contract.roles.plugins import PluginContext

__all__ = ["codex_notifiers", "codex_observers", "codex_telemetry"]


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
