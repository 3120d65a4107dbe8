"""Items that a response has only at its end, names of limits, and requests after a server has refused images."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework import InputImage, InputText, Message, ModelError
from codex_framework.contract.protocol.items import FunctionCall, OutputText, Reasoning, UnknownItem, user_message
from codex_framework.contract.roles.models import ItemDone, Prompt
from codex_framework.testing import model_request
from codex_plugin_openai.events import whole_response
from codex_plugin_openai.late_items import late_events
from codex_plugin_openai.rate_limits import event_limits
from codex_plugin_openai.response_items import ResponseItems
from codex_plugin_openai.sendable import SendableItems

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}


def done(output: list[Any], finished: Any = ()) -> list[Any]:
    return [event.item for event in late_events(output, finished, (), ()) if isinstance(event, ItemDone)]


def test_calls_texts_and_reasoning_that_are_only_listed_at_the_end_count_once() -> None:
    empty = {"type": "message", "role": "assistant", "content": []}
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    items = done([CALL, CALL, empty, TEXT, reasoning, {"type": "web_search_call"}, None])
    assert [type(item) for item in items] == [FunctionCall, Message, Reasoning]
    assert not [item for item in items if isinstance(item, UnknownItem)]
    assert done([CALL, TEXT], (FunctionCall("f", "{}", "c1"), Message("assistant", (OutputText("hi"),)))) == []


def read(*events: dict[str, Any]) -> list[Any]:
    """Return the complete items of a response."""
    items = ResponseItems()
    return [event.item for event in items.read(map(json.dumps, events)) if isinstance(event, ItemDone)]


def added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item}


def ended(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"id": "r", "output": list(output), **fields}}


def finished(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item}


def texts(item: Any) -> list[str]:
    return [part.text for part in item.content]


def test_a_message_of_several_parts_has_all_of_them() -> None:
    def part(kind: str, index: int, **fields: str) -> dict[str, Any]:
        return {"type": f"response.output_text.{kind}", "item_id": "m", "content_index": index, **fields}

    (message,) = read(part("done", 1, text="two"), part("done", 0, text="one"), ended())
    assert texts(message) == ["one", "two"]
    (message,) = read(
        part("done", 0, text="one"), part("delta", 0, delta="one"), part("delta", 1, delta="two"), ended()
    )
    assert "".join(texts(message)) == "onetwo"


def test_inputs_of_calls_that_are_objects_become_json() -> None:
    function = {**CALL, "id": "f1", "arguments": ""}
    custom = {"type": "custom_tool_call", "id": "t1", "call_id": "c2", "name": "g", "input": ""}
    items = read(
        added(function),
        added(custom),
        {"type": "response.function_call_arguments.done", "item_id": "f1", "arguments": {"a": [True, None, "\u00e9"]}},
        {"type": "response.custom_tool_call_input.done", "item_id": "t1", "input": {"b": 1}},
        finished({**custom, "id": "t3", "call_id": "c3", "input": {"c": False}}),
        ended(),
    )
    assert [getattr(item, "arguments", None) or item.input for item in items] == [
        '{"c": false}',
        '{"a": [true, null, "\u00e9"]}',
        '{"b": 1}',
    ]


def test_a_message_that_is_complete_leaves_the_calls_and_messages_that_are_not() -> None:
    items = read(
        added({**CALL, "id": "f1", "arguments": ""}),
        {"type": "response.output_text.delta", "item_id": "m1", "delta": "first"},
        {"type": "response.function_call_arguments.done", "item_id": "f1", "arguments": "{}"},
        {"type": "response.output_text.delta", "item_id": "m2", "delta": "hi"},
        finished({**TEXT, "id": "m2"}),
        ended(),
    )
    assert [type(item) for item in items] == [Message, FunctionCall, Message]
    assert [texts(item) for item in items if isinstance(item, Message)] == [["hi"], ["first"]]


@pytest.mark.parametrize("item", [{**CALL, "id": "f1"}, CALL, {**TEXT, "id": "m1"}])
def test_an_event_that_is_repeated_completes_an_item_once(item: dict[str, Any]) -> None:
    assert len(read(finished(item), finished(item), ended(item))) == 1


def test_pieces_under_another_id_belong_to_the_message_that_follows_them() -> None:
    pieces = {"type": "response.output_text.delta", "item_id": "other", "delta": "hi [1]"}
    assert [texts(item) for item in read(pieces, finished({**TEXT, "id": "m1"}), ended())] == [["hi"]]


@pytest.mark.parametrize("other", [{"call_id": "c2"}, {"call_id": "c2", "id": "f2"}, {"id": "f1", "call_id": "c2"}])
def test_two_calls_with_the_same_arguments_are_two_calls(other: dict[str, str]) -> None:
    first, second = {**CALL, "id": "f1"}, {**CALL, **other}
    for events in (
        [ended(first, second)],
        [finished(first), ended(first, second)],
        [finished(first), ended(second, first)],
    ):
        assert [item.call_id for item in read(*events)] == ["c1", "c2"]


def test_an_item_that_is_only_at_the_end_is_found_among_as_many_complete_ones() -> None:
    assert [type(item) for item in read(finished({**TEXT, "id": "m1"}), ended({**CALL, "id": "f1"}))] == [
        Message,
        FunctionCall,
    ]


def test_ids_that_are_no_texts_do_no_harm() -> None:
    assert read(ended({**TEXT, "id": {}}, {**CALL, "call_id": ["c"]})) == []


SHELL = {"type": "local_shell_call", "id": "l1", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}}


@pytest.mark.parametrize("call", [SHELL, {**CALL, "id": "f1", "arguments": '{"a": 1}'}, {**TEXT, "id": "m1"}])
def test_an_item_that_has_other_ids_at_the_end_is_not_repeated(call: dict[str, Any]) -> None:
    last = {**call, "id": "other", **({"call_id": "c9"} if "call_id" in call else {})}
    assert len(read(finished(call), ended(last))) == 1
    assert len(read(finished(call), ended({**call, "id": "other"}))) == 1
    assert len(read(added({**call, "arguments": "", "content": []}), finished(call), ended(call, call))) == 1


def test_arguments_that_are_written_differently_at_the_end_are_the_same() -> None:
    first = {**CALL, "id": "f1", "arguments": '{"a": 1, "b": 2}'}
    assert len(read(finished(first), ended({**first, "id": "x", "call_id": "y", "arguments": {"b": 2, "a": 1}}))) == 1


def test_a_call_of_another_tool_with_the_same_arguments_is_another_call() -> None:
    spaced = {**CALL, "id": "f2", "call_id": "c2", "namespace": "n"}
    assert len(read(finished({**CALL, "id": "f1"}), ended(spaced))) == 2


@pytest.mark.parametrize(
    ("status", "slug"),
    [("failed", "stream-disconnected"), ("cancelled", "stream-disconnected"), ("incomplete", "incomplete")],
)
def test_a_response_that_is_not_complete_is_an_error_in_every_form(status: str, slug: str) -> None:
    response = {
        "id": "r",
        "status": status,
        "output": [TEXT],
        "incomplete_details": {"reason": "max_output_tokens"},
        "usage": {"input_tokens": 5},
    }
    for find in (
        lambda: whole_response([json.dumps(response)]),
        lambda: read({"type": "response.done", "response": response}),
    ):
        with pytest.raises(ModelError) as error:
            find()
        assert error.value.slug == slug
        assert error.value.usage is not None
        assert error.value.usage.input_tokens == 5


def test_a_response_of_a_server_without_a_status_is_complete() -> None:
    end = whole_response([json.dumps({"id": "r", "status": "completed", "output": [TEXT]})])
    assert end is not None
    assert whole_response([json.dumps({"id": "r", "output": [TEXT]})]) is not None


def test_ids_of_other_servers_are_left_out_of_what_follows_a_response_too() -> None:
    sendable = SendableItems(store=False)
    first = Message("user", (InputText("x"),), id="msg_1")
    assert [one["id"] for one in json.loads(sendable.encoded(model_request(first).prompt))] == ["msg_1"]
    items = [
        Message("user", (InputText(str(number)),), id=one)
        for number, one in enumerate(("msg_1", "msg_2", "msg_2", "chatcmpl-1", "msg_" + "x" * 70, "msg_a|b"))
    ]
    for _ in range(2):
        assert [one.get("id") for one in json.loads(sendable.alone(items))] == [None, "msg_2", None, None, None, None]
    grown = json.loads(sendable.encoded(model_request(first, *items).prompt))
    assert [one.get("id") for one in grown] == ["msg_1", None, "msg_2", None, None, None, None]


@pytest.mark.parametrize(("named", "limit"), [("other", "other"), (None, "codex"), ("", "codex")])
def test_limits_have_the_name_that_the_server_gives_them(named: str | None, limit: str) -> None:
    found = event_limits({"metered_limit_name": named, "rate_limits": {"primary": {"used_percent": 5}}})
    assert found is not None
    assert found.snapshot["limit_id"] == limit


def test_images_are_left_out_of_all_items_once_the_server_refuses_them() -> None:
    sendable = SendableItems(store=False)
    image = Message("user", (InputText("see"), InputImage("data:image/png;base64,AAAA")))
    prompts = [model_request(*items).prompt for items in ((image,), (image, user_message("more")))]

    def kinds(prompt: Prompt, *, images: bool) -> list[str]:
        return [
            part["type"] for item in json.loads(sendable.encoded(prompt, images=images)) for part in item["content"]
        ]

    assert kinds(prompts[0], images=True) == ["input_text", "input_image"]
    assert "input_image" not in kinds(prompts[1], images=False)
    assert kinds(prompts[1], images=True) == ["input_text", "input_image", "input_text"]
