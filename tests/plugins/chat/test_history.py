"""A conversation is encoded once, and is the same as one that is encoded at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import FunctionCall, InputText, Message, OutputText, ResponseItem
from codex_framework.contract.protocol.items import FunctionCallOutput, Reasoning, user_message, with_paired_outputs
from codex_framework.testing.requests import model_request
from codex_lib_model_client.private_data import marked
from codex_plugin_chat import conversation as module
from codex_plugin_chat.body import BodyWriter
from codex_plugin_chat.conversation import Conversation, Conversations
from codex_plugin_chat.messages import Style
from codex_plugin_chat.options import ChatOptions


def item(kind: str, number: int) -> list[ResponseItem]:
    match kind:
        case "user":
            return [user_message(f"user {number}")]
        case "developer":
            return [user_message(f"developer {number}", role="developer")]
        case "assistant":
            return [Message("assistant", (OutputText(f"assistant {number}"),))]
        case "reasoning":
            mark = marked("chat", {"field": "reasoning"})
            return [Reasoning(f"rs{number}", (), ({"type": "reasoning_text", "text": f"why {number}"},), None, mark)]
        case "call":
            return [FunctionCall("f", "{}", f"c{number}")]
        case "output":
            return [FunctionCallOutput(f"c{number - 2}", f"out {number}")]
        case _:
            return [FunctionCall("f", "{}", f"c{number}"), FunctionCallOutput(f"c{number}", f"out {number}")]


KINDS = ["user", "developer", "assistant", "reasoning", "call", "output", "both"]
STYLES = st.builds(
    Style,
    images=st.just(value=True),
    developer_role=st.sampled_from(["system", "developer", "user"]),
    send_reasoning=st.sampled_from(["turn", "all", "none"]),
)


def whole(style: Style, items: list[ResponseItem]) -> tuple[str, list[dict[str, Any]]]:
    return read(Conversation(style), items)


def read(conversation: Conversation, items: list[ResponseItem]) -> tuple[str, list[dict[str, Any]]]:
    lead, parts = conversation.messages(items)
    return lead, json.loads(b"[" + b",".join(parts) + b"]")


@given(
    STYLES,
    st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), st.integers(0, 9)), max_size=25),
)
def test_growing_and_shrinking_conversations_are_encoded_like_new_ones(
    style: Style, steps: list[tuple[str, bool, int]]
) -> None:
    conversation = Conversation(style)
    items: list[ResponseItem] = []
    for number, (kind, asks, dropped) in enumerate(steps):
        if dropped > 7:
            del items[-dropped:]
        items.extend(item(kind, number))
        if asks:
            prompt = with_paired_outputs(items)
            found = read(conversation, prompt)
            lead, messages = whole(style, prompt)
            if style.developer_role == "system":  # how much of the beginning was there when it was first asked differs
                found, (lead, messages) = told(found), told((lead, messages))
            assert found == (lead, messages)


def told(read: tuple[str, list[dict[str, Any]]]) -> tuple[str, list[dict[str, Any]]]:
    lead, messages = read
    start = next((n for n, one in enumerate(messages) if one["role"] != "system"), len(messages))
    return "\n\n".join(text for text in (lead, *(one["content"] for one in messages[:start])) if text), messages[start:]


@given(st.lists(st.sampled_from(KINDS), max_size=25))
def test_every_call_is_directly_followed_by_its_output(kinds: list[str]) -> None:
    items = with_paired_outputs([part for number, kind in enumerate(kinds) for part in item(kind, number)])
    _, messages = whole(Style(images=True, developer_role="system", send_reasoning="turn"), items)
    waiting: list[str] = []
    for one in messages:
        if waiting:
            assert (one["role"], one["tool_call_id"]) == ("tool", waiting.pop(0))
            continue
        assert one["role"] != "tool"
        waiting = [each["id"] for each in one.get("tool_calls", ())]
    assert waiting == []
    calls = sum(isinstance(one, FunctionCall) for one in items)
    assert calls == sum(one["role"] == "tool" for one in messages)


def test_an_item_is_encoded_at_most_twice_however_long_the_conversation_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    real = module.utf8

    def counting(value: Any) -> bytes:
        nonlocal counted
        counted += 1
        return real(value)

    monkeypatch.setattr(module, "utf8", counting)
    conversation = Conversation(Style(images=True, developer_role="system", send_reasoning="turn"))
    items: list[ResponseItem] = [user_message("go")]
    conversation.messages(items)
    per_turn: list[int] = []
    for number in range(300):
        before = counted
        items = [*items, *item("reasoning", number), *item("both", number)]
        conversation.messages(items)
        per_turn.append(counted - before)
    assert set(per_turn[2:]) == {per_turn[2]}
    assert per_turn[2] <= 8


def test_a_changed_item_is_encoded_anew() -> None:
    conversation = Conversation(Style(images=True, developer_role="system", send_reasoning="turn"))
    items: list[ResponseItem] = [user_message(text) for text in "abcd"]
    conversation.messages(items)
    items[1] = Message("user", (InputText("changed"),))
    _, messages = read(conversation, items)
    assert [one["content"] for one in messages] == ["a", "changed", "c", "d"]


def test_conversations_of_many_threads_do_not_mix_and_old_ones_are_forgotten() -> None:
    conversations = Conversations()
    style = Style(images=True, developer_role="system", send_reasoning="turn")
    first = conversations.of("t0", style)
    assert conversations.of("t0", style) is first
    assert conversations.of("t0", style.evolve(images=False)) is not first
    for number in range(400):
        read(conversations.of(f"t{number}", style), [user_message(str(number))])
    assert len(conversations._known) == 256


def test_requests_of_one_thread_may_differ(ask: Any) -> None:
    from codex_framework.testing.replies import say

    long = model_request("a", "b", "c")
    outcome = ask([say("x")] * 3, long, model_request("a", "other"), long)
    found = [[one["content"] for one in request.json["messages"][1:]] for request in outcome.server.requests]
    assert found == [["a", "b", "c"], ["a", "other"], ["a", "b", "c"]]


def calls_of(work: Callable[[], object]) -> int:
    """Return how many Python functions some work calls, which does not depend on the machine."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_for_a_turn_does_not_grow_with_the_conversation() -> None:
    writer = BodyWriter(ChatOptions(), is_openai=False)
    items: list[ResponseItem] = []
    work: list[int] = []
    for number in range(1000):
        items += [user_message(f"turn {number}"), *item("both", number), *item("assistant", number)]
        request = model_request(*items)
        work.append(calls_of(lambda request=request: (writer.body(request), writer.losses(request))))  # type: ignore[misc]
    assert work[999] <= 1.1 * work[10]
