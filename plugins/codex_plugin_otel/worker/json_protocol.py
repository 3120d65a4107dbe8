"""OTLP with JSON over HTTP: the protobuf messages of the SDK's exporter, written as the protocol's JSON.

The JSON of OTLP is the JSON of protobuf, except that the ids of traces and spans are hexadecimal and enumerations are numbers.
An empty body is left out, because receivers regard it as a mistake.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import requests
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from requests.adapters import HTTPAdapter

__all__ = ["json_of", "session"]

_MESSAGES: dict[str, Any] = {
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})
_COUNTS = frozenset({"count", "bucketCounts", "asInt"})
"""Integers that some receivers accept as numbers only, although the protocol allows both."""


def session(signal: str) -> requests.Session:
    """Return a session that sends the messages of one signal as JSON."""
    made = requests.Session()
    for scheme in ("http://", "https://"):
        made.mount(scheme, _JsonAdapter(signal))
    return made


def json_of(signal: str, message: bytes) -> bytes:
    """Return an encoded request of OTLP as JSON."""
    request = _MESSAGES[signal].FromString(message)
    return json.dumps(_rewritten(MessageToDict(request, use_integers_for_enums=True))).encode()


class _JsonAdapter(HTTPAdapter):
    def __init__(self, signal: str) -> None:
        super().__init__()
        self._signal = signal

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        assert isinstance(request.body, bytes)
        request.body = json_of(self._signal, request.body)
        request.headers["Content-Type"] = "application/json"
        request.headers["Content-Length"] = str(len(request.body))
        return super().send(request, *args, **kwargs)


def _rewritten(value: Any) -> Any:
    if isinstance(value, list):
        return [_rewritten(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _field(name, each) for name, each in value.items() if name != "body" or each}


def _field(name: str, value: Any) -> Any:
    if name in _IDS:
        return base64.b64decode(value).hex()
    if name in _COUNTS and not isinstance(value, dict):
        return [int(each) for each in value] if isinstance(value, list) else int(value)
    return _rewritten(value)
