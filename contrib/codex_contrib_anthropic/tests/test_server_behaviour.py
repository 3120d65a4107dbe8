"""What model servers do that their APIs do not say: one test per row of the table."""

from __future__ import annotations

import json

import pytest

from codex_framework import FunctionCall, FunctionSpec, InputImage, InputText, Message
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.roles.models import LeftOut
from codex_framework.testing import fault, model_request, say
from codex_lib_model_client.server_behaviour import ANSWERS, REFUSALS

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
LOOK = Message("user", (InputText("look"), InputImage(f"data:image/png;base64,{PNG}")))


def refusal(row):
    return fault(row.status, body={"type": "error", "error": {"type": "invalid_request_error", "message": row.words}})


def refusals(meaning):
    return [
        pytest.param(row, id=f"{row.server}-{number}") for number, row in enumerate(REFUSALS) if row.meaning == meaning
    ]


@pytest.mark.parametrize("row", refusals("too long"))
def test_a_conversation_that_is_too_long_is_recognised(ask, row):
    assert ask([refusal(row)]).error.info == "context_window_exceeded"


@pytest.mark.parametrize("row", refusals("no images"))
def test_images_that_the_model_does_not_take_are_left_out_once_refused(ask, row):
    request = model_request(LOOK)
    outcome = ask([refusal(row), say("Fine."), say("Still.")], request, request)
    assert outcome.errors == [None, None]
    assert [PNG in json.dumps(body) for body in outcome.bodies] == [True, False, False]
    assert LeftOut("images", 1, "the model takes none") in outcome.answers[0]


@pytest.mark.parametrize(
    "words",
    [
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute (model: m).",
        "You have reached your specified API usage limits. You will regain access on 2027-01-01.",
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for m",
        "tools: Tool names must be unique.",
        "too many images and documents: 120 + 0 > 100",
        "messages.1.content.0.tool_use.input: the schema of the tool second is not met",
    ],
)
def test_other_refusals_end_the_turn(ask, words):
    refused = fault(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    outcome = ask([refused, say("Fine.")], model_request(LOOK, tools=TOOLS))
    assert outcome.error.info == "bad_request"
    assert len(outcome.bodies) == 1


def tool(name):
    return FunctionSpec(name, f"Does {name}.", {"type": "object", "properties": {}})


TOOLS = (tool("first"), tool("second"), tool("third"))


@pytest.mark.parametrize(
    "words",
    [
        "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        "Invalid schema for tool 'second': no",
    ],
)
def test_a_thread_goes_on_without_a_tool_that_the_server_refuses(ask, words):
    refused = fault(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    request = model_request("go", tools=TOOLS)
    outcome = ask([refused, say("Fine."), say("Still.")], request, request)
    assert outcome.errors == [None, None]
    names = [[one["name"] for one in body["tools"]] for body in outcome.bodies]
    assert names == [["first", "second", "third"], ["first", "third"], ["first", "third"]]


@pytest.mark.parametrize("ids", [("c",) * 3, ("x" * 300, "x" * 301, "x" * 300), ("a|b", "a b", "ä"), ("a", "a_2", "a")])
def test_ids_of_calls_have_the_form_of_the_server_and_occur_once(ask, ids):
    items = [item for one in ids for item in (FunctionCall("f", "{}", one), FunctionCallOutput(one, "x"))]
    (body,) = ask([say("Yes.")], model_request("go", *items)).bodies
    blocks = [block for message in body["messages"] for block in message["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert calls == [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert len(set(calls)) == 3
    assert all(len(one) <= 64 for one in calls)


def whole(*content):
    """Return a message that came at once."""
    return {"type": "message", "id": "m", "role": "assistant", "content": list(content), "stop_reason": "end_turn"}


def streamed(block, *deltas):
    return (
        {"type": "message_start", "message": {"id": "m", "content": None, "usage": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
        {"type": "message_stop"},
    )


CALL = {"type": "tool_use", "id": "c1", "name": "f"}
FORMS = {
    "only deltas": [streamed({"type": "text", "text": ""}, {"type": "text_delta", "text": "THE ANSWER"})],
    "only at the end": [(whole({"type": "text", "text": "THE ANSWER"}),)],
    "call at the end": [(whole({**CALL, "input": {}}),)],
    "content null": [streamed({"type": "text", "text": None}, {"type": "text_delta", "text": "THE ANSWER"})],
    "arguments empty": [
        streamed(CALL),
        streamed({**CALL, "input": None}),
        streamed({**CALL, "input": {}}, {"type": "input_json_delta", "partial_json": ""}),
    ],
    "arguments object": [streamed({**CALL, "input": {}})],
}
"""The forms that this API has."""


@pytest.mark.parametrize("row", [row for row in ANSWERS if row.name in FORMS], ids=lambda row: row.name)
def test_an_answer_is_read_in_every_form(hear, row):
    for events in FORMS[row.name]:
        outcome = hear(*events)
        assert outcome.errors == [None], events
        if row.name.startswith(("call", "arguments")):
            assert [(item.name, item.arguments, item.call_id) for item in outcome.items] == [("f", "{}", "c1")], events
        else:
            assert ["".join(part.text for part in item.content) for item in outcome.items] == ["THE ANSWER"], events
