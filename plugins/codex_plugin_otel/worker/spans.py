"""Spans: the kernel's spans, with the names and attributes of Codex and of the semantic conventions for generative AI."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from codex_plugin_otel.worker.conventions import described
from codex_plugin_otel.worker.measured import Measured

__all__ = ["Spans", "place"]

_QUEUE = 16_384

_WAITING = 4_096
"""The number of spans whose events are kept; the oldest span's events are dropped first."""


class Spans:
    """The spans of a kernel."""

    def __init__(self, resource: Resource, exporter: Any, settings: dict[str, Any]) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("codex_framework", settings["version"])
        self._common = settings["span_attributes"]
        self._state = _state(settings["tracestate"])
        self._events: OrderedDict[str, list[Event]] = OrderedDict()
        self._processor: SpanProcessor = BatchSpanProcessor(exporter, max_queue_size=_QUEUE)

    def take(self, measured: Measured) -> None:
        """Export a span. An event becomes an event of its span, without content."""
        if measured.kind == "event":
            self._keep(measured)
        elif measured.kind == "span" and measured.span_id:
            self._export(measured)

    def _keep(self, measured: Measured) -> None:
        """Keep an event for its span, which ends later."""
        if measured.parent_id:
            safe = {name: value for name, value in measured.attributes.items() if name != "error.message"}
            moment = Event(measured.name, {**safe, "duration_ms": measured.duration_ms}, timestamp=measured.end_ns)
            self._events.setdefault(measured.parent_id, []).append(moment)
            while len(self._events) > _WAITING:
                self._events.popitem(last=False)

    def _export(self, measured: Measured) -> None:
        name, is_request, attributes = described(measured)
        moments = [Event(mark, timestamp=int(at * 1e9)) for mark, at in measured.marks]
        self._processor.on_end(
            ReadableSpan(
                name,
                context=place(measured.trace_id, measured.span_id, self._state),
                parent=place(measured.trace_id, measured.parent_id, self._state) if measured.parent_id else None,
                resource=self._resource,
                attributes={**attributes, **self._common},
                events=[*self._events.pop(measured.span_id, ()), *moments],
                kind=SpanKind.CLIENT if is_request else SpanKind.INTERNAL,
                status=Status(StatusCode.ERROR) if measured.failed else Status(StatusCode.UNSET),
                start_time=measured.start_ns,
                end_time=measured.end_ns,
                instrumentation_scope=self._scope,
            )
        )

    def shutdown(self) -> None:
        """Send the remaining data."""
        self._processor.shutdown()


def place(trace_id: str, span_id: str, state: TraceState | None = None) -> SpanContext:
    """Return the context of a span from its ids in hex."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags, trace_state=state)


def _state(members: dict[str, dict[str, str]]) -> TraceState:
    entries = [
        (member, ";".join(f"{name}:{value}" for name, value in fields.items())) for member, fields in members.items()
    ]
    return TraceState(entries)
