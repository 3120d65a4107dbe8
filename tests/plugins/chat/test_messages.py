"""What a request says: the conversation as messages, tools as functions, and the settings of the turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework import (
    FreeformFormat,
    FreeformSpec,
    FunctionCall,
    FunctionSpec,
    InputImage,
    InputText,
    Message,
    ModelInfo,
    NativeSpec,
    OutputText,
)
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    Reasoning,
    UnknownContent,
    UnknownItem,
    user_message,
)
from codex_framework.testing.requests import model_request
from codex_lib_model_client.private_data import marked
from codex_plugin_chat.body import BodyWriter
from codex_plugin_chat.options import ChatOptions

PNG = "data:image/png;base64,AAAA"
PLAIN = ModelInfo(slug="test-model", reasoning=False)


def body(*items: Any, options: ChatOptions | None = None, is_openai: bool = False, **changes: Any) -> dict[str, Any]:
    request = model_request(*items, **{"model": PLAIN, **changes})
    sent: dict[str, Any] = json.loads(BodyWriter(options or ChatOptions(), is_openai=is_openai).body(request))
    return sent


def messages(*items: Any, **changes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(*items, **changes)["messages"]
    assert found.pop(0)["role"] == "system"
    return found


def assistant(text: str) -> Message:
    return Message("assistant", (OutputText(text),))


def thought(text: str, **mark: Any) -> Reasoning:
    return Reasoning("rs_1", (), ({"type": "reasoning_text", "text": text},), None, marked("chat", mark))


def test_a_plain_request_has_these_fields_and_no_others() -> None:
    assert body("hi") == {
        "model": "test-model",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_developer_messages_at_the_beginning_are_part_of_the_first_message() -> None:
    sent = body(user_message("one", role="developer"), user_message("two", role="developer"), "hi")
    assert [one["content"] for one in sent["messages"]] == ["Be brief.\n\none\n\ntwo", "hi"]


@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_developer_messages_have_the_role_that_the_server_knows(role: str) -> None:
    first, later = user_message("first", role="developer"), user_message("later", role="developer")
    sent = body(first, "hi", later, options=ChatOptions(developer_role=role))["messages"]
    found = [(one["role"], one["content"]) for one in sent]
    if role == "system":
        assert found == [("system", "Be brief.\n\nfirst"), ("user", "hi"), ("system", "later")]
    else:
        start = "developer" if role == "developer" else "system"
        assert found == [(start, "Be brief."), (role, "first"), ("user", "hi"), (role, "later")]


def test_without_instructions_there_is_no_empty_message() -> None:
    assert body("hi", instructions="")["messages"] == [{"role": "user", "content": "hi"}]


def test_what_the_model_said_at_once_is_one_message_followed_by_the_outputs_in_order() -> None:
    sent = messages(
        "go",
        assistant("I look."),
        FunctionCall("f", '{"a":1}', "c1"),
        CustomToolCall("apply_patch", "text\n", "c2"),
        LocalShellCall({"type": "exec", "command": ["ls"], "timeout_ms": None}, "c3"),
        CustomToolCallOutput("c2", "second"),
        FunctionCallOutput("c3", "third"),
        FunctionCallOutput("c1", "first"),
        assistant("Done."),
    )
    calls = [
        ("c1", "f", '{"a":1}'),
        ("c2", "apply_patch", '{"input":"text\\n"}'),
        ("c3", "local_shell", '{"command":["ls"]}'),
    ]
    assert sent == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
                for call_id, name, text in calls
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
        {"role": "tool", "tool_call_id": "c2", "content": "second"},
        {"role": "tool", "tool_call_id": "c3", "content": "third"},
        {"role": "assistant", "content": "Done."},
    ]


def test_calls_without_text_have_no_content() -> None:
    sent = messages("go", FunctionCall("f", "{}", "c1"), FunctionCallOutput("c1", ""))
    assert sent[1]["content"] is None
    assert sent[2]["content"] == "(no output)"


def test_calls_one_after_the_other_are_messages_of_their_own() -> None:
    pairs = [(FunctionCall("f", "{}", f"c{n}"), FunctionCallOutput(f"c{n}", str(n))) for n in (1, 2)]
    sent = messages("go", *pairs[0], *pairs[1])
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "assistant", "tool"]


def test_nothing_stands_between_a_call_and_its_output() -> None:
    sent = messages("go", FunctionCall("f", "{}", "c1"), "and by the way", FunctionCallOutput("c1", "x"))
    assert [(one["role"], one["content"]) for one in sent[1:]] == [
        ("assistant", None),
        ("tool", "x"),
        ("user", "and by the way"),
    ]


def test_calls_with_one_id_are_told_apart() -> None:
    calls = [FunctionCall("f", '{"a":1}', "c"), FunctionCall("f", '{"a":2}', "c")]
    sent = messages("go", *calls, FunctionCallOutput("c", "1"), FunctionCallOutput("c", "2"))
    assert [one["id"] for one in sent[1]["tool_calls"]] == ["c", "c_2"]
    assert [(one["tool_call_id"], one["content"]) for one in sent[2:]] == [("c", "1"), ("c_2", "2")]


@pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", '"x"', "7", "nonsense"])
def test_arguments_of_old_calls_are_always_an_object(arguments: str) -> None:
    sent = messages("go", FunctionCall("f", arguments, "c1"), FunctionCallOutput("c1", "no"))
    text = sent[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(text) == {"invalid_arguments": arguments}


def test_a_repeated_message_of_the_model_is_sent_once() -> None:
    sent = messages("go", assistant("Same."), assistant("Same."), assistant("Other."), "on")
    assert sent[1] == {"role": "assistant", "content": "Same.\n\nOther."}


def test_items_that_only_another_api_knows_are_left_out() -> None:
    search = UnknownItem({"type": "web_search_call", "id": "ws1"})
    foreign = Reasoning("rs_9", ({"type": "summary_text", "text": "s"},), None, "sealed")
    empty = Message("assistant", (OutputText(""),))
    sent = messages("go", search, foreign, assistant("Found."), search, empty, "on")
    assert [one["content"] for one in sent] == ["go", "Found.", "on"]
    assert set(sent[1]) == {"role", "content"}


def test_images_of_the_user_are_parts_of_the_message() -> None:
    content = (InputText("look"), InputImage(PNG, "original"), InputImage(PNG, "low"), InputImage(PNG))
    assert messages(Message("user", content))[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": PNG}},
    ]


def test_images_of_tools_move_to_a_message_of_the_user_behind_all_outputs() -> None:
    output = FunctionCallOutput("c1", (InputText("seen"), InputImage(PNG)))
    calls = [FunctionCall("view", "{}", "c1"), FunctionCall("f", "{}", "c2")]
    sent = messages("go", *calls, output, FunctionCallOutput("c2", "x"), assistant("A cat."))
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert sent[2]["content"] == "seen\n[The image follows in the next message of the user.]"
    assert sent[4]["content"][1] == {"type": "image_url", "image_url": {"url": PNG}}


def test_a_model_that_reads_only_text_gets_a_note_for_each_image() -> None:
    model = ModelInfo(slug="test-model", reasoning=False, supports_images=False)
    output = FunctionCallOutput("c1", (InputImage(PNG),))
    user = Message("user", (InputText("look"), InputImage(PNG)))
    sent = messages(user, FunctionCall("view", "{}", "c1"), output, model=model)
    note = "[An image was here. It was left out because this model takes no images.]"
    assert [one["content"] for one in sent] == [f"look\n{note}", None, note]
    assert PNG not in json.dumps(sent)


def test_other_content_is_text_or_a_note() -> None:
    refusal = UnknownContent({"type": "refusal", "refusal": "No."})
    file = UnknownContent({"type": "input_file", "file_data": "..."})
    sent = messages(Message("user", (file,)), Message("assistant", (refusal,)))
    assert [one["content"] for one in sent] == ["[Left out: input_file]", "No."]


@pytest.mark.parametrize(
    ("mark", "sent"),
    [
        ({"field": "reasoning"}, {"reasoning": "why"}),
        ({"field": "reasoning_content"}, {"reasoning_content": "why"}),
        (
            {"field": "reasoning", "object": {"signature": "s"}, "text_key": "content"},
            {"reasoning": {"signature": "s", "content": "why"}},
        ),
        (
            {"field": "reasoning", "details": [{"type": "reasoning.encrypted", "data": "e"}]},
            {"reasoning": "why", "reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}]},
        ),
        ({}, {}),
    ],
)
def test_reasoning_goes_back_as_it_came(mark: dict[str, Any], sent: dict[str, Any]) -> None:
    items = [thought("why", **mark), FunctionCall("f", "{}", "c1"), FunctionCallOutput("c1", "x")]
    found = messages("go", *items)[1]
    assert {key: found[key] for key in found if key.startswith("reasoning")} == sent


@pytest.mark.parametrize(
    ("mode", "kept"), [("turn", [None, "second"]), ("all", ["first", "second"]), ("none", [None, None])]
)
def test_reasoning_of_earlier_turns_is_sent_only_on_request(mode: str, kept: list[str | None]) -> None:
    items = [
        *("one", thought("first", field="reasoning"), assistant("1"), "two"),
        *(thought("second", field="reasoning"), FunctionCall("f", "{}", "c1"), FunctionCallOutput("c1", "x")),
    ]
    sent = messages(*items, options=ChatOptions(send_reasoning=mode))
    assert [one.get("reasoning") for one in sent if one["role"] == "assistant"] == kept


def test_tools_are_functions() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = (
        FunctionSpec("f", "Does f.", parameters),
        FunctionSpec("s.t", "Strict.", parameters, strict=True),
        FreeformSpec("apply_patch", "Writes.", FreeformFormat("lark", "start: /x/")),
        NativeSpec("local_shell", "local_shell"),
        NativeSpec("web_search", "web_search"),
    )
    sent = body("hi", tools=tools)
    functions = [one["function"] for one in sent["tools"]]
    assert {one["type"] for one in sent["tools"]} == {"function"}
    assert functions[0] == {"name": "f", "description": "Does f.", "parameters": parameters}
    assert functions[1] == {"name": "s_t", "description": "Strict.", "parameters": parameters, "strict": True}
    assert functions[2]["name"] == "apply_patch"
    assert functions[2]["description"].endswith("follows this lark grammar:\nstart: /x/")
    assert functions[2]["parameters"]["required"] == ["input"]
    assert [one["name"] for one in functions[3:]] == ["local_shell"]
    assert (sent["tool_choice"], "parallel_tool_calls" in sent) == ("auto", False)


def test_fields_about_tools_are_sent_only_with_tools() -> None:
    one = FunctionSpec("f", "", {"type": "object", "properties": {}})
    assert body("hi", tools=(one,), parallel_tool_calls=False)["parallel_tool_calls"] is False
    without = body("hi", tools=(NativeSpec("web_search", "web_search"),), parallel_tool_calls=False)
    assert {"tools", "tool_choice", "parallel_tool_calls"} & set(without) == set()


def test_the_settings_of_the_turn_are_sent() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    sent = body(
        "hi",
        model=ModelInfo(slug="m"),
        reasoning_effort="high",
        verbosity="low",
        service_tier="priority",
        output_schema=schema,
        is_openai=True,
    )
    assert {key: sent[key] for key in ("reasoning_effort", "verbosity", "service_tier", "prompt_cache_key")} == {
        "reasoning_effort": "high",
        "verbosity": "low",
        "service_tier": "priority",
        "prompt_cache_key": "thread-1",
    }
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "codex_output_schema", "schema": schema, "strict": True},
    }


def test_a_table_may_add_and_omit_fields() -> None:
    options = ChatOptions(
        request_fields={"temperature": 0.2, "provider": {"sort": "price"}}, omit_fields=("stream_options",)
    )
    sent = body("hi", options=options)
    assert (sent["temperature"], sent["provider"], "stream_options" in sent) == (0.2, {"sort": "price"}, False)


def test_text_that_is_no_unicode_is_still_sent() -> None:
    sent = body("lone \ud83d surrogate", instructions="and \udc00 here")["messages"]
    assert [one["content"] for one in sent] == ["and ? here", "lone ? surrogate"]
