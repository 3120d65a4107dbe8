"""A local trace of turns: a file of JSON lines, and a page that shows it, or a recorded session, as a timeline.

``exec --trace FILE``, the variable ``CODEX_FRAMEWORK_TRACE`` or the setting ``file`` name the file. Without one of them, the plugin
measures nothing and offers only its command.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import ExecOption, Observer, PluginContext, Telemetry, hookimpl

if TYPE_CHECKING:
    import click

    from codex_plugin_trace.writing.trace_file import TraceFile

__all__ = ["codex_commands", "codex_exec_options", "codex_observers", "codex_settings", "codex_telemetry"]

_VARIABLE = "CODEX_FRAMEWORK_TRACE"

_files: WeakKeyDictionary[PluginContext, TraceFile | None] = WeakKeyDictionary()
"""The trace of each kernel."""


def _trace(plugin: PluginContext) -> TraceFile | None:
    """Return the trace file of a kernel. None if no trace is written; then nothing more is imported."""
    if plugin not in _files:
        _files[plugin] = _make_trace_file(plugin)
    return _files[plugin]


def _make_trace_file(plugin: PluginContext) -> TraceFile | None:
    variable = plugin.environ.get(_VARIABLE, "")
    if not variable and not (plugin.config.get("framework") or {}).get("plugins", {}).get(plugin.name):
        return None
    from codex_plugin_trace.settings import Settings

    settings = plugin.settings(Settings)
    if not settings.file and not variable:
        return None
    from codex_plugin_trace.writing.trace_file import trace_file

    return trace_file(plugin, settings, variable)


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.trace]``."""
    from codex_plugin_trace.settings import Settings

    return Settings


@hookimpl
def codex_exec_options() -> Iterable[ExecOption]:
    """Offer ``--trace``."""
    text = "Append a trace of the run to this file: its events and measurements, as JSON lines. Show it with: trace view FILE."
    return [ExecOption(name="trace", setting="file", text=text, metavar="FILE", is_path=True)]


@hookimpl
def codex_observers(plugin: PluginContext) -> Iterable[Observer]:
    """Offer the observer that writes events, if there is a trace file."""
    file = _trace(plugin)
    if file is None or not file.has_content:
        return []
    from codex_plugin_trace.writing.watchers import TraceObserver

    return [TraceObserver(file)]


@hookimpl
def codex_telemetry(plugin: PluginContext) -> Iterable[Telemetry]:
    """Offer the telemetry that writes measurements, if there is a trace file."""
    file = _trace(plugin)
    if file is None:
        return []
    from codex_plugin_trace.writing.watchers import TraceTelemetry

    return [TraceTelemetry(file)]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework trace``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "trace", "Show traces and recorded sessions.", "codex_plugin_trace.cli:trace", obj=plugin, group="Inspect"
        )
    ]
