"""The attributes of each log record, exactly: one more or one less changes what leaves the machine."""

from __future__ import annotations

from typing import Any

from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, fault, say

COMMON = {
    "event.name", "event.timestamp", "conversation.id", "app.version", "originator", "terminal.type", "model", "slug",
}  # fmt: skip
AUTH = {
    "auth.env_openai_api_key_present", "auth.env_codex_api_key_present", "auth.env_codex_api_key_enabled",
    "auth.env_refresh_token_url_override_present",
}  # fmt: skip
REQUEST = AUTH | {
    "attempt", "duration_ms", "endpoint", "auth.header_attached", "auth.retry_after_unauthorized", "http.response.status_code",
}  # fmt: skip
RESULT = {
    "tool_result_seq", "tool_name", "tool_namespace", "call_id", "duration_ms", "success", "output_truncated", "arguments", "output",
    "mcp_server", "mcp_server_origin",
}  # fmt: skip
COUNTS = {
    "input_token_count", "output_token_count", "cached_token_count", "cache_write_token_count", "reasoning_token_count",
    "tool_token_count", "ttft_ms",
}  # fmt: skip
ALLOWED = {
    "codex.conversation_starts": AUTH | {
        "provider_name", "reasoning_effort", "reasoning_summary", "context_window", "auto_compact_token_limit", "approval_policy",
        "sandbox_policy", "mcp_servers", "active_profile",
    },
    "codex.user_prompt": {"prompt_length", "prompt"},
    "codex.api_request": REQUEST | {"error.message"},
    "codex.sse_event": COUNTS | {"event.kind", "duration_ms", "error.message", "model_reasoning_effort"},
    "codex.tool_decision": {"tool_name", "tool_namespace", "call_id", "decision", "source"},
    "codex.tool_result": RESULT,
    "codex.sandbox_outcome": {"tool_name", "call_id", "outcome", "initial_duration_ms", "escalated_duration_ms"},
    "codex.turn_ttft": {"duration_ms"},
}  # fmt: skip
NEEDED = {
    "codex.conversation_starts": AUTH | {"provider_name", "approval_policy", "sandbox_policy", "mcp_servers"},
    "codex.user_prompt": {"prompt_length", "prompt"},
    "codex.api_request": REQUEST,
    "codex.sse_event": {"event.kind"},
    "codex.tool_decision": {"tool_name", "call_id", "decision", "source"},
    "codex.tool_result": RESULT,
    "codex.sandbox_outcome": {"tool_name", "call_id", "outcome", "initial_duration_ms"},
    "codex.turn_ttft": {"duration_ms"},
}

REPLIES = [
    call("exec_command", cmd="kill -9 $$", login=False),
    fault(status=500, body="no"),
    say("done"),
]


def test_each_record_has_the_attributes_of_its_event_and_no_others(scene, collector):
    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread(originator="codex_test")
        await thread.run("one")
        return await thread.run("two")

    scene.play(story, REPLIES, *collector.settings)
    logs = collector.logs
    assert {record["event.name"] for record in logs} == ALLOWED.keys()
    for record in logs:
        name = record["event.name"]
        own = record.keys() - COMMON
        assert record.keys() >= COMMON, name
        assert own <= ALLOWED[name], (name, own - ALLOWED[name])
        assert own >= NEEDED[name], (name, NEEDED[name] - own)
    (killed,) = [record for record in logs if record["event.name"] == "codex.sandbox_outcome"]
    assert killed["outcome"] == "signal"
    failed = [record for record in logs if record.get("error.message")]
    assert [(record["event.name"], record["error.message"]) for record in failed] == [("codex.api_request", "http 500")]


def test_a_sample_that_fails_is_a_span_and_each_sample_has_one(scene, collector):
    async def story(kernel: Kernel) -> Any:
        thread = await kernel.start_thread()
        return [await thread.run(text) for text in ("one", "two")]

    replies = [call("exec_command", cmd="true", login=False), say("done"), fault(status=400, body="no")]
    scene.play(story, replies, collector.setting("traces"), collector.setting("metrics"))
    turns = [span for span in collector.spans if span["name"] == "session_task.turn"]
    samples = [span for span in collector.spans if span["name"] == "run_sampling_request"]
    first, second = (turn["spanId"] for turn in turns)
    assert [span["parentSpanId"] for span in samples] == [first, first, second]
    assert [turn["attributes"]["samples"] for turn in turns] == [2, 1]
    assert [span["kind"] for span in samples] == [3, 3, 3]
    assert [span.get("status", {}).get("code", 0) for span in samples] == [0, 0, 2]
    assert samples[2]["attributes"]["error.type"]
    assert "gen_ai.usage.input_tokens" not in samples[2]["attributes"]
    assert all("gen_ai.response.id" in span["attributes"] for span in samples[:2])
    (tokens,) = [
        point for point in collector.metrics["gen_ai.client.token.usage"]
        if point["attributes"]["gen_ai.token.type"] == "input"
    ]  # fmt: skip
    assert (tokens["count"], tokens["sum"]) == (2, 200)
