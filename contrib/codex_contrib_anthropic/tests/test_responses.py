"""What the client makes of the events of a server."""

from __future__ import annotations

import json

import pytest

from codex_framework import Completed, FreeformFormat, FreeformSpec, FunctionCall, ReasoningDelta, TextDelta
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import CustomToolCall, Message, Reasoning, message_text
from codex_framework.testing import call, fault, model_request, say

START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, **fields):
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def ended(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def text(index, words):
    return start(index, type="text", text=""), delta(index, type="text_delta", text=words), stop(index)


def use(index, arguments, name="look", call_id="toolu_1"):
    begun = start(index, type="tool_use", id=call_id, name=name, input={})
    return begun, delta(index, type="input_json_delta", partial_json=arguments), stop(index)


def test_thoughts_keep_their_signature(hear):
    outcome = hear(
        START,
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="I "),
        delta(0, type="thinking_delta", thinking="think."),
        delta(0, type="signature_delta", signature="abc"),
        delta(0, type="signature_delta", signature="def"),
        stop(0),
        start(1, type="redacted_thinking", data="xyz"),
        stop(1),
        *text(2, "So."),
        ended("end_turn"),
        STOP,
    )
    readable, encrypted, message = outcome.items
    assert isinstance(readable, Reasoning)
    assert readable.summary == ({"type": "summary_text", "text": "I think."},)
    assert readable.extra["provider_private"] == {"api": "messages", "response": "msg_1", "signature": "abcdef"}
    assert encrypted.extra["provider_private"] == {"api": "messages", "response": "msg_1", "redacted": "xyz"}
    assert message_text(message) == "So."
    assert [one.delta for one in outcome.answers[0] if isinstance(one, (ReasoningDelta, TextDelta))] == [
        "I ",
        "think.",
        "So.",
    ]


def test_the_usage_counts_the_cache(hear):
    begun = {"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30, "output_tokens": 1}
    outcome = hear(
        {"type": "message_start", "message": {"id": "msg_1", "usage": begun}},
        *text(0, "So."),
        ended("end_turn", output_tokens=7),
        STOP,
    )
    assert outcome.answers[0][-1] == Completed("msg_1", TokenUsage(240, 200, 7, 0, 247, 30))


def test_later_counts_are_totals_and_thinking_is_a_part_of_the_output(hear):
    later = {"input_tokens": 0, "cache_read_input_tokens": 50, "output_tokens": 9}
    outcome = hear(
        START,
        *text(0, "So."),
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4}},
        ended("end_turn", **later, output_tokens_details={"thinking_tokens": 6}),
        STOP,
    )
    assert outcome.answers[0][-1] == Completed("msg_1", TokenUsage(60, 50, 9, 6, 69))


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (
            {"type": "refusal", "category": "cyber", "explanation": "It could do harm."},
            "explanation: It could do harm.",
        ),
        ({"type": "refusal", "category": "bio", "explanation": None}, "explanation: bio"),
        (None, "choose another model"),
        (["odd"], "choose another model"),
    ],
)
def test_a_refusal_says_why(hear, details, told):
    stop_event = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    error = hear(START, *text(0, "So"), stop_event, STOP).error
    assert (str(error), error.retryable) == ("Incomplete response returned, reason: content_filter", False)
    assert told in error.hint


def test_a_stop_sequence_is_an_end(hear):
    assert hear(START, *text(0, "So."), ended("stop_sequence"), STOP).errors == [None]


def test_a_full_window_counts_as_a_conversation_that_is_too_long(hear):
    outcome = hear(START, *text(0, "So."), ended("model_context_window_exceeded"), STOP)
    assert outcome.error.slug == "context-window"


def test_odd_counts_are_ignored(hear):
    begun = {"input_tokens": -3, "cache_read_input_tokens": "many", "output_tokens": None}
    outcome = hear(
        {"type": "message_start", "message": {"id": "m", "usage": begun}}, *text(0, "So."), ended("end_turn"), STOP
    )
    assert outcome.answers[0][-1] == Completed("m", None)


def test_calls_with_their_arguments_in_pieces(hear):
    outcome = hear(
        START,
        start(0, type="tool_use", id="toolu_1", name="look", input={}),
        delta(0, type="input_json_delta", partial_json=""),
        delta(0, type="input_json_delta", partial_json='{"at": "'),
        start(1, type="tool_use", id="toolu_2", name="look", input={"at": "b"}),
        delta(0, type="input_json_delta", partial_json='a"}'),
        stop(0),
        stop(1),
        ended("tool_use"),
        STOP,
    )
    assert [(one.name, json.loads(one.arguments), one.call_id) for one in outcome.items] == [
        ("look", {"at": "a"}, "toolu_1"),
        ("look", {"at": "b"}, "toolu_2"),
    ]


def test_a_call_without_arguments_and_one_with_wrong_ones_are_handed_on(hear):
    outcome = hear(
        START,
        *use(0, ""),
        *use(1, '{"at": ', call_id="toolu_2"),
        *use(2, "{}", call_id="toolu_3"),
        ended("tool_use"),
        STOP,
    )
    assert [(one.call_id, one.arguments) for one in outcome.items] == [
        ("toolu_1", "{}"),
        ("toolu_2", '{"at": '),
        ("toolu_3", "{}"),
    ]


@pytest.mark.parametrize("arguments", ["", '{"at": "a'])
def test_a_call_that_the_end_cut_off_is_not_made(hear, arguments):
    outcome = hear(START, *text(0, "I look."), *use(1, arguments), ended("max_tokens", output_tokens=9), STOP)
    assert [type(one) for one in outcome.items] == [Message]
    assert str(outcome.error) == "Incomplete response returned, reason: max_output_tokens"
    assert outcome.error.usage.output_tokens == 9
    assert "max_tokens" in outcome.error.hint


def test_a_freeform_call_gets_its_text_back(hear):
    tools = (FreeformSpec("apply_patch", "Patches.", FreeformFormat("lark", "start: x")),)
    outcome = hear(START, *use(0, '{"input": "*** Begin"}', "apply_patch"), ended("tool_use"), STOP, tools=tools)
    assert [(type(one), one.input) for one in outcome.items] == [(CustomToolCall, "*** Begin")]


def test_repeated_ids_and_blocks_make_no_call_twice(hear):
    outcome = hear(START, *use(0, "{}"), *use(0, "{}"), *use(1, "{}"), ended("tool_use"), ended("tool_use"), STOP, STOP)
    ids = [one.call_id for one in outcome.items]
    assert len(set(ids)) == len(ids) == 2


def test_blocks_without_an_end_are_complete_when_the_response_is(hear):
    outcome = hear(START, *text(0, "So.")[:2], *use(1, '{"at": "a"}')[:2], ended("tool_use"))
    assert [type(one) for one in outcome.items] == [Message, FunctionCall]
    assert outcome.errors == [None]


def test_an_answer_of_nothing_is_an_empty_message(hear):
    outcome = hear(START, ended("end_turn"), STOP)
    assert [message_text(one) for one in outcome.items] == [""]


def test_a_pause_asks_for_more(hear):
    assert hear(START, *text(0, "So."), ended("pause_turn"), STOP).answers[0][-1].end_turn is False


def test_unknown_events_blocks_and_deltas_are_ignored(hear):
    outcome = hear(
        b": hello\n\n",
        START,
        {"type": "ping"},
        {"type": "surprise", "of": ["any", "kind"]},
        start(0, type="mcp_tool_use", id="x", name="find", server_name="s", input={}),
        delta(0, type="input_json_delta", partial_json="{}"),
        stop(0),
        *text(1, "So."),
        delta(9, type="text_delta", text="lost"),
        ended("end_turn"),
        STOP,
    )
    assert [message_text(one) for one in outcome.items] == ["So."]


def test_a_message_that_comes_at_once(ask):
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "t", "name": "look", "input": {"at": 1}},
    ]
    whole = {
        "id": "msg_7",
        "type": "message",
        "content": content,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    outcome = ask([fault(200, body=whole)])
    assert [type(one) for one in outcome.items] == [Reasoning, Message, FunctionCall]
    assert outcome.answers[0][-1] == Completed("msg_7", TokenUsage(3, 0, 4, 0, 7))


@pytest.mark.parametrize(
    ("status", "error", "slug", "retryable"),
    [
        (400, ("invalid_request_error", "messages: too few"), "bad-request", False),
        (400, ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), "context-window", False),
        (400, ("invalid_request_error", "Your credit balance is too low to access the API."), "quota", False),
        (401, ("authentication_error", "invalid x-api-key"), "unexpected-status", False),
        (402, ("billing_error", "Pay."), "quota", False),
        (403, ("permission_error", "not yours"), "unexpected-status", False),
        (404, ("not_found_error", "model: none"), "not-found", False),
        (413, ("request_too_large", "Request exceeds the maximum size"), "context-window", False),
        (429, ("rate_limit_error", "Slow down."), "rate-limit", True),
        (500, ("api_error", "Internal server error"), "server-error", True),
        (504, ("timeout_error", "Too late."), "unexpected-status", True),
        (529, ("overloaded_error", "Overloaded"), "overloaded", True),
    ],
)
def test_errors_of_the_server(ask, status, error, slug, retryable):
    kind, message = error
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    refused = ask([fault(status, body=body, headers={"retry-after": "3"})]).error
    assert (refused.slug, refused.retryable) == (slug, retryable)
    assert refused.retry_after_s == (3.0 if retryable else None)
    streamed = ask([say("Hal") + fault(failed={"code": kind, "message": message})]).error
    assert streamed.retryable is retryable
    assert streamed.slug == slug or retryable


def test_what_was_complete_before_an_error_is_kept(ask):
    reply = say("I look.") + call("look", at="a") + fault(failed={"code": "overloaded_error", "message": "Overloaded"})
    outcome = ask([reply])
    assert [type(one) for one in outcome.items] == [Message, FunctionCall]
    assert "overloaded: Overloaded" in str(outcome.error)


@pytest.mark.parametrize(
    "events",
    [
        [b'data: {"type": "content_block_st\n\n'],
        [{"type": "content_block_start", "index": 0}],
        [{"type": "content_block_delta", "delta": {}}],
        [start(0, type="text", text=3)],
        [{"type": "message_delta", "delta": None}],
        [*use(0, "{}", name="")],
    ],
)
def test_events_that_cannot_be_read_break_the_response(hear, events):
    error = hear(START, *events, ended("end_turn"), STOP).error
    assert (error.slug, error.retryable) == ("stream-disconnected", True)


@pytest.mark.parametrize("body", ["<html>Hi</html>", '{"hello": "there"}', "[]", "\x00\x01"])
def test_what_is_no_response_is_named(ask, body):
    error = ask([fault(200, body=body)]).error
    assert str(error).strip()
    if body[0] in "<{[":
        assert (error.slug, error.retryable) == ("not-a-response", False)
        assert "/messages" in error.hint


def test_requests_overlap_and_share_nothing(ask):
    outcome = ask([say("One."), say("Two.")], model_request("a", thread_id="t1"), model_request("b", thread_id="t2"))
    assert [body["messages"][0]["content"][0]["text"] for body in outcome.bodies] == ["a", "b"]
