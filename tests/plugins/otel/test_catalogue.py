"""Names and values of log records, spans and metrics, and what never appears in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework import Interceptor, hookimpl
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, custom_call, fault, say

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"
REPLIES = [
    call("exec_command", cmd="echo hi", login=False),
    custom_call("apply_patch", PATCH),
    call("nonsense"),
    say("done"),
]
CANARY = "canary-5f1d"


async def turn(kernel: Kernel) -> Any:
    thread = await kernel.start_thread(originator="codex_test")
    return await thread.run("say hello")


def of(records: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [record for record in records if record["event.name"] == name]


def test_log_records_follow_the_catalogue(scene, collector):
    scene.play(turn, REPLIES, *collector.settings, "otel.environment='staging'")
    logs = collector.logs
    for resource in collector.resources("logs"):  # one for each request
        assert resource["env"] == "staging"
        assert resource["service.name"] == "codex_test"
    common = {
        "event.name",
        "event.timestamp",
        "conversation.id",
        "app.version",
        "originator",
        "terminal.type",
        "model",
        "slug",
    }
    assert all(common <= record.keys() for record in logs)
    assert {record["model"] for record in logs} == {"gpt-5.5"}
    (started,) = of(logs, "codex.conversation_starts")
    assert started["provider_name"] == "here"
    assert (started["approval_policy"], started["sandbox_policy"]) == ("never", "danger-full-access")
    assert started["auth.env_openai_api_key_present"] is False
    (prompt,) = of(logs, "codex.user_prompt")
    assert (prompt["prompt_length"], prompt["prompt"]) == ("9", "[REDACTED]")
    requests = of(logs, "codex.api_request")
    assert [request["http.response.status_code"] for request in requests] == ["200"] * 4
    assert {(request["attempt"], request["endpoint"]) for request in requests} == {("0", "/responses")}
    assert all(request["duration_ms"].isdigit() for request in requests)
    kinds = [record["event.kind"] for record in of(logs, "codex.sse_event")]
    assert kinds[0] == "response.created"
    counted = [record for record in of(logs, "codex.sse_event") if "input_token_count" in record]
    assert len(counted) == 4
    assert {record["event.kind"] for record in counted} == {"response.completed"}
    assert counted[0].items() >= {
        "input_token_count": "100", "output_token_count": "20", "cached_token_count": "10", "reasoning_token_count": "5",
        "tool_token_count": "120",
    }.items()  # fmt: skip
    decisions = [(each["tool_name"], each["decision"], each["source"]) for each in of(logs, "codex.tool_decision")]
    assert decisions == [("exec_command", "approved", "config"), ("apply_patch", "approved", "config")]
    results = of(logs, "codex.tool_result")
    assert [(each["tool_name"], each["success"]) for each in results] == [
        ("exec_command", "true"), ("apply_patch", "true"), ("nonsense", "false")
    ]  # fmt: skip
    assert json.loads(results[0]["arguments"])["cmd"] == "echo hi"
    assert results[0]["output"].endswith("hi\n")
    assert results[1]["arguments"] == PATCH
    assert [each["tool_result_seq"] for each in results] == ["1", "2", "3"]
    (first,) = of(logs, "codex.turn_ttft")
    assert first["duration_ms"].isdigit()


def test_spans_form_a_tree(scene, collector):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def story(kernel: Kernel) -> Any:
        from codex_framework import Trace
        from codex_framework.contract.protocol.ops import TextInput, UserInputOp

        thread = await kernel.start_thread()
        await thread.submit(UserInputOp((TextInput("go"),)), trace=Trace(parent))
        return await thread.settled()

    scene.play(story, REPLIES, collector.setting("traces"), "otel.span_attributes={team='payments'}")
    spans = collector.spans
    by_name: dict[str, list[Any]] = {}
    for span in spans:
        by_name.setdefault(span["name"], []).append(span)
    (dispatch,) = by_name["op.dispatch.user_input"]
    assert {span["traceId"] for span in spans} == {"0af7651916cd43dd8448eb211c80319c"}
    assert dispatch["parentSpanId"] == "b7ad6b7169203331"
    (whole,) = by_name["session_task.turn"]
    assert whole["parentSpanId"] == dispatch["spanId"]
    assert len(by_name["run_sampling_request"]) == 4
    assert len(by_name["handle_tool_call"]) == 3
    for span in (*by_name["run_sampling_request"], *by_name["handle_tool_call"]):
        assert span["parentSpanId"] == whole["spanId"]
    calls = {span["attributes"]["tool_name"]: span for span in by_name["handle_tool_call"]}
    for name in ("codex.command", "codex.sandbox.start"):
        (inner,) = by_name[name]
        assert inner["parentSpanId"] == calls["exec_command"]["spanId"]
    assert all(span["attributes"]["team"] == "payments" for span in spans)
    assert whole["attributes"]["codex.turn.token_usage.total_tokens"] == 480
    assert whole["attributes"]["gen_ai.operation.name"] == "invoke_agent"
    sample = by_name["run_sampling_request"][0]["attributes"]
    assert sample["gen_ai.operation.name"] == "chat"
    assert sample["gen_ai.request.model"] == "gpt-5.5"
    assert (sample["gen_ai.usage.input_tokens"], sample["gen_ai.usage.output_tokens"]) == (100, 20)
    tool = calls["exec_command"]["attributes"]
    assert (tool["gen_ai.operation.name"], tool["gen_ai.tool.name"]) == ("execute_tool", "exec_command")
    assert calls["nonsense"]["status"] == {"code": 2}


def test_metrics_have_codexs_names(scene, collector):
    scene.play(turn, REPLIES, collector.setting("metrics"))
    metrics = collector.metrics
    tools = {point["attributes"]["tool"]: point["attributes"]["success"] for point in metrics["codex.tool.call"]}
    assert tools == {"exec_command": "true", "apply_patch": "true", "unknown": "false"}
    tokens = {point["attributes"]["token_type"]: point["sum"] for point in metrics["codex.turn.token_usage"]}
    assert (
        tokens.items() >= {"total": 480, "input": 400, "cached_input": 40, "output": 80, "reasoning_output": 20}.items()
    )
    (turns,) = metrics["codex.turn.e2e_duration_ms"]
    assert (turns["count"], len(turns["explicitBounds"])) == (1, 34)
    (requests,) = metrics["codex.api_request"]
    assert (requests["asInt"], requests["attributes"]["status"]) == (4, "200")
    assert metrics.keys() >= {
        "codex.process.start", "codex.thread.started", "codex.conversation.turn.count", "codex.turn.tool.call", "codex.sse_event",
        "codex.turn.ttft.duration_ms", "codex.tool.call.duration_ms", "gen_ai.client.token.usage", "codex.tool.unified_exec",
    }  # fmt: skip


def test_a_question_is_a_span_and_its_answer_a_decision(scene, collector):
    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread()

        async def no(_: object) -> ReviewDecision:
            return ReviewDecision(Decision.DENIED)

        return await thread.run("go", on_request=no)

    replies = [call("exec_command", cmd="rm -rf /nowhere", login=False), say("done")]
    scene.play(story, replies, *collector.settings, "approval_policy='untrusted'", "sandbox_mode='read-only'")
    (decision,) = of(collector.logs, "codex.tool_decision")
    assert (decision["tool_name"], decision["decision"], decision["source"]) == ("exec_command", "denied", "user")
    (wait,) = [span for span in collector.spans if span["name"] == "codex.approval"]
    (tool,) = [span for span in collector.spans if span["name"] == "handle_tool_call"]
    assert wait["parentSpanId"] == tool["spanId"]
    (asked,) = collector.metrics["codex.approval.requested"]
    assert asked["attributes"].items() >= {"decision": "denied", "source": "user"}.items()


SECRETS = [call("exec_command", cmd=f"echo {CANARY}", login=False), say(f"done {CANARY}")]


def secret(scene: Any, collector: Any, *settings: str) -> None:
    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread()
        return await thread.run(f"the secret is {CANARY}")

    environ = f"shell_environment_policy.set={{ SECRET = '{CANARY}' }}"
    scene.play(story, SECRETS, *collector.settings, environ, *settings)
    assert len(collector.received) >= 3


def test_spans_and_metrics_never_have_content(scene, collector):
    secret(scene, collector, "otel.log_user_prompt=true")
    for received in collector.received:
        assert (CANARY.encode() in received.body) == (received.path == "/v1/logs"), received.path
    (prompt,) = of(collector.logs, "codex.user_prompt")
    assert prompt["prompt"] == f"the secret is {CANARY}"


def test_prompts_are_redacted_unless_allowed(scene, collector):
    secret(scene, collector)
    for record in collector.logs:
        has = CANARY in json.dumps(record)
        assert has == (record["event.name"] == "codex.tool_result"), record


def test_the_content_of_calls_can_be_kept_out(scene, collector):
    secret(scene, collector, "framework.plugins.otel.log_tool_content=false")
    assert not any(CANARY.encode() in received.body for received in collector.received)
    (result,) = of(collector.logs, "codex.tool_result")
    assert (result["arguments"], result["output"]) == ("[REDACTED]", "[REDACTED]")


def test_long_outputs_are_previews(scene, collector):
    replies = [call("exec_command", cmd="seq 1 500", login=False), say("done")]
    scene.play(turn, replies, collector.setting("logs"))
    (result,) = of(collector.logs, "codex.tool_result")
    assert result["output"].endswith("[... telemetry preview truncated ...]")
    assert len(result["output"].splitlines()) == 65
    assert result["output_truncated"] is True


@pytest.mark.parametrize(
    ("most", "output"),
    [(5, "Chunk\n[... telemetry preview truncated ...]"), (0, "[... telemetry preview truncated ...]")],
)
def test_the_output_of_a_call_has_at_most_as_many_bytes_as_configured(scene, collector, most, output):
    secret(scene, collector, f"otel.tool_result.max_bytes={most}")
    (result,) = of(collector.logs, "codex.tool_result")
    assert (result["output"], result["output_truncated"]) == (output, True)


def test_odd_measurements_of_plugins_do_not_lose_the_others(scene, collector):
    class Odd(Interceptor):
        name = "odd"

        async def before_tool(self, call, turn):
            with turn.span("odd \ud800", huge=1 << 80, nested={"a": [1]}, none=None, half="\ud800"):
                return call

        @hookimpl
        def codex_interceptors(self):
            return [self]

    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread()
        result = await thread.run("go \ud800 \x00")
        return [event.message for event in result.events if event.type == "warning"]

    replies = [call("exec_command", cmd="echo hi", login=False), say("done")]
    assert scene.play(story, replies, *collector.settings, plugins=[Odd()]) == []
    (odd,) = [span for span in collector.spans if span["name"].startswith("odd")]
    assert odd["attributes"]["huge"] == str(1 << 80)
    assert of(collector.logs, "codex.tool_result")


def test_messages_of_a_server_are_in_logs_only(scene, collector):
    replies = [fault(status=400, body=CANARY), say("done")]
    scene.play(turn, replies, *collector.settings)
    (request,) = of(collector.logs, "codex.api_request")
    assert (request["http.response.status_code"], request["error.message"]) == ("400", "http 400")
    for received in collector.received:
        if received.path != "/v1/logs":
            assert b"error.message" not in received.body
            assert CANARY.encode() not in received.body
