"""Metrics: Codex's counters and histograms, and the metrics of the semantic conventions for generative AI."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from codex_plugin_otel.worker.conventions import plain, provider_name
from codex_plugin_otel.worker.measured import Measured
from codex_plugin_otel.worker.threads import Threads

__all__ = ["Metrics", "delta"]

_BOUNDS = {
    "*duration_ms": (
        0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 1250, 1500, 1750, 2000, 2250, 2500, 3000, 3500, 4000, 4500, 5000, 6000,
        7000, 7500, 8000, 9000, 10000, 12000, 15000, 20000, 30000, 60000, 120000,
    ),
    "gen_ai.client.token.usage": (
        1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
    ),
    "gen_ai.client.operation.duration": (
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    ),
}  # fmt: skip
"""Bounds of the histograms: Codex's for times in milliseconds, and the bounds that the conventions recommend."""

_UNITS = {"gen_ai.client.token.usage": "{token}", "gen_ai.client.operation.duration": "s"}

_MOST = 200
"""Names of counters, and kinds of events; further ones are not told apart, because each takes memory here and at the collector."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-/]")

_TOKEN_TYPES = {
    "total": "total_tokens",
    "input": "input_tokens",
    "cached_input": "cached_input_tokens",
    "cache_write_input": "cache_write_input_tokens",
    "output": "output_tokens",
    "reasoning_output": "reasoning_output_tokens",
}


def delta() -> dict[type, AggregationTemporality]:
    """Return the temporality of the metrics: each export has what came since the last (as in Codex)."""
    return dict.fromkeys((Counter, Histogram, ObservableCounter), AggregationTemporality.DELTA)


class Metrics:
    """The metrics of a kernel."""

    def __init__(self, resource: Resource, exporter: Any, settings: dict[str, Any], threads: Threads) -> None:
        self._provider = MeterProvider(
            [PeriodicExportingMetricReader(exporter)],
            resource,
            shutdown_on_exit=False,
            views=[
                View(instrument_name=name, aggregation=ExplicitBucketHistogramAggregation(bounds))
                for name, bounds in _BOUNDS.items()
            ],
        )
        self._meter = self._provider.get_meter("codex", settings["version"])
        self._threads = threads
        self._counters: dict[str, Any] = {}
        self._histograms: dict[str, Any] = {}
        self._kinds: set[str] = set()
        self._began = False
        self._counted: dict[str, Callable[[Measured], None]] = {
            "codex.conversation_starts": self._conversation,
            "codex.api_request": self._request,
            "codex.sse_event": self._stream,
            "codex.sampling": self._sampled,
            "codex.tool.call": self._tool_call,
            "codex.approval": self._approval,
            "codex.task.compact": self._compaction,
            "mcp.call": self._mcp,
            "codex.turn": self._turn,
        }

    def take(self, measured: Measured) -> None:
        """Count a measurement."""
        if measured.kind == "counter":
            self._plugin_counter(measured)
            return
        count = self._counted.get(measured.name)
        if count is not None:
            count(measured)

    def shutdown(self) -> None:
        """Send the remaining data."""
        self._provider.shutdown()

    def _plugin_counter(self, measured: Measured) -> None:
        """Record a counter of a plugin, under a name and with labels that the SDK accepts."""
        name = _NOT_IN_NAMES.sub("_", measured.name)[:255]
        if not name[:1].isalpha():
            name = f"plugin.{name}"[:255]
        if name not in self._counters and len(self._counters) >= _MOST:
            return
        labels = {key: plain(value) for key, value in measured.attributes.items()}
        self._add(name, measured.value, {**self._threads.labels(measured.thread_id), **labels})

    def _conversation(self, measured: Measured) -> None:
        if not self._began:
            self._began = True
            self._add("codex.process.start", 1, {"originator": str(measured.attributes.get("originator", ""))})
        if measured.attributes.get("origin") != "resumed":
            self._count(measured, "codex.thread.started", 1)

    def _request(self, measured: Measured) -> None:
        status = str(measured.attributes.get("http.response.status_code", "none"))
        self._record_duration(measured, status=status)

    def _stream(self, measured: Measured) -> None:
        for kind, number in measured.attributes.items():
            if kind != "error.message":
                self._count(measured, measured.name, number, kind=self._kind(kind), success="true")
        if measured.failed:
            self._count(measured, measured.name, 1, kind="none", success="false")
        before = measured.time_s
        for kind, moment in measured.marks:
            waited = max(int((moment - before) * 1000), 0)
            self._record(measured, f"{measured.name}.duration_ms", waited, kind=self._kind(kind), success="true")
            before = moment

    def _kind(self, kind: str) -> str:
        """Return a label for a kind of event. A server may invent any number of them."""
        if kind not in self._kinds and len(self._kinds) >= _MOST:
            return "other"
        self._kinds.add(kind)
        return kind

    def _sampled(self, measured: Measured) -> None:
        said = measured.attributes
        labels = {"gen_ai.operation.name": "chat", "gen_ai.request.model": said.get("model", "")}
        if "provider" in said:
            labels["gen_ai.provider.name"] = provider_name(said["provider"])
        if measured.failed:
            labels["error.type"] = said.get("error.type", "_OTHER")
        self._observe("gen_ai.client.operation.duration", measured.duration_s, labels)
        for kind in ("input", "output"):
            if f"{kind}_tokens" in said:
                counted = {**labels, "gen_ai.token.type": kind}
                self._observe("gen_ai.client.token.usage", said[f"{kind}_tokens"], counted)

    def _tool_call(self, measured: Measured) -> None:
        said = measured.attributes
        # The model may invent any number of names, and each combination of labels takes memory here and at the collector.
        tool = str(said.get("tool_name")) if said.get("plugin") else "unknown"
        self._record_duration(measured, tool=tool)
        if tool == "exec_command":
            self._count(measured, "codex.tool.unified_exec", 1)

    def _approval(self, measured: Measured) -> None:
        said = measured.attributes
        labels = {name: str(said.get(name, "none")) for name in ("kind", "decision", "source")}
        self._count(measured, "codex.approval.requested", 1, **labels)

    def _compaction(self, measured: Measured) -> None:
        self._count(measured, measured.name, 1, type="local", success=_flag(not measured.failed))

    def _mcp(self, measured: Measured) -> None:
        self._record_duration(measured._replace(name="codex.mcp.call"))

    def _turn(self, measured: Measured) -> None:
        said = measured.attributes
        if said.get("kind", "regular") != "regular":
            self._count(measured, f"codex.task.{said['kind']}", 1)
        self._count(measured, "codex.conversation.turn.count", 1)
        self._record(measured, "codex.turn.e2e_duration_ms", measured.duration_ms)
        if "ttft_ms" in said:
            self._record(measured, "codex.turn.ttft.duration_ms", said["ttft_ms"])
        self._record(measured, "codex.turn.tool.call", said.get("tool_calls", 0))
        for kind, field in _TOKEN_TYPES.items():
            self._record(measured, "codex.turn.token_usage", said.get(field, 0), token_type=kind)

    def _record_duration(self, measured: Measured, **labels: str) -> None:
        """Count a piece of work, and record how long it took."""
        labels["success"] = _flag(not measured.failed)
        self._count(measured, measured.name, 1, **labels)
        self._record(measured, f"{measured.name}.duration_ms", measured.duration_ms, **labels)

    def _count(self, measured: Measured, name: str, value: float, **labels: str) -> None:
        self._add(name, value, {**self._threads.labels(measured.thread_id), **labels})

    def _record(self, measured: Measured, name: str, value: float, **labels: str) -> None:
        self._observe(name, value, {**self._threads.labels(measured.thread_id), **labels})

    def _add(self, name: str, value: float, labels: Mapping[str, Any]) -> None:
        if name not in self._counters:
            self._counters[name] = self._meter.create_counter(name)
        self._counters[name].add(value, labels)

    def _observe(self, name: str, value: float, labels: dict[str, str]) -> None:
        if name not in self._histograms:
            unit = _UNITS.get(name, "ms" if name.endswith("_ms") else "")
            self._histograms[name] = self._meter.create_histogram(name, unit=unit)
        self._histograms[name].record(value, labels)


def _flag(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
