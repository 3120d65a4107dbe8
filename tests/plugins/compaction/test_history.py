"""What is left of a history: people's words within a budget, and the summary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codex_framework import InputImage, InputText, Message
from codex_framework.contract.protocol.items import (
    CONTEXT_MARKS,
    SUMMARY_MARK,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    OutputText,
    Reasoning,
    UnknownItem,
    message_text,
    user_message,
)
from codex_framework.toolkit.truncation import token_count
from codex_plugin_compaction.history import USER_TOKENS, compacted_items, summary_text, without_oldest
from codex_plugin_compaction.prompt import SUMMARY_PREFIX

SUMMARY = summary_text("All is well.")
IMAGE = InputImage("data:image/png;base64,AAAA")


def words(items) -> list[str]:
    return [message_text(item) for item in items]


def test_only_the_words_of_people_are_kept_in_their_order_with_the_summary_last():
    items = [
        user_message("Be kind.", role="developer"),
        user_message("one"),
        Message("assistant", (OutputText("answer"),)),
        Reasoning(encrypted_content="x"),
        FunctionCall("f", "{}", "1"),
        FunctionCallOutput("1", "out"),
        UnknownItem({"type": "ghost_snapshot"}),
        user_message("two"),
    ]
    assert words(compacted_items(items, SUMMARY)) == ["one", "two", SUMMARY]


def test_the_summary_begins_with_the_mark_that_others_know_it_by():
    assert SUMMARY.startswith(SUMMARY_MARK)


def test_context_and_earlier_summaries_are_not_the_words_of_people():
    items = [user_message(f"{mark}something") for mark in CONTEXT_MARKS]
    items += [user_message("  <turn_aborted>\n..."), user_message(summary_text("Old.")), user_message("mine")]
    assert words(compacted_items(items, SUMMARY)) == ["mine", SUMMARY]


def test_of_a_history_without_words_only_the_summary_is_left():
    assert words(compacted_items([], SUMMARY)) == [SUMMARY]


def test_what_is_kept_is_the_item_itself():
    item = user_message("mine").evolve(id="msg_1", extra={"x": 1})
    assert compacted_items([item], SUMMARY)[0] is item


def test_the_oldest_that_is_kept_is_cut_in_the_middle():
    items = [user_message("gone" * 100), user_message("A" * 60_000 + "Z" * 60_000), user_message("n" * 4 * 15_000)]
    cut, newest, summary = words(compacted_items(items, SUMMARY))
    assert (newest, summary) == ("n" * 60_000, SUMMARY)
    assert cut == "A" * 10_000 + "…25000 tokens truncated…" + "Z" * 10_000


def test_nothing_older_is_kept_once_the_budget_is_used_up():
    items = [user_message("gone"), user_message("n" * 4 * USER_TOKENS)]
    assert words(compacted_items(items, SUMMARY)) == ["n" * 4 * USER_TOKENS, SUMMARY]


def test_images_count_and_those_that_do_not_fit_are_left_out():
    full = Message("user", (InputText("see"), *[IMAGE] * 12))
    kept, _ = compacted_items([full], SUMMARY)
    assert kept.content == (InputText("see"), *[IMAGE] * 10)  # 1,844 tokens each
    small = Message("user", (InputText("see"), IMAGE))
    assert compacted_items([small], SUMMARY)[0] is small


def test_text_that_no_utf8_can_say_is_kept():
    assert words(compacted_items([user_message("\ud800" * 3)], SUMMARY))[0] == "\ud800" * 3


def test_a_call_goes_with_its_output():
    call, output = FunctionCall("f", "{}", "1"), FunctionCallOutput("1", "out")
    custom, result = CustomToolCall("p", "", "2"), CustomToolCallOutput("2", "out")
    assert without_oldest([call, custom, output, result]) == [custom, result]
    assert without_oldest([custom, output, result]) == [output]
    assert without_oldest([call]) == []
    assert without_oldest([user_message("a"), call]) == [call]


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "developer"]), st.integers(0, 60_000)), max_size=30))
def test_the_budget_holds_and_only_the_oldest_is_cut(said):
    items = [Message(role, (InputText(f"{number:03}" + "x" * size),)) for number, (role, size) in enumerate(said)]
    *kept, summary = compacted_items(items, SUMMARY)
    assert message_text(summary) == SUMMARY
    assert all(item in items for item in kept[1:])
    marker = 100
    assert sum(token_count(len(message_text(item).encode())) for item in kept) <= USER_TOKENS + marker
    people = [item for item in items if item.role == "user"]
    assert len(kept) <= len(people)
    assert [words([item])[0][:3] for item in kept] == [
        words([item])[0][:3] for item in people[len(people) - len(kept) :]
    ]
    if len(kept) < len(people):
        assert sum(token_count(len(message_text(item).encode())) for item in kept) >= USER_TOKENS


def test_the_prefix_is_the_one_that_codex_looks_for(anchors):
    import json

    lines = (anchors / "rollouts" / "p_compact.0.jsonl").read_text().splitlines()
    (compacted,) = (line["payload"] for line in map(json.loads, lines) if line["type"] == "compacted")
    assert compacted["message"].startswith(f"{SUMMARY_PREFIX}\n")
