"""Plugins that listen to their thread (``ThreadContext.events``)."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework import Approval, ToolApprovalRequestEvent
from codex_framework.contract.protocol.events import (
    SessionConfiguredEvent,
    TurnCompleteEvent,
    UserMessageEvent,
    WarningEvent,
)
from codex_framework.testing import Offer, say


def test_a_plugin_hears_its_thread_from_then_on_until_it_closes(make_thread: Any) -> None:
    async def story() -> list[str]:
        async with make_thread(Offer(name="ear")) as thread:
            await thread.turn("Before.", say("Hi."))
            events = thread.inside("ear").events()
            await thread.turn("After.", say("Hi."))
            heard = []
            async for event in events:
                heard.append(event.msg)
                if isinstance(event.msg, TurnCompleteEvent):
                    events.close()
                    events.close()
            await thread.turn("Later.", say("Hi."))
            return [event.message if isinstance(event, UserMessageEvent) else event.type for event in heard]

    heard = asyncio.run(story())
    assert heard[0] == "task_started"
    assert "After." in heard
    assert heard[-1] == "task_complete"
    assert SessionConfiguredEvent.type not in heard


def test_a_plugin_that_listens_takes_nothing_from_the_first_client(make_kernel: Any) -> None:
    async def story() -> tuple[list[str], list[str], bool]:
        async with make_kernel([say("Hi.")], plugins=[Offer(name="ear")]) as kernel:
            thread = await kernel.start_thread()
            inside = thread.conversation.context("ear")
            events = inside.events()
            inside.warn("Kept for the first client.")
            approval = Approval(question="?")
            question = ToolApprovalRequestEvent(call_id="c", turn_id="t", tool="t", approval=approval, request_id="c")
            attended = thread.conversation.journal.answering(question) > 0
            listener = thread.events()
            await thread.shutdown()
            own = [event.msg.type async for event in events]
            return [event.msg.message async for event in listener if isinstance(event.msg, WarningEvent)], own, attended

    told, own, attended = asyncio.run(story())
    assert told == ["Kept for the first client."]
    assert own == ["shutdown_complete"]
    assert attended is False


def test_a_listener_that_falls_behind_is_ended(make_thread: Any) -> None:
    async def story() -> tuple[str, bool]:
        async with make_thread(Offer(name="ear")) as thread:
            inside = thread.inside("ear")
            events = inside.events(limit=1)
            for number in range(5):
                inside.emit(WarningEvent(str(number)))
            heard = [event.msg.message async for event in events]
            return heard[-1], heard[:4] == ["0", "1", "2", "3"]

    last, whole = asyncio.run(story())
    assert "was disconnected" in last
    assert whole
