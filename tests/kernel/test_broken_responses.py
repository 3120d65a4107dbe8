"""Responses that are not whole: nothing of them is lost without a word, and no conversation is spoilt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Completed, ItemDone, ModelError, ModelInfo, ModelProvider, ProviderInfo
from codex_framework.contract.protocol.events import StreamErrorEvent, TokenCountEvent, TokenUsage
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing.replies import reply, say

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
CALL = {"type": "function_call", "name": "t", "arguments": "{}", "call_id": "c"}


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ({}, "an item without a type"),
        ({**MESSAGE, "type": 7}, "an item without a type"),
        ({**MESSAGE, "content": "hi"}, "a message with a wrong `content`"),
        ({**MESSAGE, "role": None}, "a message without `role`"),
        ({**CALL, "call_id": None}, "a function_call without `call_id`"),
        ({**CALL, "arguments": {"a": 1}}, "a function_call with a wrong `arguments`"),
        ({"type": "custom_tool_call", "name": "t", "call_id": "c"}, "a custom_tool_call without `input`"),
        ({"type": "local_shell_call", "action": "ls"}, "a local_shell_call with a wrong `action`"),
        ({"type": "tool_search_call", "execution": "client"}, "a tool_search_call without `call_id`"),
    ],
)
def test_an_item_that_cannot_be_read_makes_the_response_broken(make_thread: Any, raw: Any, fault: str) -> None:
    async def main() -> None:
        async with make_thread([reply(UnknownItem(raw)), say("again")]) as thread:
            ended = await thread.run("go")
            (told,) = [event for event in ended.events if isinstance(event, StreamErrorEvent)]
            assert told.additional_details == f"stream disconnected before completion: the model server sent {fault}"
            assert ended.final_message == "again"
            assert not any(isinstance(item, UnknownItem) for item in thread.history.items)

    asyncio.run(main())


def test_a_server_that_goes_on_sending_such_items_fails_the_turn(make_thread: Any) -> None:
    async def main() -> None:
        replies = [reply(UnknownItem({**CALL, "call_id": None}))] * 2
        provider = 'model_providers.own={wire_api="scripted", stream_max_retries=1}'
        async with make_thread(replies, config=('model_provider="own"', provider)) as thread:
            ended = await thread.run("go")
            assert ended.status is Status.FAILED
            assert ended.error.endswith("the model server sent a function_call without `call_id`")

    asyncio.run(main())


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "hologram"},
        {"type": "reasoning", "summary": "odd"},
        {"type": "tool_search_call", "execution": "server"},
    ],
)
def test_other_items_are_kept_as_they_came(make_thread: Any, raw: Any) -> None:
    async def main() -> None:
        async with make_thread([reply(UnknownItem(raw))]) as thread:
            assert (await thread.run("go")).status is Status.COMPLETED
            assert thread.history.items[-1] == UnknownItem(raw)

    asyncio.run(main())


def test_a_tool_search_is_answered_and_the_model_goes_on(make_thread: Any) -> None:
    async def main() -> None:
        item = UnknownItem({"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {}})
        async with make_thread([reply(item), say("done")]) as thread:
            assert (await thread.run("go")).final_message == "done"
            last = thread.model.requests[-1].prompt.items[-1]
            assert (last.raw["type"], last.raw["call_id"], last.raw["tools"]) == ("tool_search_output", "s", [])

    asyncio.run(main())


class Failing(ModelProvider):
    """Its responses fail, after tokens were spent."""

    name = "failing"

    def open(self, info: ProviderInfo, env: Any) -> Any:
        return self

    def model(self, slug: str) -> ModelInfo | None:
        return None

    async def stream(self, request: Any) -> Any:
        yield ItemDone(UnknownItem({"type": "hologram"}))
        raise ModelError("Incomplete response returned, reason: max_output_tokens", usage=TokenUsage(11, 0, 7, 0, 18))
        yield Completed("never")

    async def aclose(self) -> None:
        pass


def test_the_tokens_of_a_response_that_failed_are_counted(make_thread: Any) -> None:
    async def main() -> None:
        config = ('model_provider="failing"', 'model_providers.failing={wire_api="failing"}')
        async with make_thread([], config=config, providers=[Failing()]) as thread:
            ended = await thread.run("go")
            assert ended.status is Status.FAILED
            (told,) = [event for event in ended.events if isinstance(event, TokenCountEvent)]
            assert told.info is not None
            assert told.info.total_token_usage == thread.total_usage == TokenUsage(11, 0, 7, 0, 18)

    asyncio.run(main())
