"""A real collector gets logs, spans and metrics over all three transports: rotel, which prints and passes on what it receives."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, say

_FOUND = importlib.util.find_spec("rotel")
pytestmark = pytest.mark.skipif(_FOUND is None, reason="rotel has no wheel for this system")


@attrs.define
class Rotel:
    """A running collector."""

    http: int
    grpc: int
    log: Path

    def printed(self) -> str:
        return self.log.read_text(errors="replace")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def rotel(tmp_path: Path, collector: Any) -> Iterator[Rotel]:
    assert _FOUND is not None
    assert _FOUND.origin is not None
    collector.answer = (200, b"")  # an empty answer in protobuf
    made = Rotel(free_port(), free_port(), tmp_path / "rotel.log")
    debug = [word for signal in ("logs", "traces", "metrics") for word in ("--debug-log", signal)]
    program = str(Path(_FOUND.origin).with_name("rotel-agent"))
    places = ("--otlp-grpc-endpoint", f"127.0.0.1:{made.grpc}", "--otlp-http-endpoint", f"127.0.0.1:{made.http}")
    printing = (*debug, "--debug-log-verbosity", "detailed", "--disable-batching")
    onward = ("--exporter", "otlp", "--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", collector.url)
    command = [program, "start", *printing, *onward, "--otlp-exporter-compression", "none", *places]
    env = {"NO_COLOR": "1", "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR"))}
    with made.log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=tmp_path)
        try:
            for port in (made.http, made.grpc):
                _wait_for(port, process)
            yield made
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() == 127:
            pytest.skip("rotel finds no shared library of this Python")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("rotel did not start")


@pytest.mark.parametrize("transport", ["json", "binary", "grpc"])
def test_a_turn_arrives(scene: Any, rotel: Rotel, collector: Any, transport: str) -> None:
    async def story(kernel: Kernel) -> Any:
        return await (await kernel.start_thread()).run("go")

    settings = []
    for key, signal in (("exporter", "logs"), ("trace_exporter", "traces"), ("metrics_exporter", "metrics")):
        http = (
            f'{{ otlp-http = {{ endpoint = "http://127.0.0.1:{rotel.http}/v1/{signal}", protocol = "{transport}" }} }}'
        )
        grpc = f'{{ otlp-grpc = {{ endpoint = "http://127.0.0.1:{rotel.grpc}", headers = {{ "X-Key" = "k" }} }} }}'
        settings.append(f"otel.{key}={grpc if transport == 'grpc' else http}")
    result = scene.play(story, [call("exec_command", cmd="echo hi", login=False), say("done")], *settings)
    assert result.final_message == "done"
    assert not [event for event in result.events if event.type == "warning"]
    logs = ("codex.conversation_starts", "codex.user_prompt", "codex.tool_decision", "codex.tool_result")
    spans = ("session_task.turn", "run_sampling_request", "handle_tool_call", "gen_ai.usage.input_tokens")
    metrics = ("codex.turn.token_usage", "codex.tool.call.duration_ms", "gen_ai.client.token.usage")
    _wait_until(lambda: all(name in rotel.printed() for name in (*logs, *spans, *metrics)))
    printed = rotel.printed()
    assert "ERROR" not in printed
    assert "DataType: Empty" not in printed
    _wait_until(lambda: {received.path for received in collector.received} == {"/v1/logs", "/v1/traces", "/v1/metrics"})
    _wait_until(lambda: any(span["name"] == "op.dispatch.user_input" for span in collector.spans))
    results = [record for record in collector.logs if record["event.name"] == "codex.tool_result"]
    assert [(result["tool_name"], result["success"], result["output"][-3:]) for result in results] == [
        ("exec_command", "true", "hi\n")
    ]
    by_name = {span["name"]: span for span in collector.spans}
    dispatch, turn, sample = (
        by_name[name] for name in ("op.dispatch.user_input", "session_task.turn", "run_sampling_request")
    )
    assert dispatch.get("parentSpanId", "") == ""
    assert {span["traceId"] for span in collector.spans} == {dispatch["traceId"]}
    assert (turn["parentSpanId"], sample["parentSpanId"]) == (dispatch["spanId"], turn["spanId"])
    assert sample["attributes"]["gen_ai.usage.input_tokens"] == 100
    tokens = {point["attributes"]["token_type"]: point["sum"] for point in collector.metrics["codex.turn.token_usage"]}
    assert (tokens["total"], tokens["cached_input"]) == (240, 20)


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "rotel passed nothing on"
        time.sleep(0.02)
