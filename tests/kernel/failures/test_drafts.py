"""``ThreadContext.draft``: the request that a turn would send now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import (
    Agent,
    Component,
    Interceptor,
    Limits,
    ModelRequest,
    ThreadComponent,
    ThreadContext,
    Tool,
    TurnContext,
    TurnFacts,
    tool,
)
from codex_framework.contract.protocol.items import user_message
from codex_framework.testing import say


@tool
async def note(text: str) -> str:
    """Note a text."""
    return text


class Slow(ThreadComponent):
    """A part with a tool, which starts after a while."""

    required = True
    fails = False

    async def start(self) -> None:
        await asyncio.sleep(0.01)
        if self.fails:
            raise RuntimeError("no server")

    def tools(self, turn: TurnFacts) -> list[Tool]:
        return [note]


class Failing(Slow):
    fails = True


class Hanging(Slow):
    async def start(self) -> None:
        await asyncio.sleep(3600)


class Parts(Component):
    name = "parts"

    def __init__(self, kind: type[ThreadComponent]) -> None:
        self._kind = kind

    def for_thread(self, thread: ThreadContext) -> ThreadComponent:
        return self._kind()


class Changing(Interceptor):
    name = "changing"

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:
        return request.evolve(instructions="Others.")


def test_a_draft_is_what_the_first_turn_sends_apart_from_its_input(thread_with: Any) -> None:
    async def story() -> None:
        async with thread_with(components=[Parts(Slow)]) as thread:
            draft = await thread.inside("careless").draft()
            await thread.turn("Hi!", say("Hello."))
            empty = await thread.inside("careless").draft([])
            whole = await thread.inside("careless").draft()
            other = await thread.inside("careless").draft([user_message("x")])
            (sent,) = thread.requests
            assert draft is not None
            assert [spec.name for spec in draft.tools if hasattr(spec, "name")] == ["note"]
            same = sent.evolve(turn_id="", prompt=draft.prompt)
            assert draft == same
            assert draft.prompt.encoded() == b"[]"
            assert empty is not None
            assert (empty.evolve(prompt=draft.prompt), list(empty.prompt.items)) == (same, [])
            assert whole is not None
            assert list(whole.prompt.items) == list(thread.history)
            assert other is not None
            assert [item.type for item in other.prompt.items] == ["message"]

    asyncio.run(story())


def test_what_an_interceptor_may_change_has_no_draft(thread_with: Any) -> None:
    async def story() -> None:
        async with thread_with(components=[Parts(Slow)], interceptors=[Changing()]) as thread:
            assert await thread.inside("careless").draft() is None

    asyncio.run(story())


def test_a_thread_at_its_limit_has_no_draft(thread_with: Any) -> None:
    async def story() -> None:
        agent = Agent(name="a", description="", instructions="", limits=Limits(requests=1))
        async with thread_with(components=[Parts(Slow)], agent=agent) as thread:
            assert await thread.inside("careless").draft() is not None
            await thread.turn("Hi!", say("Hello."))
            assert await thread.inside("careless").draft() is None

    asyncio.run(story())


def test_a_draft_leaves_the_failure_of_a_required_component_to_the_turn(thread_with: Any) -> None:
    async def story() -> None:
        async with thread_with(components=[Parts(Failing)]) as thread:
            assert await thread.inside("careless").draft() is None
            result = await thread.turn("Hi!", say("Hello."))
            assert "no server" in str(result.error)

    asyncio.run(story())


def test_a_component_that_never_starts_has_no_draft(thread_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_framework.threads.thread_parts.STARTED_PATIENCE_S", 0.02)

    async def story() -> None:
        async with thread_with(components=[Parts(Hanging)]) as thread:
            assert await thread.inside("careless").draft() is None

    asyncio.run(story())


def test_a_draft_of_what_is_no_item_is_refused(thread_with: Any) -> None:
    async def story() -> None:
        async with thread_with(components=[Parts(Slow)]) as thread:
            with pytest.raises(TypeError, match="drafted"):
                await thread.inside("careless").draft(["x"])  # type: ignore[list-item]

    asyncio.run(story())
