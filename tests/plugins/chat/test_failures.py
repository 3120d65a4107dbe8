"""Every way in which a server fails, as a typed error that says whether a retry can help."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import ModelError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import message_text
from codex_framework.testing.replies import call, fault, reasoning, say
from codex_framework.testing.requests import model_request
from codex_plugin_chat.faults import error_of
from tests.plugins.chat.conftest import delta

Ask = Callable[..., Any]

CONTEXT = (
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
)
PAGE = "<!DOCTYPE html><html><body>Sign in</body></html>"


def summary(error: ModelError) -> tuple[str, bool, float | None]:
    return error.slug, error.retryable, error.retry_after_s


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("length", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("content_filter", "content_filter"),
    ],
)
def test_an_incomplete_response_says_why_and_keeps_its_text_but_no_calls(hear: Ask, reason: str, told: str) -> None:
    piece = {"index": 0, "id": "x", "function": {"name": "f", "arguments": '{"a'}}
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}
    outcome = hear(delta(content="half"), delta(tool_calls=[piece]), delta(reason), usage, "[DONE]")
    assert outcome.error.fact == f"Incomplete response returned, reason: {told}"
    assert summary(outcome.error) == ("incomplete", False, None)
    assert outcome.error.usage == TokenUsage(9, 0, 1, 0, 10)
    assert [message_text(item) for item in outcome.items] == ["half"]


@pytest.mark.parametrize("reason", ["error", "abort", "network_error", "insufficient_system_resource"])
def test_a_reason_that_names_a_failure_of_the_server_is_retried(hear: Ask, reason: str) -> None:
    outcome = hear(delta(content="half"), delta(reason), "[DONE]")
    assert summary(outcome.error) == ("stream-disconnected", True, None)
    assert outcome.items == []


def test_a_choice_may_carry_the_error(hear: Ask) -> None:
    chunk = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "Upstream"}}]
    }
    assert hear(delta(content="half"), chunk).error.fact.endswith("Upstream")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "slow", "type": "rate_limit_error"}, ("rate-limit", True, None)),
        ({"message": "slow, try again in 2s", "code": "rate_limit_exceeded"}, ("rate-limit", True, 2.0)),
        ({"message": "slow", "code": 429}, ("rate-limit", True, None)),
        ({"message": "bad gateway", "code": 502}, ("stream-disconnected", True, None)),
        ({"message": "bad gateway", "code": "502"}, ("stream-disconnected", True, None)),
        ({"message": "busy", "type": "overloaded_error"}, ("stream-disconnected", True, None)),
        ({"message": "oops", "type": "server_error"}, ("stream-disconnected", True, None)),
        ({"message": "oops", "type": "internal_server_error", "code": None}, ("stream-disconnected", True, None)),
        ({"message": "no field x", "type": "invalid_request_error"}, ("bad-request", False, None)),
        ({"message": "no field x", "code": 400}, ("bad-request", False, None)),
        ({"message": "who?", "code": 401}, ("unexpected-status", False, None)),
        ({"message": "who?", "type": "authentication_error"}, ("unexpected-status", False, None)),
        ({"message": "no such model", "code": "model_not_found"}, ("not-found", False, None)),
        ({"message": "quota", "code": "insufficient_quota"}, ("quota", False, None)),
        ({"message": "no", "code": "invalid_image"}, ("invalid-image", False, None)),
        ({"message": "long", "code": "context_length_exceeded"}, ("context-window", False, None)),
        (
            {"message": "This model's maximum context length is 8192 tokens.", "code": 400},
            ("context-window", False, None),
        ),
        ("something went wrong", ("stream-disconnected", True, None)),
        ({"detail": "odd"}, ("stream-disconnected", True, None)),
        ({"strange": 1}, ("stream-disconnected", True, None)),
        ([1], ("stream-disconnected", True, None)),
    ],
)
def test_an_error_within_a_stream_is_typed(hear: Ask, error: Any, expected: tuple[str, bool, float | None]) -> None:
    outcome = hear(delta(content="half"), {"error": error})
    assert summary(outcome.error) == expected
    assert outcome.items == []
    assert summary(error_of(error)) == expected


def test_a_code_that_is_no_status_is_an_error_in_the_words_of_the_server() -> None:
    assert error_of({"code": "9" * 5000, "message": "broken"}).fact == "stream disconnected before completion: broken"


def test_an_error_object_of_its_own_is_typed(hear: Ask) -> None:
    outcome = hear({"object": "error", "message": "The prompt is too long", "code": 400})
    assert outcome.error.fact == CONTEXT


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (
            400,
            {"error": {"message": "request (9 tokens) exceeds the available context size"}},
            ("context-window", False, None),
        ),
        (400, {"error": {"type": "exceed_context_size_error", "message": "n"}}, ("context-window", False, None)),
        (400, {"object": "error", "message": "maximum context length is 5"}, ("context-window", False, None)),
        (413, {"error": {"message": "Input is too long."}}, ("context-window", False, None)),
        (400, {"error": {"message": "no"}}, ("bad-request", False, None)),
        (422, {"detail": [{"loc": ["body"], "msg": "extra"}]}, ("unexpected-status", False, None)),
        (500, {"error": {"message": "model needs more memory"}}, ("server-error", True, None)),
        (500, "", ("server-error", True, None)),
        (400, "no", ("bad-request", False, None)),
        (401, {"error": {"message": "who?"}}, ("unexpected-status", False, None)),
        (403, {"error": {"message": "not you"}}, ("unexpected-status", False, None)),
        (404, PAGE, ("not-found", False, None)),
        (404, {"detail": "Not Found"}, ("not-found", False, None)),
        (404, {"error": {"message": "no model x"}}, ("not-found", False, None)),
        (502, PAGE, ("unexpected-status", True, None)),
    ],
)
def test_a_refusal_is_typed(ask: Ask, status: int, body: Any, expected: tuple[str, bool, float | None]) -> None:
    assert summary(ask([fault(status, body=body)]).error) == expected


def test_a_refusal_says_what_the_server_says_and_what_to_do(ask: Ask) -> None:
    said = ask([fault(400, body={"error": {"message": "temperature must be 1"}})]).error
    key = ask([fault(401, body={"error": {"message": "who?"}})]).error
    place = ask([fault(404, body=PAGE)]).error
    assert said.fact == "temperature must be 1"
    assert (key.fact, "env_key" in key.hint) == ("the model server refuses the key: who?", True)
    assert (place.fact, "base_url" in place.hint) == (
        "the model server has nothing at this address (404 Not Found)",
        True,
    )


def test_a_failure_with_words_of_its_own_shows_them_and_keeps_the_delay(ask: Ask) -> None:
    reply = fault(500, body={"error": {"message": "model needs more memory"}}, headers={"retry-after": "3"})
    error = ask([reply]).error
    assert error.fact == "the model server failed: model needs more memory"
    assert error.retry_after_s == 3.0


def test_a_delay_that_the_server_asks_for_is_passed_on(ask: Ask) -> None:
    assert summary(ask([fault(429, headers={"retry-after": "7"})]).error) == ("rate-limit", True, 7.0)


def test_server_errors_are_retried_before_the_turn_hears_of_them(ask: Ask) -> None:
    outcome = ask([fault(503), fault(500), say("hi")], table={"request_max_retries": 2})
    assert len(outcome.server.requests) == 3
    assert outcome.errors == [None]


@pytest.mark.parametrize("content_type", ["text/html", "text/event-stream", "application/json"])
def test_a_web_page_is_no_response(ask: Ask, content_type: str) -> None:
    error = ask([fault(200, body=f"\n {PAGE}", headers={"content-type": content_type})]).error
    assert error.fact == "the server of the model provider 'mock' answered with a web page"
    assert summary(error) == ("not-a-response", False, None)
    assert "/chat/completions is added to it" in error.hint


@pytest.mark.parametrize("body", ['{"detail": "Not Found"}', "{}", "[]", '{"choices": []}'])
def test_json_without_a_choice_is_no_response(ask: Ask, body: str) -> None:
    error = ask([fault(200, body=body)]).error
    assert summary(error) == ("not-a-response", False, None)
    assert body in error.fact


def test_an_error_with_status_200_is_typed(ask: Ask) -> None:
    error = ask([fault(200, body={"error": {"message": "who?", "code": 401}})]).error
    assert (error.fact, error.retryable) == ("who?", False)


@pytest.mark.parametrize("body", ["", "   ", "hello", '{"choices": [', "\x00\x01"])
def test_a_body_that_is_none_is_asked_for_again(ask: Ask, body: str) -> None:
    assert summary(ask([fault(200, body=body)]).error) == ("stream-disconnected", True, None)


@pytest.mark.parametrize(
    "garbage",
    [
        b'data: {"choices": [{"index": 0, "delta": {"content": \n\n',
        b'\xff\xfe{"\0\n\n',
        b'data: {"choices": 7}\n\n',
        b'data: {"choices": [7]}\n\n',
        b'data: {"choices": [{"delta": 7}]}\n\n',
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": [7]}}]}\n\n',
        b'data: {"choices": [{"message": "x"}]}\n\n',
        b"data: " + b"[" * 100_000 + b'"\n\n',
    ],
)
def test_a_chunk_that_cannot_be_read_breaks_the_response(hear: Ask, garbage: bytes) -> None:
    outcome = hear(delta(content="a"), garbage, delta("stop"), "[DONE]")
    assert summary(outcome.error) == ("stream-disconnected", True, None)
    assert "an event that cannot be read" in outcome.error.fact
    assert len(outcome.error.fact) < 300
    assert outcome.items == []


@pytest.mark.parametrize(
    "noise",
    [
        b": OPENROUTER PROCESSING\n\n",
        b"event: ping\ndata: ping\n\n",
        b"data:\n\n",
        b"data: 7\n\n",
        b'data: {"type": "ping"}\n\n',
        b'data: {"choices": null}\n\n',
        b'data: {"choices": [], "prompt_filter_results": []}\n\n',
        b'data: {"choices": [{"index": 0, "delta": null}]}\n\n',
        b"\r\n\r\n",
    ],
)
def test_noise_between_chunks_is_ignored(hear: Ask, noise: bytes) -> None:
    outcome = hear(noise, delta(content="a"), noise, delta(content="b"), noise, delta("stop"), noise, "[DONE]", noise)
    assert [message_text(item) for item in outcome.items] == ["ab"]


def test_a_stream_without_an_end_is_broken(ask: Ask) -> None:
    outcome = ask([say("a") + call("f").evolve(usage=None) + fault(no_completed=True)])
    assert outcome.error.fact == (
        "stream disconnected before completion: stream closed before the response was complete"
    )
    assert outcome.items == []


def test_a_stream_without_a_choice_is_broken(hear: Ask) -> None:
    assert "sent no choice" in hear("[DONE]").error.fact


def test_silence_within_a_response_has_a_limit(ask: Ask) -> None:
    error = ask([say("a") + fault(after=2, hang_s=30)], table={"stream_idle_timeout_ms": 100}).error
    assert error.fact == "stream disconnected before completion: idle timeout waiting for SSE"
    assert error.retryable


def test_keep_alives_count_as_silence(hear: Ask, ask: Ask) -> None:
    pings = "".join(': ping\n\ndata: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n' for _ in range(400))
    reply = fault(raw_before=pings, piece_bytes=700, piece_pause_s=0.02) + say("late")
    error = ask([reply], table={"stream_idle_timeout_ms": 150}).error
    assert error.fact.endswith("idle timeout waiting for SSE")


def test_a_slow_server_is_not_idle(ask: Ask) -> None:
    reply = reasoning("a long thought " * 8, deltas=60) + say("x") + fault(piece_bytes=200, piece_pause_s=0.01)
    outcome = ask([reply], table={"stream_idle_timeout_ms": 250})
    assert outcome.errors == [None]


def test_no_failure_shows_the_key(ask: Ask) -> None:
    key = "sk-canary-123456"
    table = {"query_params": {"key": key}, "experimental_bearer_token": "sk-other-canary"}
    body = json.dumps({"error": {"message": f"wrong key {key}"}})
    for status in (400, 401, 404, 500, 503):
        error = ask([fault(status, body=body)], table=table).error
        assert "canary" not in f"{error.fact} {error.hint}", status


def test_a_request_after_a_failure_is_a_new_one(ask: Ask) -> None:
    outcome = ask([call("f") + fault(garbled=[2]), say("fine")], model_request("a"), model_request("a"))
    assert outcome.errors[0].retryable
    assert outcome.errors[1] is None
