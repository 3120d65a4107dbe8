"""Turn items and the events that older clients read: one is derived from the other."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework.contract.protocol.event_items import INTERACTION, item_of
from codex_framework.contract.protocol.events import (
    AddFile,
    AgentMessageEvent,
    AgentReasoningEvent,
    EventMsg,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    TurnStartedEvent,
    UserMessageEvent,
    ViewImageToolCallEvent,
)
from codex_framework.contract.protocol.items import (
    FunctionCall,
    InputText,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
)
from codex_framework.contract.protocol.ops import ByteRange, TextElement
from codex_framework.contract.protocol.turn_items import item_text, older_events, turn_item
from codex_framework.threads.shown_items import ShownItems


@pytest.mark.parametrize(
    ("item", "shown", "text", "events"),
    [
        (
            Message(role="assistant", content=(OutputText("so "), OutputText("be it")), id="m", phase="commentary"),
            {
                "type": "AgentMessage",
                "id": "m",
                "content": [{"type": "Text", "text": "so be it"}],
                "phase": "commentary",
            },
            "so be it",
            (AgentMessageEvent("so be it", "commentary"),),
        ),
        (
            Message(role="assistant", content=()),
            {"type": "AgentMessage", "id": "", "content": [{"type": "Text", "text": ""}]},
            "",
            (AgentMessageEvent("", None),),
        ),
        (
            Reasoning(
                summary=({"type": "summary_text", "text": "a"}, {"text": "b"}), content=({"text": "raw"},), id="r"
            ),
            {"type": "Reasoning", "id": "r", "summary_text": ["a", "b"], "raw_content": ["raw"]},
            "a\nb",
            (AgentReasoningEvent("a"), AgentReasoningEvent("b")),
        ),
        (
            Reasoning(summary=()),
            {"type": "Reasoning", "id": "", "summary_text": [], "raw_content": []},
            "",
            (),
        ),
    ],
)
def test_an_item_of_the_model_is_shown_with_its_text_and_its_older_events(
    item: ResponseItem, shown: dict[str, object], text: str, events: tuple[object, ...]
) -> None:
    assert turn_item(item) == shown
    assert item_text(shown) == text
    assert older_events(shown) == events


@pytest.mark.parametrize(
    "item", [FunctionCall("f", "{}", "c"), Message(role="user", content=(InputText("hi"),)), Message("developer", ())]
)
def test_other_items_are_not_shown(item: ResponseItem) -> None:
    assert turn_item(item) is None


def test_the_input_of_a_newer_version_has_its_older_form() -> None:
    content = [
        {"type": "text", "text": "look "},
        {"type": "image", "image_url": "https://x/y.png"},
        {"type": "local_image", "path": "/a.png"},
        {"type": "text", "text": "here"},
    ]
    event = UserMessageEvent("look here", ("https://x/y.png",), ("/a.png",))
    assert older_events({"type": "UserMessage", "id": "u", "content": content}) == (event,)
    assert older_events({"type": "Plan", "id": "p", "text": "1. go"}) is None


def test_fields_of_an_unexpected_type_are_ignored() -> None:
    assert older_events({"type": "AgentMessage", "content": "x", "phase": 1}) == (AgentMessageEvent("", None),)
    assert older_events({"type": "AgentMessage", "content": [1, {"text": 2}, {"text": "t"}]}) == (
        AgentMessageEvent("t"),
    )
    assert older_events({"type": "Reasoning", "summary_text": [1, "a"]}) == (AgentReasoningEvent("a"),)
    assert older_events({}) is None


def test_a_message_of_the_user_keeps_what_its_client_said_of_it_over_both_forms() -> None:
    event = UserMessageEvent(
        "é [x]",
        ("data:image/png;base64,aaaa", "https://example.com/a.png"),
        ("/w/a.png",),
        client_id="m-1",
        image_details=("low", None),
        text_elements=(TextElement(ByteRange(3, 6), "[x]"),),
    )
    item = item_of(event, "i")
    assert item["id"] == "i"
    assert older_events(item) == (event,)
    assert older_events(
        {"type": "UserMessage", "content": [{"type": "text", "text": "a", "text_elements": [7, {}]}]}
    ) == (UserMessageEvent("a"),)


def begun(call_id: str, **fields: Any) -> ExecCommandBeginEvent:
    return ExecCommandBeginEvent(call_id=call_id, turn_id="t", command=("a",), cwd="/w d", started_at_ms=1, **fields)


def ended(call_id: str, **fields: Any) -> ExecCommandEndEvent:
    whole: dict[str, Any] = {
        "stdout": "out",
        "stderr": "",
        "aggregated_output": "out",
        "exit_code": 0,
        "duration_s": 1.25,
    }
    more: dict[str, Any] = {"completed_at_ms": 2, "formatted_output": "out", "status": "completed"}
    return ExecCommandEndEvent(call_id=call_id, turn_id="t", command=("a",), cwd="/w d", **whole, **more, **fields)


def told(items: ShownItems, *events: EventMsg) -> list[tuple[str, str, str]]:
    found = [event for msg in events for event in items.events_before("t", msg)]
    return [(event.type, event.item["id"], event.item.get("status", "")) for event in found]  # type: ignore[attr-defined]


def test_a_command_is_one_item_from_its_begin_to_its_end() -> None:
    items = ShownItems("thread")
    (start,) = items.events_before("t", begun("c", process_id="7"))
    (end,) = items.events_before("t", ended("c", process_id="7"))
    assert isinstance(start, ItemStartedEvent)
    assert isinstance(end, ItemCompletedEvent)
    assert start.item == {
        "type": "CommandExecution",
        "id": "c",
        "process_id": "7",
        "command": ["a"],
        "cwd": "file:///w%20d",
        "parsed_cmd": [],
        "source": "agent",
        "status": "in_progress",
    }
    assert end.item == {
        **start.item,
        "status": "completed",
        "aggregated_output": "out",
        "exit_code": 0,
        "duration": {"secs": 1, "nanos": 250_000_000},
    }
    assert (end.thread_id, end.turn_id, end.started_at_ms) == ("thread", "t", start.started_at_ms)


def test_commands_of_one_call_are_items_with_ids_of_their_own() -> None:
    items = ShownItems("thread")
    assert told(items, begun("c"), begun("c", process_id="7"), ended("c", process_id="7"), ended("c")) == [
        ("item_started", "c", "in_progress"),
        ("item_started", "c-2", "in_progress"),
        ("item_completed", "c-2", "completed"),
        ("item_completed", "c", "completed"),
    ]
    assert told(items, TurnStartedEvent("t2"), begun("c")) == [("item_started", "c", "in_progress")]
    assert told(items, TurnStartedEvent("t3"), begun("c")) == [("item_started", "c-2", "in_progress")]


def test_what_never_began_begins_with_its_end_and_input_to_a_command_is_no_item() -> None:
    items = ShownItems("thread")
    assert told(items, ended("c"), begun("d", source=INTERACTION), ended("d", source=INTERACTION)) == [
        ("item_started", "c", "completed"),
        ("item_completed", "c", "completed"),
    ]


def test_a_patch_and_an_image_are_items() -> None:
    items = ShownItems("thread")
    change = {"/w/a": AddFile("x\n")}
    begin = PatchApplyBeginEvent(call_id="p", turn_id="t", auto_approved=True, changes=change)
    end = PatchApplyEndEvent(
        call_id="p", turn_id="t", stdout="Success.", stderr="", success=True, changes=change, status="completed"
    )
    changes = {"/w/a": {"type": "add", "content": "x\n"}}
    (start,), (done,) = items.events_before("t", begin), items.events_before("t", end)
    assert start.item == {"type": "FileChange", "id": "p", "changes": changes, "auto_approved": True}  # type: ignore[attr-defined]
    assert done.item == {  # type: ignore[attr-defined]
        "type": "FileChange",
        "id": "p",
        "changes": changes,
        "status": "completed",
        "stdout": "Success.",
        "stderr": "",
    }
    shown = items.events_before("t", ViewImageToolCallEvent("v", "/w/a.png"))
    assert [event.item for event in shown] == [  # type: ignore[attr-defined]
        {"type": "ImageView", "id": "v", "path": "file:///w/a.png"}
    ] * 2
