"""The memory mode of a thread: set, kept over a resume, and refused if it is unknown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.testing import say
from codex_plugin_memory_mode import SetThreadMemoryMode, memory_mode
from codex_plugin_memory_mode.ops import KIND


def mode_of(thread: Any) -> str:
    context = thread.conversation.context("memory_mode")
    return memory_mode(context.entries(KIND), context.meta.extra)


def test_the_mode_is_kept_over_a_resume(make_kernel: Any) -> None:
    async def first() -> str:
        async with make_kernel([say("hi")]) as kernel:
            thread = await kernel.start_thread()
            assert mode_of(thread) == "enabled"
            await thread.submit(SetThreadMemoryMode("disabled"))
            await thread.submit(SetThreadMemoryMode("disabled"))
            await thread.run("Go!")
            assert len(thread.conversation.context("memory_mode").entries(KIND)) == 1
            return str(thread.id)

    thread_id = asyncio.run(first())

    async def second() -> tuple[str, str]:
        async with make_kernel() as kernel:
            thread = await kernel.resume_thread(thread_id)
            before = mode_of(thread)
            await thread.submit(SetThreadMemoryMode("enabled"))
            return before, mode_of(thread)

    assert asyncio.run(second()) == ("disabled", "enabled")


def test_the_mode_that_codex_wrote_counts_until_another_is_set() -> None:
    assert memory_mode([], {"memory_mode": "polluted"}) == "polluted"
    assert memory_mode([{"mode": "disabled"}, {"mode": 5}, {}], {"memory_mode": "enabled"}) == "disabled"
    assert memory_mode([], {"memory_mode": 5}) == "enabled"


@pytest.mark.parametrize("mode", ["nope", "", "Enabled", 5])
def test_an_unknown_mode_is_refused_and_the_session_goes_on(make_kernel: Any, mode: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("hi")]) as kernel:
            thread = await kernel.start_thread()
            listener = thread.events()
            await thread.submit(SetThreadMemoryMode(mode))
            result = await thread.run("Go!")
            await thread.shutdown()
            errors = [event.msg.message async for event in listener if isinstance(event.msg, ErrorEvent)]
            return errors, result.final_message, mode_of(thread)

    (error,), message, kept = asyncio.run(main())
    assert "mode" in error
    assert (message, kept) == ("hi", "enabled")
