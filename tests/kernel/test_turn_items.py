"""Turn items and the events that older clients read: one is derived from the other."""

from __future__ import annotations

import pytest

from codex_framework.contract.protocol.events import AgentMessageEvent, AgentReasoningEvent, UserMessageEvent
from codex_framework.contract.protocol.items import (
    FunctionCall,
    InputText,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
)
from codex_framework.contract.protocol.turn_items import item_text, older_events, turn_item


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
