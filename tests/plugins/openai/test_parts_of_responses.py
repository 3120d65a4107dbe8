"""Items that a response has only at its end, names of limits, and requests after a server has refused images."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework import InputImage, InputText, Message
from codex_framework.contract.protocol.items import FunctionCall, OutputText, Reasoning, UnknownItem, user_message
from codex_framework.contract.roles.models import ItemDone, Prompt
from codex_framework.testing import model_request
from codex_plugin_openai.late_items import late_events
from codex_plugin_openai.rate_limits import event_limits
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
