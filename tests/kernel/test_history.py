from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
    UnknownItem,
    is_call,
    is_output,
    user_message,
    with_paired_outputs,
)
from codex_framework.contract.protocol.wire import read_item, to_wire
from codex_framework.threads.history import History

call_ids = st.sampled_from(["a", "b", "c"])
items = st.one_of(
    st.builds(user_message, st.text(max_size=5)),
    st.builds(lambda text: Message("assistant", (OutputText(text),)), st.text(max_size=5)),
    st.builds(Reasoning, id=st.just("rs")),
    st.builds(FunctionCall, st.just("f"), st.just("{}"), call_ids),
    st.builds(CustomToolCall, st.just("apply_patch"), st.just("p"), call_ids),
    st.builds(LocalShellCall, st.just({"type": "exec", "command": ["ls"]}), call_ids),
    st.builds(FunctionCallOutput, call_ids, st.text(max_size=3)),
    st.builds(CustomToolCallOutput, call_ids, st.text(max_size=3)),
    st.just(UnknownItem({"type": "hologram"})),
)


def is_well_formed(found: Sequence[ResponseItem]) -> bool:
    """Whether each output answers a call before it, and each call has one output."""
    waiting: list[str | None] = []
    for item in found:
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            waiting.append(item.call_id)
        elif isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
            if item.call_id not in waiting:
                return False
            waiting.remove(item.call_id)
    return not waiting


@given(st.lists(items, max_size=12))
def test_every_call_in_a_prompt_has_exactly_one_output(given_items: list[ResponseItem]) -> None:
    prompt = History(given_items).prompt()
    assert is_well_formed(prompt.items)
    assert [item for item in prompt.items if not is_output(item)] == [
        item for item in given_items if not is_output(item)
    ]
    assert json.loads(prompt.encoded()) == [to_wire(item) for item in prompt.items]


@given(st.lists(items, max_size=12))
def test_normalising_twice_changes_nothing_more(given_items: list[ResponseItem]) -> None:
    once = with_paired_outputs(given_items)
    assert with_paired_outputs(once) == once


@given(st.lists(items, max_size=12))
def test_a_well_formed_history_is_sent_as_it_is(given_items: list[ResponseItem]) -> None:
    once = with_paired_outputs(given_items)
    assert list(History(once).prompt().items) == once


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (FunctionCall("f", "{}", "c"), FunctionCallOutput("c", "aborted")),
        (CustomToolCall("apply_patch", "p", "c"), CustomToolCallOutput("c", "aborted")),
        (LocalShellCall({"type": "exec", "command": []}, "c"), FunctionCallOutput("c", "aborted")),
    ],
)
def test_an_unanswered_call_is_answered_right_behind_it(call: ResponseItem, output: ResponseItem) -> None:
    prompt = History([call, user_message("next")]).prompt()
    assert list(prompt.items) == [call, output, user_message("next")]


def test_an_output_without_call_is_left_out() -> None:
    prompt = History([FunctionCallOutput("zz", "stray"), user_message("hi")]).prompt()
    assert list(prompt.items) == [user_message("hi")]


def test_an_answer_that_comes_late_takes_the_place_of_the_stand_in() -> None:
    history = History([FunctionCall("f", "{}", "c")])
    assert [item.type for item in history.prompt().items] == ["function_call", "function_call_output"]
    history.append(FunctionCallOutput("c", "done"))
    assert list(history.prompt().items) == [FunctionCall("f", "{}", "c"), FunctionCallOutput("c", "done")]


def test_a_prompt_is_a_snapshot() -> None:
    history = History([user_message("one")])
    prompt = history.prompt()
    before = prompt.encoded()
    history.append(user_message("two"))
    assert list(prompt.items) == [user_message("one")]
    assert prompt.encoded() == before
    assert len(history) == 2


def test_append_gives_the_items_json() -> None:
    item = FunctionCall("f", '{"a": 1}', "c", id="fc_1")
    encoded = History().append(item)
    assert read_item(json.loads(encoded)) == item
    assert b'"arguments":"{\\"a\\": 1}"' in encoded


def test_the_newest_context_with_a_mark_is_found() -> None:
    history = History(
        [
            user_message("<env>1"),
            Message("user", (*user_message("<env>2").content, *user_message("words").content)),
            Message("assistant", (OutputText("<env>no"),)),
        ]
    )
    assert history.last_with("<env>") == "<env>2"
    assert history.last_with("<other>") is None
    assert any(map(is_call, history.items)) is False
