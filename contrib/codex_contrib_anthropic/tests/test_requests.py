"""The bodies and headers of requests."""

from __future__ import annotations

import json
import sys

import pytest

from codex_contrib_anthropic.body import BodyWriter
from codex_contrib_anthropic.options import MessagesOptions
from codex_framework import (
    FreeformFormat,
    FreeformSpec,
    FunctionCall,
    FunctionSpec,
    InputImage,
    InputText,
    Message,
    ModelInfo,
    OutputText,
)
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    Reasoning,
    UnknownItem,
    user_message,
)
from codex_framework.contract.roles.models import LeftOut
from codex_framework.testing import fault, model_request, say

MARK = {"cache_control": {"type": "ephemeral"}}
SONNET = ModelInfo(slug="claude-sonnet-4-5", default_effort=None)
LOOK = FunctionSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
WRITE = FreeformSpec("write", "Writes.", FreeformFormat("lark", 'start: "x"'))
SUMMARIZED = {"type": "adaptive", "display": "summarized"}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PIXEL = f"data:image/png;base64,{PNG}"


def thought(text, signature, response="msg_1"):
    mark = {"provider_private": {"api": "messages", "response": response, "signature": signature}}
    return Reasoning("rs_1", ({"type": "summary_text", "text": text},), extra=mark)


def body_of(ask, *items, **changes):
    table = changes.pop("table", {})
    outcome = ask([say("Yes.")], model_request(*items, **changes), **table)
    assert outcome.errors == [None]
    return outcome.bodies[0]


def test_a_small_request(ask):
    outcome = ask(
        [say("Yes.")], model_request("Hello?", model=SONNET), env={"KEY": "k-1"}, env_key="KEY", betas=["a", "b"]
    )
    assert outcome.bodies == [
        {
            "model": "claude-sonnet-4-5",
            "system": [{"type": "text", "text": "Be brief.", **MARK}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello?", **MARK}]}],
            "stream": True,
            "max_tokens": 32_000,
            "thinking": {"type": "enabled", "budget_tokens": 10_000},
        }
    ]
    headers = outcome.headers[0]
    assert (headers["x-api-key"], headers["anthropic-version"], headers["anthropic-beta"]) == (
        "k-1",
        "2023-06-01",
        "a,b",
    )
    assert "authorization" not in headers
    assert not [name for name in headers if name.startswith("x-codex") or name in ("session-id", "thread-id")]


def test_a_large_window_leaves_room_for_thoughts(ask):
    lengths = [
        body_of(ask, model=ModelInfo(slug=slug, default_effort=None))["max_tokens"]
        for slug in ("claude-3-haiku-20240307", "claude-opus-4-5-20251101", "claude-opus-4-6", "claude-fable-5-1", "x")
    ]
    assert lengths == [4_096, 32_000, 64_000, 64_000, 8_192]


@pytest.mark.parametrize("where", ["head", "stream"])
def test_a_key_that_the_server_repeats_is_not_shown(ask, where):
    message = "invalid x-api-key: sk-ant-secret-0123456789"
    reply = fault(401, body={"error": {"type": "authentication_error", "message": message}})
    if where == "stream":
        reply = say("Hal") + fault(failed={"code": "authentication_error", "message": message})
    error = ask([reply], env={"KEY": "sk-ant-secret-0123456789"}, env_key="KEY").error
    assert "refuses the key" in str(error)
    assert "sk-ant-secret" not in f"{error} {error.hint}"


def test_a_token_for_a_gateway_is_a_bearer_token(ask):
    outcome = ask([say("Yes.")], experimental_bearer_token="t-1")
    assert outcome.headers[0]["authorization"] == "Bearer t-1"
    assert "x-api-key" not in outcome.headers[0]


def test_calls_are_directly_followed_by_their_outputs_in_their_order(ask):
    body = body_of(
        ask,
        "Look.",
        thought("Hm.", "s-1"),
        Message("assistant", (OutputText("I look."),)),
        FunctionCall("look", '{"at": "a"}', "call.1"),
        CustomToolCall("write", "x", "call-2"),
        LocalShellCall({"type": "exec", "command": ["ls"]}, "call-3"),
        CustomToolCallOutput("call-2", (InputText("done"), InputImage(PIXEL))),
        user_message("Hurry!"),
        FunctionCallOutput("call-3", ""),
        FunctionCallOutput("call.1", "nothing"),
        model=SONNET,
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s-1"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "a"}},
                {"type": "tool_use", "id": "call-2", "name": "write", "input": {"input": "x"}},
                {"type": "tool_use", "id": "call-3", "name": "local_shell", "input": {"command": ["ls"]}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "nothing"},
                {
                    "type": "tool_result",
                    "tool_use_id": "call-2",
                    "content": [
                        {"type": "text", "text": "done"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                        },
                    ],
                },
                {"type": "tool_result", "tool_use_id": "call-3", "content": "(no output)"},
                {"type": "text", "text": "Hurry!", **MARK},
            ],
        },
    ]
    assert body["thinking"]["type"] == "enabled"


def test_ids_of_calls_are_unique_in_the_whole_conversation(ask):
    said = Message("assistant", (OutputText("Done."),))
    first = ["call.1", "call_1", "call_1", "call_1_2", "call:1"]
    later = ["call_1", "other"]
    body = body_of(
        ask,
        "Look.",
        *[FunctionCall("look", "{}", call_id) for call_id in first],
        *[FunctionCallOutput(call_id, f"{call_id} {place}") for place, call_id in reversed(list(enumerate(first)))],
        said,
        "Again.",
        *[FunctionCall("look", "{}", call_id) for call_id in later],
        *[FunctionCallOutput(call_id, f"later {call_id}") for call_id in later],
    )
    blocks = [block for message in body["messages"] for block in message["content"]]
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}
    assert len(set(uses)) == len(uses) == len(first) + len(later)
    assert set(results) == set(uses)
    assert [results[name].split()[0] for name in uses] == [*first, "later", "later"]


@pytest.mark.parametrize("arguments", ['{"a": NaN}', '{"a": [-Infinity]}', '{"a": Infinity}'])
def test_numbers_that_json_does_not_have_leave_the_body_valid(ask, arguments):
    shell = LocalShellCall({"type": "exec", "command": ["ls"], "timeout_ms": float("nan")}, "call-2")
    outputs = [FunctionCallOutput("call-1", "Wrong."), FunctionCallOutput("call-2", "")]
    body = body_of(ask, "Look.", FunctionCall("look", arguments, "call-1"), shell, *outputs)
    first, second = (block["input"] for block in body["messages"][1]["content"])
    assert first == {"invalid_arguments": arguments}
    assert second == {"invalid_arguments": '{"command":["ls"],"timeout_ms":NaN}'}


def test_developer_messages_are_part_of_the_system_prompt_at_the_beginning_only(ask):
    lead, later = (user_message(text, role="developer") for text in ("Lead.", "Later."))
    body = body_of(ask, lead, "Hi.", Message("assistant", (OutputText("Yes?"),)), later, "Go.")
    assert [block["text"] for block in body["system"]] == ["Be brief.", "Lead."]
    assert [block["text"] for block in body["messages"][-1]["content"]] == [
        "<developer_message>\nLater.\n</developer_message>",
        "Go.",
    ]


def test_roles_alternate_and_blank_texts_are_left_out(ask):
    blank = Message("assistant", (OutputText("  "),))
    body = body_of(ask, Message("assistant", (OutputText("Hi."),)), "One.", "\n", "Two.", blank, "Three.")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [block["text"] for block in body["messages"][-1]["content"]] == ["One.", "Two.", "Three."]


def test_foreign_reasoning_and_items_of_servers_are_left_out(ask):
    foreign = Reasoning("rs_9", ({"type": "summary_text", "text": "secret plan"},), None, "gAAAA-encrypted")
    search = UnknownItem({"type": "web_search_call", "id": "ws_1", "status": "completed"})
    body = json.dumps(body_of(ask, "Hi.", foreign, search, Message("assistant", (OutputText("Yes?"),)), "Go."))
    assert "secret plan" not in body
    assert "gAAAA" not in body
    assert "web_search" not in body


def test_no_thinking_is_requested_while_calls_of_another_model_are_answered(ask):
    call, output = FunctionCall("look", "{}", "call-1"), FunctionCallOutput("call-1", "nothing")
    assert "thinking" not in body_of(ask, "Look.", call, output, model=SONNET)
    assert "thinking" in body_of(
        ask, "Look.", call, output, Message("assistant", (OutputText("Done."),)), "Go.", model=SONNET
    )


def test_a_loop_that_began_with_a_thought_keeps_thinking_when_a_later_call_has_none(ask):
    loop = []
    for number in range(6):
        loop += [FunctionCall("look", "{}", f"call-{number}"), FunctionCallOutput(f"call-{number}", "nothing")]
    began = thought("Hm.", "s-1")
    assert body_of(ask, "Look.", began, *loop, model=SONNET)["thinking"]["type"] == "enabled"
    assert "thinking" not in body_of(ask, "Look.", *loop[:2], began, *loop[2:], model=SONNET)
    adaptive = ModelInfo(slug="claude-opus-4-6", default_effort=None)
    assert body_of(ask, "Look.", *loop, model=adaptive)["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize("last", [[], [thought("Then?", "s-2")]], ids=["words", "a thought"])
def test_a_conversation_never_ends_with_words_or_thoughts_of_the_model(ask, last):
    said = [thought("Hm.", "s-1"), Message("assistant", (OutputText("Half "),))]
    messages = body_of(ask, "Go.", *said, *last, model=SONNET)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "text"]
    assert messages[2]["content"] == [{"type": "text", "text": "Continue.", **MARK}]


def test_a_message_of_thoughts_alone_is_left_out(ask):
    messages = body_of(ask, "Go.", thought("Hm.", "s-1"), "Well?", model=SONNET)["messages"]
    assert [(message["role"], [block["text"] for block in message["content"]]) for message in messages] == [
        ("user", ["Go.", "Well?"])
    ]


def test_thoughts_of_interleaved_thinking_stay_where_they_were(ask):
    items = ["Look."]
    for number in range(3):
        items += [thought(f"T{number}", f"s-{number}", f"msg_{number}"), FunctionCall("look", "{}", f"c{number}")]
        items += [FunctionCallOutput(f"c{number}", "seen")]
    messages = body_of(ask, *items, model=SONNET)["messages"]
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    assert [[block.get("signature") or block["id"] for block in blocks] for blocks in said] == [
        ["s-0", "c0"],
        ["s-1", "c1"],
        ["s-2", "c2"],
    ]


def test_a_thought_whose_text_was_omitted_goes_back_with_its_signature(ask):
    mark = {"provider_private": {"api": "messages", "response": "msg_1", "signature": "s-1"}}
    body = body_of(ask, "Hi.", Reasoning("rs_1", (), extra=mark), Message("assistant", (OutputText("Yes?"),)), "Go.")
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "", "signature": "s-1"}


REFUSALS = [
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "messages.5.content.0: Invalid `signature` in `redacted_thinking` block. The block is bound to a different conversation.",
    "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
]


@pytest.mark.parametrize("words", REFUSALS)
def test_thoughts_that_the_server_refuses_are_left_out_from_then_on(ask, words):
    refused = fault(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    call, output = FunctionCall("look", "{}", "call-1"), FunctionCallOutput("call-1", "nothing")
    items = [user_message("Look."), thought("Hm.", "s-1"), call, output]
    more = [*items, thought("New.", "s-2", "msg_2"), Message("assistant", (OutputText("Seen."),)), user_message("Go.")]
    model = ModelInfo(slug="claude-opus-5-5", default_effort=None)
    outcome = ask(
        [refused, say("Yes."), say("Yes.")], model_request(*items, model=model), model_request(*more, model=model)
    )
    assert outcome.errors == [None, None]
    kinds = [[block["type"] for block in body["messages"][1]["content"]] for body in outcome.bodies]
    assert kinds == [["thinking", "tool_use"], ["tool_use"], ["tool_use"]]
    assert outcome.bodies[2]["messages"][3]["content"][0]["signature"] == "s-2"
    losses = [event for event in outcome.answers[0] if isinstance(event, LeftOut)]
    assert losses == [LeftOut("reasoning", 1, "the server refuses its signatures")]


def test_a_refusal_of_thoughts_without_any_is_an_error(ask):
    refused = fault(400, body={"error": {"type": "invalid_request_error", "message": REFUSALS[0]}})
    outcome = ask([refused])
    assert str(outcome.error) == REFUSALS[0]
    assert len(outcome.bodies) == 1


def test_thoughts_of_a_response_that_broke_off_are_left_out(ask):
    body = body_of(
        ask,
        "Hi.",
        thought("First.", "s-1", "msg_1"),
        thought("Second.", "s-2", "msg_2"),
        Message("assistant", (OutputText("Yes?"),)),
        "Go.",
    )
    assert [block.get("thinking") for block in body["messages"][1]["content"]] == ["Second.", None]


def test_encrypted_thoughts_go_back_as_they_came(ask):
    mark = {"provider_private": {"api": "messages", "response": "msg_1", "redacted": "xyz"}}
    body = body_of(ask, "Hi.", Reasoning("rs_1", (), extra=mark), Message("assistant", (OutputText("Yes?"),)), "Go.")
    assert body["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "xyz"}


def test_images_for_a_model_that_takes_none_become_notes(ask):
    message = Message("user", (InputText("See:"), InputImage(PIXEL)))
    (block, note) = body_of(ask, message, table={"input_modalities": ["text"]})["messages"][0]["content"]
    assert block["text"] == "See:"
    assert "takes no images" in note["text"]


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://example.com/a.png", {"type": "url", "url": "https://example.com/a.png"}),
        (
            f"data:image/JPG;charset=utf-8;base64,{PNG}",
            {"type": "base64", "media_type": "image/png", "data": PNG},
        ),
        ("data:image/bmp;base64,AAAA", None),
        ("http://example.com/a.png", None),
        ("file:///a.png", None),
    ],
)
def test_images_by_url_and_of_other_formats(ask, url, source):
    (block,) = body_of(ask, Message("user", (InputImage(url),)))["messages"][0]["content"]
    if source is None:
        assert "format is unsupported" in block["text"]
    else:
        assert block["source"] == source


@pytest.mark.parametrize(
    ("model", "effort", "table", "thinking", "output"),
    [
        ("claude-3-5-haiku-latest", "high", {}, None, None),
        ("claude-opus-4-1", "low", {}, {"type": "enabled", "budget_tokens": 4_096}, None),
        ("claude-opus-4-1", "none", {}, None, None),
        ("claude-opus-4-1", "high", {"max_tokens": 8_000}, {"type": "enabled", "budget_tokens": 6_000}, None),
        ("claude-opus-4-1", "max", {}, {"type": "enabled", "budget_tokens": 24_000}, None),
        ("claude-opus-4-1", "high", {"max_tokens": 1_000}, None, None),
        ("claude-opus-4-1", "high", {"thinking_budget": 2_000}, {"type": "enabled", "budget_tokens": 2_000}, None),
        ("claude-opus-4-6", "xhigh", {}, {"type": "adaptive"}, {"effort": "high"}),
        ("claude-opus-4-6", "max", {}, {"type": "adaptive"}, {"effort": "max"}),
        ("claude-opus-4-6", "none", {}, None, None),
        ("claude-opus-4-7", None, {}, SUMMARIZED, None),
        ("claude-opus-4-8", "xhigh", {}, SUMMARIZED, {"effort": "xhigh"}),
        ("claude-opus-4-8", "none", {}, None, None),
        ("claude-opus-5", "none", {}, {"type": "disabled"}, None),
        ("claude-sonnet-5", "none", {}, {"type": "disabled"}, None),
        ("claude-sonnet-5-5", "none", {}, {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "none", {}, {"type": "disabled"}, None),
        ("claude-opus-5-5", "none", {}, SUMMARIZED, {"effort": "low"}),
        ("claude-opus-5-5", "high", {"thinking": "none"}, SUMMARIZED, {"effort": "low"}),
        ("claude-fable-5-1", "ultra", {}, SUMMARIZED, {"effort": "max"}),
        ("claude-fable-5", "minimal", {}, SUMMARIZED, {"effort": "low"}),
        ("claude-fable-5-2", "none", {}, SUMMARIZED, {"effort": "low"}),
        ("claude-mythos-preview", "xhigh", {}, SUMMARIZED, {"effort": "high"}),
        ("claude-sonnet-5", "unheard-of", {}, SUMMARIZED, None),
        ("unknown", "high", {}, None, None),
        ("unknown", "high", {"thinking": "adaptive"}, {"type": "adaptive"}, {"effort": "high"}),
        ("claude-opus-4-6", "high", {"thinking": "none"}, None, None),
    ],
)
def test_how_long_the_model_thinks(ask, model, effort, table, thinking, output):
    info = ModelInfo(slug=model, default_effort=None)
    body = body_of(ask, model=info, reasoning_effort=effort, table=table)
    assert (body.get("thinking"), body.get("output_config")) == (thinking, output)


def test_a_schema_is_sent_as_such_or_as_words(ask):
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert body_of(ask, model=SONNET, output_schema=schema)["output_config"]["format"] == {
        "type": "json_schema",
        "schema": schema,
    }
    body = body_of(ask, output_schema=schema)
    assert "output_config" not in body
    assert '"additionalProperties":false' in body["system"][-1]["text"]


def test_fields_are_added_and_left_out(ask):
    table = {"request_fields": {"temperature": 0.5}, "omit_fields": ["thinking"], "cache": "none", "max_tokens": 9}
    body = body_of(ask, model=SONNET, table=table)
    assert (body["temperature"], body["max_tokens"], "thinking" in body) == (0.5, 9, False)
    assert "cache_control" not in json.dumps(body)


def test_a_growing_conversation_is_the_same_as_one_that_is_sent_at_once(ask):
    items = [user_message("Go.", role="developer"), user_message("Hi.")]
    for number in range(12):
        items.append(thought(f"T{number}", f"s-{number}", f"msg_{number}"))
        items.append(FunctionCall("look", json.dumps({"at": number}), f"call-{number}"))
        items.append(FunctionCallOutput(f"call-{number}", f"seen {number}"))
        if number % 3 == 0:
            items.append(user_message(f"More {number}."))
    lengths = [2, *range(5, len(items) + 1)]
    requests = [model_request(*items[:length], model=SONNET) for length in lengths]
    back = model_request(*items[:7], "Another way.", model=SONNET)
    grown = ask([say("Yes.")] * (len(requests) + 1), *requests, back).bodies
    for request, body in zip((*requests, back), grown, strict=True):
        assert ask([say("Yes.")], request).bodies == [body]
    marks = json.dumps(grown[-2]["messages"]).count("cache_control")
    assert (marks, "cache_control" in grown[-2]["messages"][-1]["content"][-1]) == (2, True)


def calls_of(work):
    """Return how many Python functions some work calls, which does not depend on the machine."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_for_a_turn_does_not_grow_with_the_conversation():
    writer = BodyWriter(MessagesOptions())
    items, work = [], []
    for number in range(1000):
        items += [user_message(f"turn {number}"), thought("Hm.", "s", f"msg_{number}")]
        items += [FunctionCall("look", "{}", f"c{number}"), FunctionCallOutput(f"c{number}", "seen")]
        request = model_request(*items, model=SONNET)
        work.append(calls_of(lambda request=request: (writer.body(request), writer.losses(request))))
    assert work[999] <= 1.1 * work[10]
