"""OpenTelemetry: logs, spans and metrics of turns, sent to a collector over OTLP.

``[otel]`` in ``config.toml`` chooses the exporters, as in Codex. Without one, the plugin offers nothing. The OpenTelemetry SDK
runs in a separate process, which gets the measurements of the kernel as JSON lines: its imports, batches, retries and threads
cost the kernel nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import PluginContext, Telemetry, hookimpl

__all__ = ["codex_settings", "codex_telemetry"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.otel]``."""
    from codex_plugin_otel.settings import Settings

    return Settings


@hookimpl
def codex_telemetry(plugin: PluginContext) -> Iterable[Telemetry]:
    """Offer the telemetry ``otel`` if ``[otel]`` names an exporter."""
    if not plugin.config.get("otel"):
        return ()
    from codex_plugin_otel.configuration import configuration

    wanted = configuration(plugin)
    if not wanted.exports:
        return ()
    from codex_plugin_otel.telemetry import Otel

    return [Otel(wanted, plugin)]
