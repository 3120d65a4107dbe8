"""A collector on loopback that keeps what it gets, and kernels that export to it."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otel` is not installed")


def plain(value: dict[str, Any]) -> Any:
    """Return an AnyValue of OTLP as a Python value."""
    for kind, content in value.items():
        return int(content) if kind == "intValue" else content
    return None


def attributes(thing: dict[str, Any]) -> dict[str, Any]:
    return {each.get("key", ""): plain(each["value"]) for each in thing.get("attributes", ())}


@attrs.define
class Received:
    """One request to the collector."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        signal = {"/v1/logs": "logs", "/v1/traces": "traces", "/v1/metrics": "metrics"}[self.path]
        if self.headers["content-type"] == "application/json":
            whole: dict[str, Any] = json.loads(self.body)
            return whole
        from codex_plugin_otel.worker.json_protocol import json_of

        decoded: dict[str, Any] = json.loads(json_of(signal, self.body))
        return decoded


class Collector:
    """An OTLP receiver over HTTP that accepts everything.

    Args:
        tls: The server's side of TLS. None means plain HTTP.

    Attributes:
        received: The requests so far.
        answer: Status and body of every answer.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._scheme = "http" if tls is None else "https"
        self.received: list[Received] = []
        self.answer: tuple[int, bytes] = (200, b"{}")
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): value for name, value in self.headers.items()}
                collector.received.append(Received(self.path, headers, body))
                status, answer = collector.answer
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that does not trust it
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def setting(self, signal: str, **settings: Any) -> str:
        """Return the setting on the command line that sends a signal here."""
        key = {"logs": "exporter", "traces": "trace_exporter", "metrics": "metrics_exporter"}[signal]
        table = {"endpoint": f"{self.url}/v1/{signal}", "protocol": "json", **settings}
        inner = ", ".join(
            f"{name} = {value if value[:1] in '{[' else json.dumps(value)}" for name, value in table.items()
        )
        return f"otel.{key}={{ otlp-http = {{ {inner} }} }}"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that send all signals here."""
        return tuple(self.setting(signal) for signal in ("logs", "traces", "metrics"))

    def _scopes(self, signal: str, whole: str, scopes: str) -> Iterator[dict[str, Any]]:
        for received in self.received:
            if received.path == f"/v1/{signal}":
                for resource in received.json[whole]:
                    yield from resource[scopes]

    def resources(self, signal: str) -> list[dict[str, Any]]:
        whole = {"logs": "resourceLogs", "traces": "resourceSpans", "metrics": "resourceMetrics"}[signal]
        paths = [received for received in self.received if received.path == f"/v1/{signal}"]
        return [attributes(each["resource"]) for received in paths for each in received.json[whole]]

    @property
    def logs(self) -> list[dict[str, Any]]:
        """The attributes of all log records, in the order of time."""
        records = [
            record for scope in self._scopes("logs", "resourceLogs", "scopeLogs") for record in scope["logRecords"]
        ]
        return [attributes(record) for record in sorted(records, key=lambda each: int(each["timeUnixNano"]))]

    @property
    def spans(self) -> list[dict[str, Any]]:
        """All spans, with plain attributes, in the order of their start."""
        spans = [
            {**span, "attributes": attributes(span)}
            for scope in self._scopes("traces", "resourceSpans", "scopeSpans")
            for span in scope["spans"]
        ]
        return sorted(spans, key=lambda each: int(each.get("startTimeUnixNano", 0)))

    @property
    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        """The data points by metric."""
        found: dict[str, list[dict[str, Any]]] = {}
        for scope in self._scopes("metrics", "resourceMetrics", "scopeMetrics"):
            for metric in scope["metrics"]:
                kind = next(kind for kind in ("sum", "histogram", "gauge") if kind in metric)
                points = [{**point, "attributes": attributes(point)} for point in metric[kind]["dataPoints"]]
                found.setdefault(metric["name"], []).extend(points)
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    try:
        yield made
    finally:
        made.close()


class Workers:
    """The worker processes of this process, as folders in /proc."""

    def now(self) -> list[Path]:
        """Return those that run."""
        return [folder for folder in Path("/proc").glob("[0-9]*") if _is_worker(folder)]

    async def running(self) -> list[Path]:
        """Wait for the first."""
        async with asyncio.timeout(30):
            while not (found := self.now()):
                await asyncio.sleep(0.02)
        return found


def _is_worker(folder: Path) -> bool:
    try:
        parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        return int(parent) == os.getpid() and b"codex_plugin_otel.worker.main" in (folder / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def workers() -> Workers:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("this system has no /proc")
    return Workers()
