"""Collectors and workers that misbehave: the turn is unharmed, one line says it, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, say

SHORT = "framework.plugins.otel.flush_timeout_s=1"
LONG = call("exec_command", cmd="head -c 60000 /dev/zero | tr '\\0' x", login=False, max_output_tokens=20000)


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/traces"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def garbage(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"\x00\x1b[31mgarbage\r\n\r\n")


def reset(connection: socket.socket) -> None:
    connection.recv(10)


def endless(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
    while connection.send(b"x" * 65536):
        pass


@pytest.fixture
def lines(scene: Any, workers: Any) -> Callable[..., list[str]]:
    """Run two turns, which must succeed, and return what is said about telemetry. No worker may be left."""

    def said(replies: list[Any], *settings: str, between: signal.Signals | None = None) -> list[str]:
        told: list[str] = []

        async def story(kernel: Kernel) -> Any:
            thread = await kernel.start_thread()
            results = [await thread.run("go")]
            if between is not None:
                (worker,) = await workers.running()
                os.kill(int(worker.name), between)
            results.append(await thread.run("again"))
            assert [result.final_message for result in results] == ["done", "done"]
            told.extend(event.message for result in results for event in result.events if event.type == "warning")
            return kernel

        kernel = scene.play(story, replies, *settings, SHORT)
        assert workers.now() == []
        return [text for text in (*told, *kernel.registry.warnings) if "telemetry" in text or "otel" in text]

    return said


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (garbage, "otlp-http"),
        (reset, "otlp-http"),
        (endless, "otlp-http"),
        (garbage, "otlp-grpc"),
        pytest.param(reset, "otlp-grpc", marks=pytest.mark.slow),
    ],
)
def test_a_server_that_is_no_collector(lines, answer, kind):
    with server(answer) as url:
        table = f'{{ {kind} = {{ endpoint = "{url}" }} }}'
        (line,) = lines([say("done"), say("done")], f"otel.trace_exporter={table}")
    assert "telemetry could not be sent" in line
    assert "Turns are not affected" in line
    assert line.isprintable()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGSTOP, "telemetry could not be sent in time"),
        (signal.SIGKILL, "the process that sends it has ended"),
    ],
)
def test_a_worker_that_hangs_or_dies_is_said_once(lines, collector, monkeypatch, number, said):
    monkeypatch.setattr("codex_plugin_otel.process._LONGEST_FLUSH_S", 1.0)
    (line,) = lines([say("done"), LONG, LONG, say("done")], *collector.settings, between=number)
    assert said in line


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/logs"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_flood_for_a_collector_that_hangs_does_not_fill_the_memory(workspace, codex_home, workers, silent):
    from codex_framework import Measurement
    from codex_framework.config import load_config
    from codex_framework.contract.errors import PluginError
    from codex_framework.loader.registry import load_registry

    to = f'otel.exporter={{ otlp-http = {{ endpoint = "{silent}" }} }}'
    environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin"}
    config = load_config(cwd=workspace, environ=environ, overrides=[to, SHORT])
    ((_, telemetry),) = load_registry(config, environ=environ).telemetry
    content = {"arguments": "x" * 200_000, "output": "y" * 200_000}
    said = {"tool_name": "shell", "call_id": "c", "error.message": "z" * 200_000}
    flood = [Measurement(kind="span", name="codex.tool.call", time_s=1.7e9, content=content, attributes=said)] * 500
    for _ in range(40):
        telemetry.record_many(flood)
    (worker,) = workers.now()
    status = (worker / "status").read_text().split()
    assert int(status[status.index("VmHWM:") + 1]) < 400_000, "kilobytes"
    with pytest.raises(PluginError, match="telemetry could not be sent"):
        telemetry.flush()
    assert workers.now() == []
