from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FunctionCall, Message, OutputText, ThreadError
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    AgentReasoningEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    UnknownEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    ResponseItem,
    UnknownItem,
    user_message,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_rollout import RolloutStore

Rollout = Callable[..., Path]


def said(text: str) -> tuple[str, Any]:
    return "response_item", to_wire(user_message(text))


def answered(text: str) -> tuple[str, Any]:
    return "response_item", to_wire(Message("assistant", (OutputText(text),)))


def item(value: ResponseItem) -> tuple[str, Any]:
    return "response_item", to_wire(value)


def event(kind: str, **fields: Any) -> tuple[str, Any]:
    return "event_msg", {"type": kind, **fields}


def turn(number: int) -> list[tuple[str, Any]]:
    return [
        event("task_started", turn_id=f"t{number}"),
        said(f"<environment_context>{number}"),
        ("turn_context", {"turn_id": f"t{number}", "model": f"m{number}"}),
        event("user_message", message=f"question {number}"),
        said(f"question {number}"),
        answered(f"answer {number}"),
        event("agent_message", message=f"answer {number}"),
        event("task_complete", turn_id=f"t{number}"),
    ]


def texts(store: RolloutStore, path: Path) -> list[str]:
    history = store.load(str(path), "/nowhere").history
    return ["".join(part.text for part in found.content) for found in history if isinstance(found, Message)]  # type: ignore[union-attr]


def test_history_events_and_the_newest_settings_come_back(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(*turn(1), *turn(2))
    stored = store.load(str(path), "/nowhere")
    assert texts(store, path) == [
        *("<environment_context>1", "question 1", "answer 1"),
        *("<environment_context>2", "question 2", "answer 2"),
    ]
    assert [msg.type for msg in stored.events] == ["task_started", "user_message", "agent_message", "task_complete"] * 2
    assert stored.last_turn_context == {"turn_id": "t2", "model": "m2"}
    assert stored.path == str(path)
    assert stored.warnings == ()


def test_a_compaction_replaces_what_stood_before_it(store: RolloutStore, rollout: Rollout) -> None:
    summary = [to_wire(user_message("question 1")), to_wire(user_message("summary"))]
    path = rollout(*turn(1), ("compacted", {"message": "summary", "replacement_history": summary}), *turn(2))
    assert texts(store, path) == ["question 1", "summary", "<environment_context>2", "question 2", "answer 2"]


def test_an_old_compaction_keeps_the_persons_words_and_its_message(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(*turn(1), ("compacted", {"message": "summary"}), answered("more"))
    assert texts(store, path) == ["question 1", "summary", "more"]


def test_a_rollback_undoes_whole_turns_with_their_context(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(*turn(1), *turn(2), *turn(3), event("thread_rolled_back", num_turns=2), *turn(4))
    stored = store.load(str(path), "/nowhere")
    assert texts(store, path)[2:] == ["answer 1", "<environment_context>4", "question 4", "answer 4"]
    assert UserMessageEvent("question 2") not in stored.events
    assert stored.last_turn_context == {"turn_id": "t4", "model": "m4"}


def test_a_rollback_restores_the_settings_of_before(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(*turn(1), *turn(2), event("thread_rolled_back", num_turns=1))
    assert store.load(str(path), "/nowhere").last_turn_context == {"turn_id": "t1", "model": "m1"}


def test_a_rollback_undoes_a_compaction_of_its_turns(store: RolloutStore, rollout: Rollout) -> None:
    compaction = ("compacted", {"message": "s", "replacement_history": [to_wire(user_message("s"))]})
    second = turn(2)
    path = rollout(*turn(1), *second[:6], compaction, *second[6:], event("thread_rolled_back", num_turns=1))
    assert texts(store, path) == ["<environment_context>1", "question 1", "answer 1"]


def test_a_rollback_of_more_turns_than_there_are_leaves_nothing(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(*turn(1), *turn(2), event("thread_rolled_back", num_turns=9))
    assert texts(store, path) == []


def test_words_sent_into_a_running_turn_are_undone_with_it(store: RolloutStore, rollout: Rollout) -> None:
    second = turn(2)
    path = rollout(*turn(1), *second[:-1], said("and this"), second[-1], event("thread_rolled_back", num_turns=1))
    assert texts(store, path) == ["<environment_context>1", "question 1", "answer 1"]


def test_a_file_without_turn_events_is_rolled_back_by_messages(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(
        said("a"), answered("1"), said("<environment_context>"), said("b"), event("thread_rolled_back", num_turns=1)
    )
    assert texts(store, path) == ["a", "1"]


def test_tokens_of_undone_turns_stay_spent(store: RolloutStore, rollout: Rollout) -> None:
    usage = {"total_tokens": 70}
    count = event("token_count", info={"total_token_usage": usage, "last_token_usage": usage})
    path = rollout(*turn(1)[:-1], count, turn(1)[-1], event("thread_rolled_back", num_turns=1))
    spent = TokenUsage(total_tokens=70)
    assert store.load(str(path), "/nowhere").events == (TokenCountEvent(TokenUsageInfo(spent, spent)),)


@pytest.mark.parametrize("count", [None, 0, -1, "two", True])
def test_a_senseless_rollback_changes_nothing(store: RolloutStore, rollout: Rollout, count: object) -> None:
    path = rollout(*turn(1), event("thread_rolled_back", num_turns=count))
    assert texts(store, path) == ["<environment_context>1", "question 1", "answer 1"]


def test_calls_cut_short_get_an_output_and_stray_outputs_go(store: RolloutStore, rollout: Rollout) -> None:
    calls = (
        FunctionCall("f", "{}", "c1"),
        CustomToolCall("apply_patch", "p", "c2"),
        LocalShellCall({"type": "exec", "command": ["ls"]}, "c3"),
    )
    path = rollout(
        said("go"),
        *[item(call) for call in calls],
        item(FunctionCallOutput("c1", "fine")),
        item(FunctionCallOutput("zz", "stray")),
    )
    assert store.load(str(path), "/nowhere").history == (
        user_message("go"),
        calls[0],
        calls[1],
        CustomToolCallOutput("c2", "aborted"),
        calls[2],
        FunctionCallOutput("c3", "aborted"),
        FunctionCallOutput("c1", "fine"),
    )


def test_lines_of_unknown_kind_are_left_to_others(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(("world_state", {"full": True}), ("token_usage_record", {"usage": {}}), said("a"), ("new", [1]))
    stored = store.load(str(path), "/nowhere")
    assert (stored.history, stored.warnings) == ((user_message("a"),), ())


def test_items_and_events_of_unknown_kind_are_kept(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(("response_item", {"type": "hologram", "size": 3}), event("sub_agent_activity", size=4))
    stored = store.load(str(path), "/nowhere")
    assert stored.history == (UnknownItem({"type": "hologram", "size": 3}),)
    assert stored.events == (UnknownEvent({"type": "sub_agent_activity", "size": 4}),)


def test_bookkeeping_inside_items_is_not_sent_to_a_model(store: RolloutStore, rollout: Rollout) -> None:
    kind, payload = said("a")
    path = rollout((kind, {**payload, "internal_chat_message_metadata_passthrough": {"turn_id": "t"}}))
    assert store.load(str(path), "/nowhere").history == (user_message("a"),)


def test_whole_turn_items_of_newer_versions_are_shown_as_messages(store: RolloutStore, rollout: Rollout) -> None:
    def completed(**fields: Any) -> tuple[str, Any]:
        return event("item_completed", thread_id="th", turn_id="t", completed_at_ms=1, item={"id": "i", **fields})

    path = rollout(
        completed(type="UserMessage", content=[{"type": "text", "text": "hi", "text_elements": []}]),
        completed(type="Reasoning", summary_text=["so", "then"], raw_content=[]),
        completed(type="AgentMessage", content=[{"type": "Text", "text": "ho"}], phase="final_answer"),
    )
    assert store.load(str(path), "/nowhere").events == (
        UserMessageEvent("hi"),
        AgentReasoningEvent("so"),
        AgentReasoningEvent("then"),
        AgentMessageEvent("ho", "final_answer"),
    )


@pytest.mark.parametrize("item", [None, 5, "text", ["UserMessage"]])
def test_a_turn_item_that_is_none_is_an_event_like_any_other(store: RolloutStore, rollout: Rollout, item: Any) -> None:
    path = rollout(event("item_completed", thread_id="th", turn_id="t", completed_at_ms=1, item=item), said("a"))
    stored = store.load(str(path), "/nowhere")
    assert len(stored.events) == 1
    assert stored.history == (user_message("a"),)


def test_the_first_head_counts_in_a_fork(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(("session_meta", {"id": "parent", "cwd": "/p"}), said("a"), forked_from_id="parent")
    meta = store.load(str(path), "/nowhere").meta
    assert (meta.id, meta.cwd, meta.forked_from_id) == ("01a1fa36-db98-75f0-a6d6-2445f13ac227", "/w", "parent")


def test_unreadable_lines_are_skipped_and_reported(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(said("a"), said("b"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        b"".join(
            [lines[0], b"not json\n", lines[1], b'{"type":"response_item"}\n', b"[]\n", b"\xff\n", b"\n", lines[2]]
        )
    )
    stored = store.load(str(path), "/nowhere")
    assert stored.history == (user_message("a"), user_message("b"))
    assert stored.warnings == ("4 unreadable line(s) of the conversation's file were skipped (line 2, 4, 5, 6)",)


def test_payloads_of_odd_types_break_nothing(store: RolloutStore, rollout: Rollout) -> None:
    odd: list[Any] = [None, 3, "x", [], {}, {"type": 7}, {"type": "message", "role": 4, "content": "x"}]
    kinds = ("response_item", "event_msg", "turn_context", "compacted", "session_meta")
    path = rollout(
        *((kind, payload) for kind in kinds for payload in odd), ("compacted", {"replacement_history": [1, {}]})
    )
    assert store.load(str(path), "/nowhere").meta.cwd == "/w"


def test_a_head_with_odd_fields_gets_defaults(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(
        timestamp="yesterday",
        cwd=None,
        source={"subagent": "review"},
        git="no",
        base_instructions="plain",
        originator=5,
    )
    meta = store.load(str(path), "/nowhere").meta
    assert (meta.cwd, meta.source, meta.git, meta.base_instructions, meta.originator) == (
        "",
        "subagent",
        None,
        None,
        "",
    )
    assert meta.created_at == path.stat().st_mtime


def test_a_file_without_head_is_known_by_its_name(store: RolloutStore, rollout: Rollout) -> None:
    path = rollout(("turn_context", {"cwd": "/elsewhere"}), said("a"))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    stored = store.load(str(path), "/nowhere")
    assert (stored.meta.id, stored.meta.cwd) == ("01a1fa36-db98-75f0-a6d6-2445f13ac227", "/elsewhere")
    assert stored.warnings == (
        "the first line of the conversation's file is missing; the thread id was taken from the file's name",
    )


def test_some_other_file_is_refused(store: RolloutStore, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("{}\n")
    with pytest.raises(ThreadError, match="is not a rollout file: it does not contain the id of its thread"):
        store.load(str(path), str(tmp_path))
