"""A turn whose telemetry is exported to a collector on loopback."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, say

REPLIES = [call("exec_command", cmd="echo hi", login=False), say("done")]


async def turn(kernel: Kernel) -> Any:
    thread = await kernel.start_thread()
    return await thread.run("go")


@pytest.mark.parametrize("protocol", ["json", "binary"])
def test_a_turn_arrives(scene, collector, protocol):
    settings = [collector.setting(signal, protocol=protocol) for signal in ("logs", "traces", "metrics")]
    result = scene.play(turn, REPLIES, *settings)
    assert result.final_message == "done"
    assert {received.path for received in collector.received} == {"/v1/logs", "/v1/traces", "/v1/metrics"}
    assert "codex.tool_result" in [record["event.name"] for record in collector.logs]
    assert [point["attributes"]["tool"] for point in collector.metrics["codex.tool.call"]] == ["exec_command"]
    assert collector.spans
    wanted = {"json": "application/json", "binary": "application/x-protobuf"}[protocol]
    assert {received.headers["content-type"] for received in collector.received} == {wanted}


def test_nothing_is_offered_without_an_exporter(scene):
    async def offers(kernel: Kernel) -> Any:
        return kernel.registry.telemetry

    assert (
        scene.play(offers, [], "otel.environment='staging'", "otel.exporter='none'", "otel.metrics_exporter='statsig'")
        == ()
    )
