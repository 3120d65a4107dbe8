"""Listeners of a thread: which events they get, and what they can answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Component, Decision, ReviewDecision, ThreadContext, ToolApprovalRequestEvent, tool
from codex_framework.contract.protocol.events import (
    AgentReasoningRawContentEvent,
    ExecApprovalRequestEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    Request,
    RequestResolvedEvent,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.contract.protocol.ops import ExecApproval
from codex_framework.testing import call, reply, say

ON_REQUEST = ('approval_policy="on-request"',)


@tool(needs_approval=True)
def deploy() -> str:
    """Deploy."""
    return "deployed"


def test_a_listener_gets_the_classes_that_it_wants_and_those_derived_from_them(make_thread: Any) -> None:
    async def main() -> list[str]:
        async with make_thread([call("deploy"), say("Done.")], tools=[deploy], config=ON_REQUEST) as thread:
            events = thread.events((Request, TurnCompleteEvent))
            turn = asyncio.ensure_future(thread.run("go"))
            heard = []
            async for event in events:
                heard.append(event.msg.type)
                if isinstance(event.msg, ToolApprovalRequestEvent):
                    assert thread.answer(event.msg.request_id, ReviewDecision(Decision.APPROVED))
                if isinstance(event.msg, TurnCompleteEvent):
                    break
            await turn
            return heard

    assert asyncio.run(main()) == ["tool_approval_request", "task_complete"]


@pytest.mark.parametrize("only", [(TurnCompleteEvent,), (ExecApprovalRequestEvent,), ()])
def test_nobody_answers_a_request_that_no_listener_gets(make_thread: Any, only: tuple[Any, ...]) -> None:
    async def main() -> tuple[str, list[str]]:
        async with make_thread([call("deploy"), say("Done.")], tools=[deploy], config=ON_REQUEST) as thread:
            listener = thread.events(only)
            result = await asyncio.wait_for(thread.run("go"), 20)
            warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
            listener.close()
            return str(thread.history.items[-2]), warnings

    output, warnings = asyncio.run(main())
    assert "deployed" not in output
    assert any("nobody can answer" in warning for warning in warnings)


def test_a_client_that_nobody_is_behind_declines_a_request(make_thread: Any) -> None:
    async def main() -> tuple[str, list[str]]:
        async with make_thread([call("deploy"), say("Done.")], tools=[deploy], config=ON_REQUEST) as thread:
            closed = []
            async for event in thread.stream("go"):
                if isinstance(event, ToolApprovalRequestEvent):
                    thread.decline(event.request_id)
                    thread.decline(event.request_id)
                    thread.decline("another one")
                    assert not thread.answer(event.request_id, ReviewDecision(Decision.APPROVED))
                if isinstance(event, RequestResolvedEvent):
                    closed.append(event.how.value)
            return str(thread.history.items[-2]), closed

    output, closed = asyncio.run(main())
    assert "no user can be asked" in output
    assert closed == ["unattended"]


def test_input_is_an_item_with_its_begin_its_end_and_the_id_of_the_client(make_thread: Any) -> None:
    async def main() -> list[Any]:
        async with make_thread([say("Done.")]) as thread:
            events = thread.events((ItemStartedEvent, ItemCompletedEvent))
            await thread.run("go")
            await thread.shutdown()
            return [event async for event in events]

    begin, end, *_ = asyncio.run(main())
    assert (begin.msg.type, end.msg.type) == ("item_started", "item_completed")
    assert begin.msg.item == end.msg.item
    assert begin.msg.item["type"] == "UserMessage"
    assert begin.msg.item["content"] == [{"type": "text", "text": "go", "text_elements": []}]
    assert begin.msg.turn_id == begin.id == end.id
    assert end.msg.started_at_ms <= end.msg.completed_at_ms


@pytest.mark.parametrize("shown", [True, False])
def test_raw_reasoning_has_an_event_if_it_is_to_be_shown(make_thread: Any, shown: bool) -> None:
    thought = Reasoning(summary=(), content=({"type": "reasoning_text", "text": "Hm."},))

    async def main() -> list[str]:
        config = [f"show_raw_agent_reasoning={str(shown).lower()}"]
        async with make_thread([reply(thought) + say("Done.")], config=config) as thread:
            events = (await thread.run("go")).events
            return [event.text for event in events if isinstance(event, AgentReasoningRawContentEvent)]

    assert asyncio.run(main()) == (["Hm."] if shown else [])


def test_warnings_say_what_they_are_about(make_thread: Any) -> None:
    class Clumsy(Component):
        name = "clumsy"

        def for_thread(self, thread: ThreadContext) -> None:
            thread.warn("I start.")
            thread.warn("I am old.", slug="age")
            raise ValueError("I fall.")

    async def main() -> list[tuple[str, str]]:
        replies = [call("deploy"), say("Done.")]
        async with make_thread(replies, tools=[deploy], config=ON_REQUEST, components=[Clumsy()]) as thread:
            events = thread.events((WarningEvent,), answers=False)
            await thread.run("go")
            await thread.submit(ExecApproval("nobody-asked", ReviewDecision(Decision.APPROVED)))
            await thread.shutdown()
            return [(event.msg.slug, event.msg.message) async for event in events]

    warnings = asyncio.run(main())
    told = [
        (slug, words)
        for slug, text in warnings
        for words in ("I start", "I am old", "I fall", "nobody", "open")
        if words in text
    ]
    assert told == [
        ("warning", "I start"),
        ("age", "I am old"),
        ("plugin-failed", "I fall"),
        ("nobody-answers", "nobody"),
        ("late-answer", "nobody"),
        ("late-answer", "open"),
    ]
