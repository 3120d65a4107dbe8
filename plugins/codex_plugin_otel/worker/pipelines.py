"""The SDK's providers for logs, spans and metrics, fed with measurements."""

from __future__ import annotations

import socket
from typing import Any

from opentelemetry.sdk.resources import Resource

from codex_plugin_otel.worker.exporters import exporter
from codex_plugin_otel.worker.measured import Measured
from codex_plugin_otel.worker.problems import Problems
from codex_plugin_otel.worker.threads import Threads

__all__ = ["Pipelines"]

_LONGEST = 4_096
"""Longest text of an attribute in characters: servers and plugins may put anything into one."""


class Pipelines:
    """The signals that are exported.

    Args:
        settings: The first line of the kernel.
        service: The value of ``service.name``.
    """

    def __init__(self, settings: dict[str, Any], problems: Problems, service: str) -> None:
        plain = {"service.name": service, "service.version": settings["version"], "env": settings["environment"]}
        self._signals: list[Any] = []
        self._threads = threads = Threads(settings)
        wanted = settings["exporters"]
        if wanted["logs"] is not None:
            from codex_plugin_otel.worker.logs import Logs

            resource = Resource.create({**plain, "host.name": socket.gethostname()})
            self._signals.append(Logs(resource, exporter("logs", wanted["logs"], problems), settings, threads))
        if wanted["traces"] is not None:
            from codex_plugin_otel.worker.spans import Spans

            self._signals.append(
                Spans(Resource.create(plain), exporter("traces", wanted["traces"], problems), settings)
            )
        if wanted["metrics"] is not None:
            from codex_plugin_otel.worker.metrics import Metrics, delta

            made = exporter("metrics", wanted["metrics"], problems, preferred_temporality=delta())
            self._signals.append(Metrics(Resource.create(plain), made, settings, threads))

    def take(self, fields: list[Any]) -> None:
        """Turn a measurement into log records, spans and metrics."""
        measured = Measured(*fields)
        for name, value in measured.attributes.items():
            if isinstance(value, str) and len(value) > _LONGEST:
                measured.attributes[name] = value[:_LONGEST]
        self._threads.learn(measured)
        for signal in self._signals:
            signal.take(measured)

    def shutdown(self) -> None:
        """Send the remaining data."""
        import threading

        threads = [threading.Thread(target=signal.shutdown, daemon=True) for signal in self._signals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
