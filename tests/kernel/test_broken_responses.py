"""Responses that are not whole: nothing of them is lost without a word, and no conversation is spoilt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Completed, ItemDone, ModelError, ModelInfo, ModelProvider, ProviderInfo, Task
from codex_framework.contract.protocol.events import StreamErrorEvent, TokenCountEvent, TokenUsage
from codex_framework.contract.protocol.items import Message, OutputText, UnknownItem
from codex_framework.contract.roles.models import RateLimits
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


class Unlikely(Failing):
    """Its counts of tokens are nonsense."""

    name = "unlikely"

    async def stream(self, request: Any) -> Any:
        yield ItemDone(Message("assistant", (OutputText("Hi."),)))
        yield Completed("r", TokenUsage(-5, True, 7, 1.5, 10**30, "x"))  # type: ignore[arg-type]


def test_counts_that_are_none_are_0(make_thread: Any) -> None:
    async def main() -> None:
        config = ('model_provider="unlikely"', 'model_providers.unlikely={wire_api="unlikely"}')
        async with make_thread([], config=config, providers=[Unlikely()]) as thread:
            ended = await thread.run("go")
            assert (ended.status, ended.final_message) == (Status.COMPLETED, "Hi.")
            assert thread.total_usage == TokenUsage(output_tokens=7)

    asyncio.run(main())


@pytest.mark.parametrize("delay", [float("nan"), float("inf"), -3, "soon", 10**9, True])
def test_a_delay_that_is_none_is_ignored(make_thread: Any, delay: Any) -> None:
    class Hasty(Failing):
        name = "hasty"

        async def stream(self, request: Any) -> Any:
            raise ModelError("No.", retryable=True, retry_after_s=delay, info=object())  # type: ignore[arg-type]
            yield

    async def main() -> None:
        config = ('model_provider="hasty"', 'model_providers.hasty={wire_api="hasty", stream_max_retries=1}')
        async with make_thread([], config=config, providers=[Hasty()]) as thread:
            ended = await asyncio.wait_for(thread.run("go"), 60)
            assert (ended.status, ended.error) == (Status.FAILED, "No.")

    asyncio.run(main())


def test_rate_limits_that_are_no_json_are_refused(make_thread: Any) -> None:
    class Limited(Failing):
        name = "limited"

        async def stream(self, request: Any) -> Any:
            yield RateLimits({"primary": object()})
            yield Completed("r")

    async def main() -> None:
        config = ('model_provider="limited"', 'model_providers.limited={wire_api="limited"}')
        async with make_thread([], config=config, providers=[Limited()]) as thread:
            assert "its `snapshot` is not plain JSON data: it has object in it" in str((await thread.run("go")).error)

    asyncio.run(main())


def test_a_compaction_ends_when_its_provider_cancels_itself(make_thread: Any) -> None:
    class Leaving(Failing):
        name = "leaving"
        asked = 0

        async def stream(self, request: Any) -> Any:
            self.asked += 1
            if self.asked > 1:
                raise asyncio.CancelledError
            yield ItemDone(Message("assistant", (OutputText("Hi."),)))
            yield Completed("r")

    class Asking(Task):
        kind = "asking"

        async def run(self, turn: Any, input: Any) -> None:  # noqa: A002  # the word of the contract
            await turn.sample(turn.draft())

    async def main() -> None:
        config = ('model_provider="leaving"', 'model_providers.leaving={wire_api="leaving"}')
        async with make_thread([], config=config, providers=[Leaving()]) as thread:
            await thread.run("go")
            thread.conversation.context("offer-1").start_task(Asking())
            ended = await asyncio.wait_for(thread.settled(), 60)
            assert ended.status is Status.FAILED
            assert "CancelledError" in str(ended.error)

    asyncio.run(main())
