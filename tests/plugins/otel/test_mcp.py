"""The trace goes on in MCP servers: a call carries the ids of its span in ``_meta``, and the span is exported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from codex_framework.contract.roles.scopes import Trace
from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, say

SERVER = Path(__file__).parents[1] / "mcp/scripted_server.py"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def configured(log: Path, *tools: str) -> str:
    """Return the setting of an MCP server that writes down what it gets."""
    given = {"log": str(log), "tools": [{"name": name} for name in tools]}
    return f"mcp_servers.docs={{ command = {json.dumps(sys.executable)}, args = {json.dumps([str(SERVER), json.dumps(given)])} }}"


def calls(log: Path) -> list[dict[str, Any]]:
    """Return the parameters of the calls that the server got."""
    received = map(json.loads, log.read_text().splitlines())
    return [message["params"] for message in received if message.get("method") == "tools/call"]


async def traced(kernel: Kernel) -> Any:
    from codex_framework.contract.protocol.ops import TextInput, UserInputOp

    thread = await kernel.start_thread()
    await thread.submit(UserInputOp((TextInput("go"),)), trace=Trace(PARENT))
    return await thread.settled()


def test_the_span_of_a_call_is_the_parent_of_what_the_server_does(scene, collector, tmp_path):
    log = tmp_path / "log.jsonl"
    replies = [call("mcp__docs__find"), say("done")]
    scene.play(traced, replies, *collector.settings, configured(log, "find"), "otel.log_user_prompt=true")
    ((params,), spans) = calls(log), {span["name"]: span for span in collector.spans}
    version, trace_id, span_id, flags = params["_meta"]["traceparent"].split("-")
    span, tool = spans["mcp.call"], spans["handle_tool_call"]
    assert (version, flags) == ("00", "01")
    assert (span["traceId"], span["spanId"], span["parentSpanId"]) == (trace_id, span_id, tool["spanId"])
    assert trace_id == PARENT.split("-")[1]
    assert spans["op.dispatch.user_input"]["parentSpanId"] == PARENT.split("-")[2]
    assert span["kind"] == 3
    assert span["attributes"].items() >= {"server": "docs", "tool": "find"}.items()
    (counted,) = collector.metrics["codex.mcp.call"]
    assert counted["attributes"]["success"] == "true"
    (result,) = [record for record in collector.logs if record["event.name"] == "codex.tool_result"]
    assert (result["mcp_server"], result["tool_namespace"]) == ("docs", "mcp__docs")


def test_each_call_has_a_span_of_its_own_and_a_failed_one_is_marked(scene, collector, tmp_path):
    log = tmp_path / "log.jsonl"
    replies = [call("mcp__docs__find"), call("mcp__docs__exit"), say("done")]

    async def story(kernel: Kernel) -> Any:
        return await (await kernel.start_thread()).run("go")

    scene.play(story, replies, *collector.settings, configured(log, "find", "exit"))
    spans = [span for span in collector.spans if span["name"] == "mcp.call"]
    assert [span["spanId"] for span in spans] == [each["_meta"]["traceparent"].split("-")[2] for each in calls(log)]
    assert len({span["spanId"] for span in spans}) == 2
    assert [span.get("status", {}).get("code", 0) for span in spans] == [0, 2]
    points = collector.metrics["codex.mcp.call"]
    assert sorted(point["attributes"]["success"] for point in points) == ["false", "true"]


def test_without_telemetry_a_call_has_no_trace(scene, tmp_path):
    log = tmp_path / "log.jsonl"

    async def story(kernel: Kernel) -> Any:
        return await (await kernel.start_thread()).run("go")

    scene.play(story, [call("mcp__docs__find"), say("done")], configured(log, "find"))
    assert ["traceparent" in params["_meta"] for params in calls(log)] == [False]
