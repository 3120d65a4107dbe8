"""What decides when to compact and how much is kept: the smaller limit, and budgets of tokens."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import InputImage, InputText, Message
from codex_framework.contract.protocol.items import UnknownItem, message_text, user_message
from codex_framework.testing import call, reply, say
from codex_plugin_compaction import Compact
from codex_plugin_compaction.history import OMITTED_OUTPUT, kept_messages
from codex_plugin_compaction.remote import KEPT_TOKENS
from codex_plugin_compaction.summary import token_limit

REMOTE = "model_providers.here.remote_compaction=true"
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
IMAGE = InputImage("data:image/png;base64,AAAA")
LIMIT = "model_auto_compact_token_limit"


@pytest.mark.parametrize(
    ("window", "wanted", "limit"),
    [
        (100_000, None, 90_000),
        (100_000, 50_000, 50_000),
        (100_000, 90_001, 90_000),
        (100_000, 0, 90_000),
        (100_000, -1, 90_000),
        (100_000, "1", 90_000),
        (None, 5, 5),
        (None, None, None),
        (None, 0, None),
    ],
)
def test_the_smaller_limit_counts(window: int | None, wanted: object, limit: int | None) -> None:
    assert token_limit(window, {} if wanted is None else {LIMIT: wanted}) == limit


def test_images_of_a_message_that_is_cut_count_after_its_text() -> None:
    message = Message("user", (InputText("x" * 10_000), IMAGE, IMAGE))  # 2,500 tokens, and 1,844 for each image
    for room, images in ((2_400, 0), (4_300, 0), (4_400, 1), (6_100, 1), (6_200, 2)):
        (kept,) = kept_messages([message], room)
        assert isinstance(kept, Message)
        assert sum(isinstance(part, InputImage) for part in kept.content) == images, room


def test_beside_the_servers_item_only_so_much_of_the_users_words_is_kept(scene: Any, carry_out: Any) -> None:
    words = ["old " * KEPT_TOKENS, "new " * (KEPT_TOKENS // 2)]

    async def story(kernel: Any) -> Any:
        thread = await kernel.start_thread()
        for text in words:
            await thread.run(text)
        await carry_out(thread, Compact())
        return [message_text(item) for item in thread.history.items if isinstance(item, Message)]

    replies = [say("One."), say("Two."), reply(UnknownItem(SEALED))]
    kept = [text for text in scene.play(story, replies, REMOTE) if text.startswith(("old", "new"))]
    assert kept[-1] == words[1]
    assert len(kept[0]) < len(words[0]) * 0.6


@pytest.mark.parametrize(("length", "fits"), [(44_000, False), (1, True)])
def test_the_instructions_take_room_from_the_history(scene: Any, carry_out: Any, length: int, fits: bool) -> None:
    async def story(kernel: Any) -> None:
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, Compact())

    output = call("exec_command", cmd="head -c 6000 /dev/zero | tr '\\0' x", login=False)
    settings = (REMOTE, "model_context_window=12000", f'base_instructions="{"i" * length}"')
    scene.play(story, [output, say("Done."), reply(UnknownItem(SEALED))], *settings)
    asked = scene.asked[-1]["input"]
    assert asked[-1] == {"type": "compaction_trigger"}
    (sent,) = [item["output"] for item in asked if item["type"] == "function_call_output"]
    assert (sent != OMITTED_OUTPUT) is fits


def test_the_newest_words_are_kept_first() -> None:
    kept = kept_messages([user_message("a" * 400), user_message("b" * 400)], 100)
    assert [message_text(item) for item in kept if isinstance(item, Message)] == ["b" * 400]
