"""The observer and the telemetry that write the trace. Both are called outside of the event loop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import Event, Measurement, Observer, Telemetry
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_trace.writing.trace_file import TraceFile

__all__ = ["TraceObserver", "TraceTelemetry"]

_TOLD_OTHERWISE = frozenset({"raw_response_item", "item_started", "item_completed"})
"""Events that repeat what other events and measurements say."""

_REPEATED = {"exec_command_end": ("stdout", "formatted_output")}
"""Fields of events that repeat what other fields say."""

_LONGEST = 65_536
"""Longest text in characters; the rest is cut off."""


class TraceObserver(Observer):
    """Writes the events of all threads."""

    name = "trace"

    def __init__(self, file: TraceFile) -> None:
        self._file = file

    def observe(self, thread_id: str, event: Event) -> None:
        """Write an event."""
        if event.msg.type in _TOLD_OTHERWISE:
            return
        wire = to_wire(event.msg)
        for field in _REPEATED.get(event.msg.type, ()):
            wire.pop(field, None)
        thread = event.thread_id or thread_id
        record = {"type": "event", "time": time.time(), "thread": thread, "turn": event.id, "event": _shorten(wire)}
        self._file.append((record,))


class TraceTelemetry(Telemetry):
    """Writes measurements in batches."""

    name = "trace"

    def __init__(self, file: TraceFile) -> None:
        self._file = file

    def record(self, measurement: Measurement) -> None:
        """Write one measurement."""
        self.record_many((measurement,))

    def record_many(self, measurements: Sequence[Measurement]) -> None:
        """Write measurements, with one write."""
        self._file.append([self._record(each) for each in measurements])

    def flush(self) -> None:
        """Release the file."""
        self._file.close()

    def _record(self, m: Measurement) -> Mapping[str, Any]:
        record: dict[str, Any] = {"type": m.kind, "name": m.name, "time": m.time_s}
        if m.kind == "event":
            record["type"] = "moment"
        if m.kind == "counter":
            record["value"] = m.value
        more = {
            "duration": m.duration_s,
            "thread": m.thread_id,
            "turn": m.turn_id,
            "trace": m.trace_id,
            "span": m.span_id,
            "parent": m.parent_id,
            "failed": m.failed,
            "marks": m.marks,
            "attributes": m.attributes,
            "content": _shorten(m.content) if self._file.has_content else {},
        }
        return record | {name: value for name, value in more.items() if value}


def _shorten(value: Any) -> Any:
    """Return plain data with its long texts cut."""
    if isinstance(value, str):
        if len(value) <= _LONGEST:
            return value
        return f"{value[:_LONGEST]}\n[{len(value) - _LONGEST} more characters are not in the trace]"
    if isinstance(value, Mapping):
        return {name: _shorten(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shorten(each) for each in value]
    return value
