"""Events of components that start with their thread, before its first client listens."""

from __future__ import annotations

import asyncio

from codex_framework import Component, EventMsg, ThreadComponent, hookimpl
from codex_framework.contract.protocol.events import RequestPermissionsEvent
from codex_framework.testing import say
from codex_framework.threads import journal


class Ready(EventMsg):
    type = "ready_to_serve"
    number: int


class Part(ThreadComponent):
    def __init__(self, thread):
        self._thread = thread

    async def start(self):
        for number in range(5):
            self._thread.emit(Ready(number))


class Fast(Component):
    name = "fast"

    def for_thread(self, thread):
        return Part(thread)


class Fasts:
    """A plugin of hook implementations."""

    name = "fasts"

    @hookimpl
    def codex_components(self):
        return [Fast()]

    @hookimpl
    def codex_events(self):
        return [Ready]


def numbers(events):
    return [event.msg.number for event in events if isinstance(event.msg, Ready)]


async def heard(make_kernel, *, listen_again=False):
    async with make_kernel([say("Hello.")], plugins=[Fasts()]) as kernel:
        thread = await kernel.start_thread()
        await asyncio.sleep(0.05)
        first = thread.events()
        second = thread.events()
        await thread.run("Hi!")
        await thread.shutdown()
        return [numbers([event async for event in listener]) for listener in (first, second)]


def test_the_first_listener_hears_them(make_kernel):
    first, second = asyncio.run(heard(make_kernel))
    assert (first, second) == ([0, 1, 2, 3, 4], [])


def test_only_so_many_are_kept(make_kernel, monkeypatch):
    monkeypatch.setattr(journal, "_MAX_EARLY", 3)
    first, _ = asyncio.run(heard(make_kernel))
    assert len(first) <= 3
    assert first == list(range(len(first)))


def test_a_request_without_a_listener_is_not_kept_for_one(make_kernel):
    async def story():
        async with make_kernel([], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            emit = thread.conversation.journal.emit
            emit(
                "",
                RequestPermissionsEvent(call_id="1", turn_id="", permissions={}, reason=None, started_at_ms=0, cwd="/"),
            )
            emit("", Ready(1))
            listener = thread.events()
            await thread.shutdown()
            return [
                event.msg.type async for event in listener if isinstance(event.msg, (RequestPermissionsEvent, Ready))
            ]

    assert asyncio.run(story()) == ["ready_to_serve"]
