from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
    UnknownItem,
    is_call,
    search_output,
    user_message,
    with_paired_outputs,
)
from codex_framework.contract.protocol.wire import item_fault, read_item, to_wire
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
    st.builds(
        lambda call_id, by: UnknownItem({"type": "tool_search_call", "call_id": call_id, "execution": by}),
        call_ids | st.none(),
        st.sampled_from(["client", "server"]),
    ),
    st.builds(
        lambda call_id, by: UnknownItem(
            {"type": "tool_search_output", "call_id": call_id, "execution": by, "tools": [1]}
        ),
        call_ids | st.none(),
        st.sampled_from(["client", "server"]),
    ),
    st.builds(
        lambda kind, call_id: UnknownItem({"type": kind, "call_id": call_id}),
        st.sampled_from(["function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output"]),
        call_ids | st.none() | st.just(7),
    ),
)
"""Some of them cannot be read: a call without arguments, an output without text."""


def pair(item: ResponseItem) -> tuple[str, object] | None:
    """Whether an item is a call or an output, and of which id. None for others."""
    if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
        return "call", item.call_id
    if isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
        return "output", item.call_id
    if isinstance(item, UnknownItem) and item.raw["type"] != "hologram" and item.raw.get("execution") != "server":
        kind = "call" if item.raw["type"].endswith("_call") else "output"
        return kind, (item.raw["type"].removesuffix("_output").removesuffix("_call"), item.raw["call_id"])
    return None


def is_well_formed(found: Sequence[ResponseItem]) -> bool:
    """Whether each output answers a call before it, and each call has one output."""
    waiting: list[object] = []
    for item in found:
        match pair(item):
            case "call", call_id:
                waiting.append(call_id)
            case "output", call_id if call_id in waiting:
                waiting.remove(call_id)
            case None:
                pass
            case _:
                return False
    return not waiting


def can_be_read(item: ResponseItem) -> bool:
    return not isinstance(item, UnknownItem) or pair(item) is None or search_output(item) is not None


TWICE = [FunctionCall("f", "{}", "a")] * 2
ANSWERED = [FunctionCallOutput("a", "1")]


@given(st.lists(items, max_size=12))
@example([*TWICE, *ANSWERED])
@example([*TWICE, *ANSWERED, *ANSWERED])
@example([*TWICE, *ANSWERED * 3])
@example([*TWICE, *ANSWERED, *TWICE, *ANSWERED * 3])
def test_every_call_in_a_prompt_has_exactly_one_output(given_items: list[ResponseItem]) -> None:
    prompt = History(given_items).prompt()
    assert is_well_formed(prompt.items)
    assert [item for item in prompt.items if (pair(item) or ("",))[0] != "output"] == [
        item for item in given_items if (pair(item) or ("",))[0] != "output" and can_be_read(item)
    ]
    assert json.loads(prompt.encoded()) == [to_wire(item) for item in prompt.items]
    grown = History([])
    for item in given_items:
        grown.append(item)
    assert list(grown.prompt().items) == list(prompt.items)


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
        (
            UnknownItem({"type": "tool_search_call", "call_id": "c", "execution": "client"}),
            UnknownItem(
                {
                    "type": "tool_search_output",
                    "call_id": "c",
                    "status": "completed",
                    "execution": "client",
                    "tools": [],
                }
            ),
        ),
    ],
)
def test_an_unanswered_call_is_answered_right_behind_it(call: ResponseItem, output: ResponseItem) -> None:
    prompt = History([call, user_message("next")]).prompt()
    assert list(prompt.items) == [call, output, user_message("next")]


def test_a_history_can_be_read_like_its_items():
    items = [user_message("one"), user_message("two")]
    history = History(items)
    assert list(history) == items
    assert (history[0], history[-1:], len(history), items[1] in history) == (items[0], items[1:], 2, True)


def test_an_output_without_call_is_left_out() -> None:
    prompt = History([FunctionCallOutput("zz", "stray"), user_message("hi")]).prompt()
    assert list(prompt.items) == [user_message("hi")]


def test_an_answer_that_comes_late_takes_the_place_of_the_stand_in() -> None:
    history = History([FunctionCall("f", "{}", "c")])
    assert [item.type for item in history.prompt().items] == ["function_call", "function_call_output"]
    history.append(FunctionCallOutput("c", "done"))
    assert list(history.prompt().items) == [FunctionCall("f", "{}", "c"), FunctionCallOutput("c", "done")]


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "name": "f", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": None},
        {"type": "tool_search_call", "execution": "client"},
    ],
)
def test_a_call_that_cannot_be_read_is_sent_to_no_server(raw: dict[str, Any]) -> None:
    history = History.resume([UnknownItem(raw), user_message("hi")])
    history.append(UnknownItem(raw))
    assert list(history.prompt().items) == [user_message("hi")]


def search(kind: str, execution: str, **fields: Any) -> UnknownItem:
    return UnknownItem({"type": f"tool_search_{kind}", "call_id": "c", "execution": execution, **fields})


def test_a_search_has_one_output_as_other_calls_have() -> None:
    call, output = search("call", "client"), search("output", "client", tools=[1])
    assert with_paired_outputs([call, output, output, call, output]) == [call, output, call, output]
    assert with_paired_outputs([output, call]) == [call, search_output(call)]


def test_a_search_of_the_server_is_kept_as_the_server_sent_it() -> None:
    items = [search("output", "server"), search("call", "server"), search("call", "server"), user_message("hi")]
    assert with_paired_outputs(items) == items


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


def test_text_that_was_replaced_is_not_the_newest_any_more() -> None:
    history = History([user_message("<a> old"), user_message("<b> kept")])
    history.replace([user_message("<b> kept")])
    assert history.last_with("<a>") is None
    assert history.last_with("<b>") == "<b> kept"


def test_texts_are_found_again_when_messages_are_added() -> None:
    history = History()
    said: list[str] = []
    for number in range(200):
        text = f"<{number % 3}> {number}"
        said.append(text)
        history.append(Message("user", (InputText(text),)))
        history.append(Message("assistant", (OutputText("<0> not said by the user"),)))
        for start in ("<0>", "<1>", "<none>", f"<{number % 3}> {number}", "<2>"):
            assert history.last_with(start) == next((text for text in reversed(said) if text.startswith(start)), None)


def test_a_search_reads_only_the_new_messages() -> None:
    reads: list[str] = []

    class Counted(InputText):
        def __getattribute__(self, name: str) -> Any:
            if name == "text":
                reads.append(name)
            return super().__getattribute__(name)

    history = History([Message("user", (Counted("old"),)) for _ in range(50)])
    assert history.last_with("<env>") is None
    history.append(Message("user", (Counted("<env> new"),)))
    reads.clear()
    assert (history.last_with("<env>"), len(reads)) == ("<env> new", 1)
    assert (history.last_with("<env>"), len(reads)) == ("<env> new", 1)


@pytest.mark.parametrize("tag", [[], {}, ["message"], None, 3, 1.5, True])
def test_an_item_whose_type_is_not_text_is_kept(tag):
    odd = UnknownItem({"type": tag, "call_id": "c"})
    assert odd.kind == ""
    assert with_paired_outputs([odd]) == [odd]
    assert item_fault(odd) == "an item without a type"


def test_an_image_in_an_output_counts_by_codexs_estimate_and_not_by_its_bytes() -> None:
    image = InputImage("data:image/png;base64," + "A" * 400_000)
    history = History([FunctionCallOutput("c", (image,))])
    assert history.tokens < 3000
