"""Collectors that refuse, hang or answer garbage, and settings that cannot be used: one clear line, and the turn unharmed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from codex_framework.kernel import Kernel
from codex_framework.testing.replies import say


def lines(scene: Any, *settings: str) -> list[str]:
    """Run a turn and return what is said about telemetry, during it and at the end of the kernel."""

    async def played() -> list[str]:
        kernel = await scene.kernel([say("done")], *settings)
        async with kernel, asyncio.timeout(60):
            thread = await kernel.start_thread()
            result = await thread.run("go")
            assert result.final_message == "done"
            told = [event.message for event in result.events if event.type == "warning"]
        return [text for text in (*told, *kernel.registry.warnings) if "telemetry" in text or "otel" in text]

    return asyncio.run(played())


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[int]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


SHORT = "framework.plugins.otel.flush_timeout_s=1.5"


@pytest.mark.parametrize("kind", ["otlp-http", pytest.param("otlp-grpc", marks=pytest.mark.slow)])
def test_a_collector_that_refuses_connections(scene, free_port, kind):
    table = f'{{ {kind} = {{ endpoint = "http://127.0.0.1:{free_port}" }} }}'
    said = lines(
        scene, f"otel.exporter={table}", f"otel.trace_exporter={table}", f"otel.metrics_exporter={table}", SHORT
    )
    (line,) = said
    assert "telemetry could not be sent" in line
    assert "Turns are not affected" in line
    assert "\n" not in line


def test_a_collector_that_hangs(scene, silent):
    table = f'{{ otlp-http = {{ endpoint = "http://127.0.0.1:{silent}/v1/traces" }} }}'
    (line,) = lines(scene, f"otel.trace_exporter={table}", SHORT)
    assert "telemetry could not be sent" in line
    assert "Check `[otel]`" in line


@pytest.mark.thorough
@pytest.mark.parametrize("status", [400, 404, pytest.param(503, marks=pytest.mark.slow)])
def test_a_collector_that_refuses_the_data(scene, collector, status):
    collector.answer = (status, b"\x1b[31mgarbage\x00")
    (line,) = lines(scene, collector.setting("traces"), SHORT)
    assert "telemetry could not be sent to" in line
    assert status == 503 or f"HTTP status {status}" in line
    assert "\x1b" not in line


def test_garbage_as_an_answer_changes_nothing(scene, collector):
    collector.answer = (200, b"\xff\x00<html>")
    assert lines(scene, collector.setting("traces"), collector.setting("logs")) == []


@pytest.mark.parametrize(
    ("setting", "fact"),
    [
        ("otel.exporter='otlp'", "`otel.exporter` must be none"),
        ("otel.exporter={ otlp-http = { protocol = 'binary' } }", "`otel.exporter.otlp-http.endpoint` must be a URL"),
        *(
            (f"otel.exporter={{ otlp-http = {{ endpoint = '{url}' }} }}", "must be a URL")
            for url in ("http://[::1/v1/logs", "http://x:99999", "http://x:no", "http://x y", "http://:4318", "ftp://x")
        ),
        ("otel.exporter={ otlp-http = { endpoint = 'http://x', protocol = 'xml' } }", "must be binary or json"),
        ("otel.tracestate={ vendor = 5 }", "`otel.tracestate` must be a table of tables"),
        ("otel.trace_exporter={ otlp-grpc = { endpoint = 'http://x', protocol = 'json' } }", "unknown key"),
        (
            "otel.exporter={ otlp-http = { endpoint = 'http://x', headers = { a = '${NO_SUCH}' } } }",
            "NO_SUCH, which is not set",
        ),
        ("otel.exporter={ otlp-http = { endpoint = 'http://x', tls = { ca-certificate = 'no.pem' } } }", "not a file"),
    ],
)
def test_a_wrong_setting_is_named(scene, setting, fact):
    async def played() -> str:
        kernel = await scene.kernel([say("done")], setting)
        async with kernel:
            return " ".join(problem.fact for report in kernel.registry.reports for problem in report.problems)

    assert fact in asyncio.run(played())


def test_the_missing_extra_is_named(tmp_path):
    (tmp_path / "config.toml").write_text('[otel]\nexporter = { otlp-http = { endpoint = "http://127.0.0.1:9" } }\n')
    hidden = "import sys; sys.modules['opentelemetry'] = None; from codex_framework.cli.main import main; main()"
    env = {"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", hidden, "plugins"], capture_output=True, text=True, env=env, timeout=60
    )
    assert "codex-framework[otel]" in done.stdout + done.stderr


def test_headers_take_variables(scene, collector, monkeypatch):
    async def story(kernel: Kernel) -> Any:
        return await (await kernel.start_thread()).run("go")

    scene.play(story, [say("done")], collector.setting("logs", headers='{ x-key = "a ${HOME}" }'))
    (received,) = collector.received
    assert received.headers["x-key"] == f"a {scene.codex_home}"
