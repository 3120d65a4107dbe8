"""The telemetry of the kernel's side: encodes measurements and passes them to the worker process."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import Measurement, PluginContext, Telemetry, Trace
from codex_framework.contract.errors import PluginError
from codex_framework.toolkit.installing import install_command
from codex_plugin_otel.configuration import Configuration
from codex_plugin_otel.framing import encoded
from codex_plugin_otel.process import Worker
from codex_plugin_otel.settings import Settings

__all__ = ["Otel"]


class Otel(Telemetry):
    """Passes measurements to the worker, which sends them.

    Args:
        configuration: With at least one exporter.

    Raises:
        PluginError: The extra ``otel`` is not installed.
    """

    name = "otel"

    def __init__(self, configuration: Configuration, plugin: PluginContext) -> None:
        check_installed(plugin.name)
        self._trace = _trace_of(plugin)
        self._worker = Worker(configuration, plugin.settings(Settings), plugin.environ)

    def current(self) -> Trace | None:
        """Return the trace of the program that started this one, from ``TRACEPARENT``."""
        return self._trace

    def record(self, measurement: Measurement) -> None:
        """Pass a measurement on."""
        self.record_many((measurement,))

    def record_many(self, measurements: Sequence[Measurement]) -> None:
        """Pass measurements on, with one write."""
        self._worker.send(encoded(measurements))

    def flush(self) -> None:
        """Let the worker send the remaining data, and end it."""
        self._worker.close()


def check_installed(plugin: str) -> None:
    """Check that the OpenTelemetry SDK is installed, without importing it.

    Raises:
        PluginError: It is not.
    """
    from importlib.util import find_spec

    try:
        found = find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.http")
    except ImportError:
        found = None
    if found is None:
        fact = "`[otel]` names an exporter, but the OpenTelemetry SDK is not installed, so nothing is exported"
        raise PluginError(plugin, fact, hint=f"Install the extra: {install_command('codex-framework[otel]')}")


def _trace_of(plugin: PluginContext) -> Trace | None:
    parent = plugin.environ.get("TRACEPARENT", "")
    return Trace(parent, plugin.environ.get("TRACESTATE", "")) if parent else None
