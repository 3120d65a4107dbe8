"""Log records: Codex's catalogue of events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from codex_plugin_otel.worker.catalogue import Catalogue
from codex_plugin_otel.worker.measured import Measured
from codex_plugin_otel.worker.spans import place
from codex_plugin_otel.worker.threads import Threads

__all__ = ["Logs"]

_QUEUE = 8_192


class Logs:
    """The log records of a kernel."""

    def __init__(self, resource: Resource, exporter: Any, settings: dict[str, Any], threads: Threads) -> None:
        self._catalogue = Catalogue(settings, threads)
        self._provider = LoggerProvider(resource, shutdown_on_exit=False)
        self._provider.add_log_record_processor(BatchLogRecordProcessor(exporter, max_queue_size=_QUEUE))
        self._logger = self._provider.get_logger("codex_otel.log_only")

    def take(self, measured: Measured) -> None:
        """Export the records of a measurement."""
        for name, time_s, attributes in self._catalogue.records(measured):
            self._emit(name, time_s, attributes, measured)

    def _emit(self, name: str, time_s: float, attributes: dict[str, Any], measured: Measured) -> None:
        stamp = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        context = None
        if measured.trace_id and (measured.span_id or measured.parent_id):
            span = NonRecordingSpan(place(measured.trace_id, measured.span_id or measured.parent_id))
            context = set_span_in_context(span)
        self._logger.emit(
            LogRecord(
                timestamp=int(time_s * 1e9),
                context=context,
                severity_text="INFO",
                severity_number=SeverityNumber.INFO,
                attributes={"event.name": name, "event.timestamp": stamp, **attributes},
                event_name=name,
            )
        )

    def shutdown(self) -> None:
        """Send the remaining data."""
        self._provider.shutdown()
