"""The telemetry keeps to its role: odd measurements of plugins, exporters that cannot be made, a worker that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Measurement
from codex_framework.config import load_config
from codex_framework.contract.errors import PluginError
from codex_framework.contract.roles.observers import Telemetry
from codex_framework.kernel import Kernel
from codex_framework.loader.registry import load_registry
from codex_framework.testing import call, check_telemetry, say


@pytest.fixture
def offered(workspace, codex_home):
    """Return the telemetry that is offered with some settings."""

    def made(*settings: str, **environ: str) -> Telemetry:
        environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin", **environ}
        config = load_config(cwd=workspace, environ=environ, overrides=settings)
        ((_, telemetry),) = load_registry(config, environ=environ).telemetry
        return telemetry

    return made


def test_the_telemetry_keeps_to_its_role(offered, collector, workers):
    check_telemetry(offered(*collector.settings))
    assert {received.path for received in collector.received} == {"/v1/logs", "/v1/metrics"}  # no span has ids
    assert workers.now() == []


class Circle(dict):  # type: ignore[type-arg]
    """A value that contains itself."""

    def __init__(self) -> None:
        super().__init__(itself=self)


class Angry:
    def __str__(self) -> str:
        raise RuntimeError("not like this")


SPAN = {"trace_id": "a" * 32, "span_id": "b" * 16}
ODD: list[dict[str, Any]] = [
    *(
        {"kind": "span", "name": name, **SPAN}
        for name in ("codex.tool.call", "codex.turn", "codex.sampling", "mcp.call", "")
    ),
    *({"kind": "event", "name": name} for name in ("codex.user_prompt", "codex.api_request", "codex.sse_event", "x")),
    {"kind": "span", "name": "codex.turn", "attributes": {"input_tokens": 5}, **SPAN},
    {"kind": "span", "name": "old", "time_s": -5.0, "duration_s": -1.0, **SPAN},
    {"kind": "span", "name": "values", "attributes": {"a": Circle(), "b": Angry(), "c": {1, 2}, "d": 1 << 90}, **SPAN},
    {
        "kind": "span",
        "name": "values",
        "attributes": {"": b"x", "n": None, "f": float("nan"), "i": float("inf")},
        **SPAN,
    },
    {"kind": "span", "name": "half \ud800", "attributes": {"half \ud800": "\ud800"}, **SPAN},
    {"kind": "counter", "name": "1 odd näme \ud800"},
    {"kind": "counter", "name": "", "value": 2.5, "attributes": {"x": [1], "y": None}},
    {"kind": "counter", "name": "long" * 200},
]


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, len(ODD)))]
)
def test_an_odd_measurement_is_exported_as_well_as_it_can_be_and_loses_no_other(offered, collector, number):
    telemetry = offered(*collector.settings)
    odd = Measurement(**{"time_s": 1.7e9, **ODD[number]})
    good = [
        Measurement(kind="span", name="good", time_s=1.7e9, **SPAN),
        Measurement(kind="event", name="codex.user_prompt", time_s=1.7e9, attributes={"prompt_length": 1}),
        Measurement(kind="counter", name="good", time_s=1.7e9),
    ]
    telemetry.record_many([good[0], odd, *good[1:]])
    telemetry.flush()
    assert "good" in [span.get("name") for span in collector.spans]
    assert "codex.user_prompt" in [record["event.name"] for record in collector.logs]
    assert "good" in collector.metrics


def test_a_moment_outside_of_time_loses_one_measurement(offered, collector):
    telemetry = offered(*collector.settings)
    times = (float("nan"), float("inf"), 1e300, 1.7e9)
    telemetry.record_many([Measurement(kind="span", name=f"at {at}", time_s=at, **SPAN) for at in times])
    with pytest.raises(PluginError, match="the measurement 'at nan' could not be exported"):
        telemetry.flush()
    assert [span["name"] for span in collector.spans] == ["at 1700000000.0"]


def test_names_without_end_do_not_fill_the_collector(offered, collector):
    telemetry = offered(collector.setting("metrics"))
    telemetry.record_many([Measurement(kind="counter", name=f"n{number}", time_s=1.7e9) for number in range(500)])
    kinds = {f"response.x{number}": 1 for number in range(500)}
    telemetry.record_many([Measurement(kind="event", name="codex.sse_event", time_s=1.7e9, attributes=kinds)])
    telemetry.flush()
    assert len([name for name in collector.metrics if name.startswith("n")]) == 200
    found = {point["attributes"]["kind"]: point["asInt"] for point in collector.metrics.get("codex.sse_event", ())}
    assert found == {} or (len(found), found["other"]) == (201, 300)


def test_long_texts_are_cut_off(offered, collector):
    telemetry = offered(collector.setting("logs"), collector.setting("traces"))
    said = {"tool_name": "t" * 100_000, "call_id": "c"}
    content = {"arguments": "a" * 100_000, "output": "o"}
    telemetry.record_many(
        [Measurement(kind="span", name="codex.tool.call", time_s=1.7e9, attributes=said, content=content, **SPAN)]
    )
    telemetry.flush()
    (result,) = [record for record in collector.logs if record["event.name"] == "codex.tool_result"]
    assert (len(result["tool_name"]), len(result["arguments"]), result["output"]) == (4_096, 16_384, "o")
    (span,) = collector.spans
    assert len(span["attributes"]["tool_name"]) == 4_096


def test_exporters_that_cannot_be_made_are_one_line_without_secrets(offered, workers, tmp_path):
    file = tmp_path / "abc-secret.pem"
    file.write_text("soon gone")
    to = f'endpoint = "https://127.0.0.1:9", headers = {{ "x-key" = "abc-secret" }}, tls = {{ ca-certificate = "{file}" }}'
    telemetry = offered(f"otel.trace_exporter={{ otlp-grpc = {{ {to} }} }}")
    file.unlink()
    measurement = Measurement(kind="span", name="x", time_s=1.7e9, **SPAN)
    telemetry.record_many([measurement])
    with pytest.raises(PluginError, match="its exporters cannot be made: FileNotFoundError") as caught:
        telemetry.flush()
    assert "abc-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    telemetry.record_many([measurement])
    telemetry.flush()
    assert workers.now() == []


def test_a_worker_that_dies_is_reported_once_and_harms_no_turn(scene, collector, workers):
    told: list[str] = []

    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread()
        await thread.run("one")
        (worker,) = await workers.running()
        os.kill(int(worker.name), signal.SIGKILL)
        for text in ("two", "three"):
            result = await thread.run(text)
            told.extend(event.message for event in result.events if event.type == "warning")
            await asyncio.sleep(0.3)
        assert workers.now() == []
        return kernel

    replies = [say("one"), call("exec_command", cmd="echo hi", login=False), say("two"), say("three")]
    kernel = scene.play(story, replies, *collector.settings)
    (line,) = [text for text in dict.fromkeys((*told, *kernel.registry.warnings)) if "telemetry" in text]
    assert "the process that sends it has ended" in line


def test_ctrl_c_does_not_reach_the_worker(offered, collector, workers):
    telemetry = offered(collector.setting("traces"))
    telemetry.record_many([Measurement(kind="span", name="first", time_s=1.7e9, **SPAN)])
    (worker,) = asyncio.run(workers.running())
    pid = int(worker.name)
    assert os.getsid(pid) == os.getpgid(pid) == pid  # a terminal's signals go to the groups of its own session
    for _ in range(2):
        time.sleep(0.5)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
    telemetry.record_many([Measurement(kind="span", name="second", time_s=1.7e9, **SPAN)])
    telemetry.flush()
    assert [span["name"] for span in collector.spans] == ["first", "second"]


def test_the_worker_has_no_files_of_the_kernel(offered, collector, workers, tmp_path):
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        telemetry = offered(collector.setting("traces"))
        telemetry.record_many([Measurement(kind="span", name="x", time_s=1.7e9, **SPAN)])
        (worker,) = asyncio.run(workers.running())
        opened = [link.readlink() for link in (worker / "fd").iterdir() if link.exists()]
        assert Path(file.name) not in opened
    telemetry.flush()
