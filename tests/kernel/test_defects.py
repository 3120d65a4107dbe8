"""A turn ends, and says why, when a part of it breaks its contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from codex_framework import FunctionSpec, ModelError, ToolCall, ToolContext
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import is_output
from codex_framework.contract.roles.models import Completed, ItemDone, ModelEvent, ProviderInfo
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing.replies import call, say


class Store:
    """A store whose recorder breaks its promise never to raise, from the n-th append on."""

    name = "rollout"
    path = None

    def __init__(self, good: int) -> None:
        self._good = good

    def create(self, *_: Any) -> Store:
        return self

    reopen = create

    def load(self, *_: Any) -> Any:
        raise NotImplementedError

    def latest(self, *_: Any, **__: Any) -> None:
        return None

    def append(self, entries: Sequence[Any]) -> None:
        self._good -= 1
        if self._good < 0:
            raise RuntimeError("the store is broken")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("good", [0, 1, 2, 3, 4, 5, 6, 8, 10])
def test_a_store_that_raises_is_given_up_and_the_turn_goes_on(make_thread: Any, good: int) -> None:
    async def main() -> None:
        replies = [call("nothing"), say("done")]
        async with asyncio.timeout(20), make_thread(replies, stores=[Store(good)]) as thread:
            events = thread.events()
            result = await thread.run("go")
            assert result.final_message == "done"
            await thread.shutdown()
            told = [event.msg.message async for event in events if event.msg.type == "warning"]
            fact = "thread store 'rollout' of plugin 'Offer': append() failed: RuntimeError: the store is broken ("
            (warning,) = (text for text in told if text.startswith(fact))
            assert "The conversation is no longer saved." in warning

    asyncio.run(main())


class Returns:
    def __init__(self, value: Any) -> None:
        self.spec = FunctionSpec("odd", "Returns something odd.", {"type": "object", "properties": {}})
        self._value = value

    async def run(self, tool_call: ToolCall, context: ToolContext) -> Any:
        return self._value


@pytest.mark.parametrize(("value", "kind"), [(None, "None"), (5, "int"), (b"x", "bytes"), ([], "list")])
def test_a_tool_that_returns_something_else_is_told_to_the_model(make_thread: Any, value: Any, kind: str) -> None:
    async def main() -> None:
        async with make_thread([call("odd"), say("done")], tools=[Returns(value)]) as thread:
            await thread.run("go")
            outputs = [item.output for item in thread.history.items if is_output(item)]
            assert outputs == [f"odd failed: it returned {kind}, not text or a ToolOutput"]

    asyncio.run(main())


class Stubborn:
    """Does not care for being cancelled."""

    spec = FunctionSpec("stubborn", "Goes on and on.", {"type": "object", "properties": {}})

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.released = asyncio.Event()

    async def run(self, tool_call: ToolCall, context: ToolContext) -> str:
        self.started.set()
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue
        return "at last"


def test_a_tool_that_ignores_cancellation_does_not_hold_an_interrupt(
    make_thread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_framework.threads.turn.driver.CANCEL_PATIENCE_S", 0.05)

    async def main() -> None:
        tool = Stubborn()
        async with make_thread([call("stubborn"), say("no")], tools=[tool]) as thread:
            turn = asyncio.ensure_future(thread.run("go"))
            await tool.started.wait()
            await thread.interrupt()
            result = await turn
            assert result.status is Status.INTERRUPTED
            assert any("was abandoned" in getattr(event, "message", "") for event in result.events)
            tool.released.set()
            await asyncio.sleep(0)

    asyncio.run(main())


class Provider:
    """A provider whose streams a test writes."""

    name = "odd"

    def __init__(self, stream: Any) -> None:
        self.builtin = {"odd": ProviderInfo(id="odd", wire_api="odd", stream_max_retries=0)}
        self._stream = stream

    def open(self, *_: Any) -> Provider:
        return self

    def model(self, slug: str) -> None:
        return None

    def stream(self, request: Any) -> AsyncIterator[ModelEvent]:
        stream: AsyncIterator[ModelEvent] = self._stream(request)
        return stream

    async def aclose(self) -> None:
        pass


async def ends_without_a_word(_: Any) -> AsyncIterator[ModelEvent]:
    for event in ():
        yield event


async def raises_something(_: Any) -> AsyncIterator[ModelEvent]:
    raise ZeroDivisionError("oops")
    yield


async def raises_after_the_end(_: Any) -> AsyncIterator[ModelEvent]:
    yield Completed("r")
    raise ModelError("too late to matter", retryable=True)


async def sends_rubbish(_: Any) -> AsyncIterator[ModelEvent]:
    yield "not an event"  # type: ignore[misc]


async def sends_an_item_that_cannot_be_written(_: Any) -> AsyncIterator[ModelEvent]:
    yield ItemDone(object())  # type: ignore[arg-type]
    yield Completed("r")


@pytest.mark.parametrize(
    ("stream", "status", "word"),
    [
        (ends_without_a_word, Status.FAILED, "stream closed before response.completed"),
        (raises_something, Status.FAILED, "stream() failed: ZeroDivisionError: oops ("),
        (raises_after_the_end, Status.COMPLETED, None),
        (sends_rubbish, Status.FAILED, "failed"),
        (sends_an_item_that_cannot_be_written, Status.FAILED, "it yielded an item that is object ("),
    ],
)
def test_a_provider_that_breaks_its_contract_ends_the_turn(
    make_thread: Any, stream: Any, status: Status, word: str | None
) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(20),
            make_thread([], providers=[Provider(stream)], config=['model_provider="odd"']) as thread,
        ):
            result = await thread.run("go")
            assert result.status is status
            assert (word is None) == (result.error is None)
            assert word is None or word in str(result.error)
            assert not thread.running

    asyncio.run(main())


def test_two_turns_at_once_are_refused_and_the_first_goes_on(make_thread: Any) -> None:
    async def main() -> None:
        slow = say("slow").evolve(delay_s=0.05)
        async with make_thread([slow]) as thread:
            first = asyncio.ensure_future(thread.run("one"))
            await asyncio.sleep(0.01)
            with pytest.raises(Exception, match="a turn is already running"):
                await thread.run("two")
            assert (await first).final_message == "slow"

    asyncio.run(main())


async def never_stops_after_the_end(_: Any) -> AsyncIterator[ModelEvent]:
    yield Completed("r")
    await asyncio.Event().wait()


def test_a_stream_that_goes_on_after_its_end_is_cut(make_thread: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_framework.threads.turn.sampling.TAIL_PATIENCE_S", 0.05)

    async def main() -> None:
        options = {"providers": [Provider(never_stops_after_the_end)], "config": ['model_provider="odd"']}
        async with asyncio.timeout(20), make_thread([], **options) as thread:
            assert (await thread.run("go")).status is Status.COMPLETED

    asyncio.run(main())


async def completes_twice_and_fails(_: Any) -> AsyncIterator[ModelEvent]:
    yield Completed("r", TokenUsage(total_tokens=7))
    yield Completed("r", TokenUsage(total_tokens=7))
    raise RuntimeError("the connection broke")


def test_what_comes_after_the_end_of_a_response_neither_counts_nor_fails_the_turn(make_thread: Any) -> None:
    async def main() -> None:
        options = {"providers": [Provider(completes_twice_and_fails)], "config": ['model_provider="odd"']}
        async with asyncio.timeout(20), make_thread([], **options) as thread:
            result = await thread.run("go")
            assert result.status is Status.COMPLETED
            assert result.usage.total_tokens == 7

    asyncio.run(main())


class Exits(Returns):
    async def run(self, tool_call: ToolCall, context: ToolContext) -> Any:
        raise SystemExit(3)


def test_a_tool_that_exits_is_told_to_the_model(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([call("odd"), say("done")], tools=[Exits(None)]) as thread:
            result = await thread.run("go")
            outputs = [item.output for item in thread.history.items if is_output(item)]
            assert outputs == ["odd failed: SystemExit: 3"]
            assert result.final_message == "done"

    asyncio.run(main())
