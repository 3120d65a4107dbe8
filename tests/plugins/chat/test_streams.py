"""What a response says, in all the forms in which servers write it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import Completed, ItemAdded, ItemDone, Message, OutputText, TextDelta
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import FunctionCall, Reasoning, message_text
from codex_framework.contract.roles.models import ReasoningDelta
from codex_framework.testing.chat_wire import chat_completion
from codex_framework.testing.replies import call, fault, reasoning, say
from codex_framework.testing.requests import model_request
from codex_lib_model_client.private_data import private_data
from codex_lib_model_client.splitter import BodySplitter
from tests.plugins.chat.conftest import delta

Ask = Callable[..., Any]

USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
DONE = "[DONE]"


def said(outcome: Any) -> str:
    return "".join(message_text(item) for item in outcome.items if isinstance(item, Message))


def test_a_message_comes_in_pieces_and_then_whole(ask: Ask) -> None:
    added, first, second, done, completed = ask([say("hé🦀o", deltas=2)]).events
    item_id = added.item.id
    assert item_id.startswith("msg_")
    assert (added, first, second) == (
        ItemAdded(Message("assistant", (), id=item_id)),
        TextDelta(item_id, "hé"),
        TextDelta(item_id, "🦀o"),
    )
    assert done == ItemDone(Message("assistant", (OutputText("hé🦀o"),), id=item_id))
    assert completed == Completed("chatcmpl-1", TokenUsage(100, 10, 20, 5, 120))


def test_a_character_that_is_cut_in_two_is_put_together(hear: Ask) -> None:
    arguments = [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a": "\ud83e'}}]
    rest = [{"index": 0, "function": {"arguments": '\udd80"}'}}]
    texts = [delta(content="a\ud83e"), delta(content="\udd80b")]
    calls = [delta(tool_calls=arguments), delta(tool_calls=rest)]
    outcome = hear(*texts, *calls, delta("stop"), DONE)
    assert said(outcome) == "a🦀b"
    (one,) = [item for item in outcome.items if isinstance(item, FunctionCall)]
    assert json.loads(one.arguments) == {"a": "🦀"}
    assert said(hear(delta(content="é\ud83e"), delta("stop"), DONE)) == "é\ud83e", "one half stays as it is"


def test_reasoning_then_text_then_calls(ask: Ask) -> None:
    outcome = ask([reasoning("think", deltas=2) + say("Now.") + call("f", a=1) + call("g", b=2)])
    kinds = [type(event).__name__ for event in outcome.events]
    assert kinds == [
        *("ItemAdded", "ReasoningDelta", "ReasoningDelta", "ItemDone"),
        *("ItemAdded", "TextDelta", "TextDelta", "ItemDone"),
        *("ItemAdded", "ItemDone", "ItemAdded", "ItemDone", "Completed"),
    ]
    thought, message, *calls = outcome.items
    assert thought.content == ({"type": "reasoning_text", "text": "think"},)
    assert message_text(message) == "Now."
    assert [(one.name, one.arguments) for one in calls] == [("f", '{"a": 1}'), ("g", '{"b": 2}')]


def test_one_connection_serves_all_requests_of_a_thread(ask: Ask) -> None:
    outcome = ask([call("f") for _ in range(20)], *[model_request(str(n)) for n in range(20)])
    assert outcome.server.connections == 1


def test_a_request_after_a_cut_takes_a_new_connection(ask: Ask) -> None:
    outcome = ask([say("a") + fault(after=2), say("b")], model_request(), model_request())
    assert outcome.errors[0].retryable
    assert outcome.errors[1] is None
    assert outcome.server.connections == 2


@pytest.mark.parametrize(
    "events",
    [
        [delta(content="ab"), delta("stop"), USAGE, DONE],
        [delta(content="ab"), delta("stop"), DONE],
        [delta(content="ab"), delta("stop"), USAGE],
        [delta(content="ab"), delta("stop")],
        [delta(content="ab"), {**delta("stop"), "usage": USAGE["usage"]}],
        [delta(content="ab"), DONE],
        [delta("stop", content="ab")],
        [{**delta(content="a"), "usage": None}, delta(content="b"), delta("end_turn"), DONE],
        [delta(content="a"), delta(content="b"), delta("stop"), b"data: {broken\n\n", DONE],
        [delta(content="a"), delta(content="b"), delta("stop"), {"error": {"message": "too late"}}],
        [delta(content="a"), delta(content=None), delta(), delta(content=""), delta(content="b"), delta("stop"), DONE],
    ],
)
def test_the_end_is_recognised_however_it_is_told(hear: Ask, events: list[Any]) -> None:
    outcome = hear(*events)
    assert said(outcome) == "ab"
    assert isinstance(outcome.events[-1], Completed)


def test_what_follows_the_end_changes_nothing(hear: Ask) -> None:
    piece = {"index": 0, **_whole("f", "c9")}
    end = delta("tool_calls")
    outcome = hear(delta(content="a"), delta(tool_calls=[piece]), end, end, delta(content="b"), delta("stop"), "[DONE]")
    assert [type(item).__name__ for item in outcome.items] == ["Message", "FunctionCall"]
    assert said(outcome) == "a"


def test_the_usage_may_come_in_several_forms(hear: Ask) -> None:
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 20,
        "prompt_cache_hit_tokens": 7,
        "completion_tokens_details": {"reasoning_tokens": 4},
        "prompt_tokens_details": None,
    }
    outcome = hear(delta("stop", content="a"), {"choices": [], "usage": usage})
    assert outcome.events[-1].usage == TokenUsage(30, 7, 20, 4, 50)


@pytest.mark.parametrize("count", [-5, "7", None, True, 1.5])
def test_a_count_that_is_none_is_zero(hear: Ask, count: Any) -> None:
    outcome = hear(delta("stop", content="a"), {"choices": [], "usage": {"prompt_tokens": count, "total_tokens": 9}})
    assert outcome.events[-1].usage == TokenUsage(total_tokens=9)


def test_a_server_that_stays_silent_after_the_end_is_not_waited_for(
    hear: Ask, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr("codex_plugin_chat.client.ChatClient.rest_s", 0.1)
    reply = say("a") + call("f").evolve(usage=None) + fault(after=6, hang_s=30)
    outcome = ask([reply], table={"stream_idle_timeout_ms": 60_000})
    assert [type(item).__name__ for item in outcome.items] == ["Message", "FunctionCall"]
    assert isinstance(outcome.events[-1], Completed)


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain"])
def test_a_server_that_does_not_stream_is_understood(ask: Ask, content_type: str) -> None:
    whole = chat_completion(say("Hello") + call("f", a=1))
    outcome = ask([fault(200, body=json.dumps(whole, indent=1), headers={"content-type": content_type})])
    message, one = outcome.items
    assert (message_text(message), one.name, one.arguments) == ("Hello", "f", '{"a": 1}')
    assert outcome.events[-1].usage is not None


def test_a_stream_with_a_wrong_content_type_is_understood(ask: Ask) -> None:
    outcome = ask([say("Hello").evolve(headers={"content-type": "application/json"})])
    assert said(outcome) == "Hello"


def test_lines_of_json_are_understood(hear: Ask) -> None:
    lines = [delta(content="a"), delta("stop", content="b")]
    assert said(hear("".join(f"{json.dumps(line)}\n" for line in lines).encode())) == "ab"


def test_a_byte_order_mark_is_ignored(hear: Ask) -> None:
    first = f"data: {json.dumps(delta(content='a'))}\n\n".encode()
    assert said(hear(b"\xef\xbb\xbf" + first, delta("stop", content="b"))) == "ab"


def test_a_whole_message_may_come_without_deltas(hear: Ask) -> None:
    message = {"role": "assistant", "content": "whole", "tool_calls": [_whole("f", "c9")]}
    outcome = hear({"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}, DONE)
    assert said(outcome) == "whole"
    assert outcome.items[-1] == FunctionCall("f", "{}", "c9", id=outcome.items[-1].id)


def test_a_whole_message_after_its_deltas_adds_only_what_was_missing(hear: Ask) -> None:
    message = {"content": "a whole", "reasoning": "why", "tool_calls": [_whole("f", "c9")]}
    end = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    piece = {"index": 0, **_whole("f", "c9")}
    outcome = hear(delta(reasoning="why"), delta(content="a "), delta(tool_calls=[piece]), end, DONE)
    kinds = [type(item).__name__ for item in outcome.items]
    assert (said(outcome), kinds) == ("a whole", ["Reasoning", "Message", "FunctionCall"])
    assert outcome.items[0].content[0]["text"] == "why"


def _whole(name: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def test_only_the_first_of_several_choices_counts(hear: Ask) -> None:
    def other(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}

    outcome = hear(other(1, "x"), other(0, "a"), other(1, "y", "stop"), other(0, "b", "stop"), other(1, "z"), DONE)
    assert said(outcome) == "ab"


def test_a_refusal_is_the_message(hear: Ask) -> None:
    outcome = hear(delta(refusal="I can"), delta(refusal="not."), delta("stop"), DONE)
    assert said(outcome) == "I cannot."


def test_content_may_be_a_list_of_parts(hear: Ask) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    outcome = hear(delta(content=[thinking]), delta(content=[{"type": "text", "text": "yes"}]), delta("stop"), DONE)
    assert said(outcome) == "yes"
    assert outcome.items[0].content == ({"type": "reasoning_text", "text": "hm"},)


def test_a_response_with_nothing_in_it_is_an_empty_message(hear: Ask) -> None:
    outcome = hear(delta(role="assistant", content=""), delta("stop"), DONE)
    assert [type(event).__name__ for event in outcome.events] == ["ItemAdded", "ItemDone", "Completed"]
    assert said(outcome) == ""


@pytest.mark.parametrize(
    ("deltas", "mark"),
    [
        ([{"reasoning": "ab"}], {"field": "reasoning"}),
        ([{"reasoning_content": "a"}, {"reasoning_content": "b"}], {"field": "reasoning_content"}),
        ([{"reasoning_text": "ab"}], {"field": "reasoning_text"}),
        (
            [{"reasoning": {"text": "a"}}, {"reasoning": {"text": "b", "signature": "s"}}],
            {"field": "reasoning", "object": {"signature": "s"}, "text_key": "text"},
        ),
        ([{"reasoning": {"content": "ab"}}], {"field": "reasoning"}),
        (
            [
                {"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]},
                {
                    "reasoning": "b",
                    "reasoning_details": [{"type": "reasoning.text", "text": "b", "signature": "s", "index": 0}],
                },
            ],
            {
                "field": "reasoning",
                "details": [{"type": "reasoning.text", "text": "ab", "signature": "s", "index": 0}],
            },
        ),
        (
            [
                {"reasoning_details": [{"type": "reasoning.summary", "summary": "ab"}]},
                {"reasoning_details": [{"type": "reasoning.encrypted", "data": "e1"}]},
                {"reasoning_details": [{"type": "reasoning.encrypted", "data": "e2"}]},
            ],
            {
                "details": [
                    {"type": "reasoning.summary", "summary": "ab"},
                    {"type": "reasoning.encrypted", "data": "e1"},
                    {"type": "reasoning.encrypted", "data": "e2"},
                ]
            },
        ),
    ],
)
def test_reasoning_is_read_in_every_form(hear: Ask, deltas: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    outcome = hear(*(delta(**one) for one in deltas), delta(content="x"), delta("stop"), DONE)
    thought = outcome.items[0]
    assert isinstance(thought, Reasoning)
    assert thought.content == ({"type": "reasoning_text", "text": "ab"},)
    assert private_data(thought, "chat") == {"api": "chat", **mark}
    shown = "".join(event.delta for event in outcome.events if isinstance(event, ReasoningDelta))
    assert shown == "ab"


def test_encrypted_reasoning_without_text_is_kept(hear: Ask) -> None:
    details = [{"type": "reasoning.encrypted", "data": "secret"}]
    outcome = hear(delta(reasoning_details=details), delta(content="x"), delta("stop"), DONE)
    assert outcome.items[0].content is None
    assert private_data(outcome.items[0], "chat") == {"api": "chat", "details": details}


def test_reasoning_may_go_on_after_text(hear: Ask) -> None:
    outcome = hear(delta(reasoning="a"), delta(content="x"), delta(reasoning="b"), delta(content="y"), delta("stop"))
    texts = [item.content[0]["text"] for item in outcome.items if isinstance(item, Reasoning)]
    assert (texts, said(outcome)) == (["a", "b"], "xy")
    assert len({item.id for item in outcome.items}) == 3


def test_space_before_a_body_does_not_fill_the_memory() -> None:
    splitter, space = BodySplitter(), b" " * 1000
    tracemalloc.start()
    try:
        assert [event for _ in range(1000) for event in splitter.feed(space)] == []
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert splitter.feed(b"\ndata: {}\n\n") == ["{}"]
