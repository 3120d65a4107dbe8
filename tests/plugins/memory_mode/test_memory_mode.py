"""The memory mode of a thread: set, kept over a resume, read by Codex, and refused if it is unknown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.testing import say
from codex_plugin_memory_mode import SetThreadMemoryMode, memory_mode


def heads(thread: Any) -> list[dict[str, Any]]:
    """The heads in a thread's file."""
    lines = [json.loads(line) for line in Path(thread.conversation.journal.path).read_text().splitlines()]
    return [line["payload"] for line in lines if line["type"] == "session_meta"]


def test_the_mode_is_kept_over_a_resume_and_in_forks(make_kernel: Any) -> None:
    async def first() -> str:
        async with make_kernel([say("hi"), say("hi")]) as kernel:
            thread = await kernel.start_thread()
            assert memory_mode(thread.meta) == "enabled"
            await thread.run("Go!")
            await thread.submit(SetThreadMemoryMode("disabled"))
            await thread.submit(SetThreadMemoryMode("disabled"))
            await thread.run("Go!")
            first, last = heads(thread)
            assert last == {**first, "memory_mode": "disabled"}
            return str(thread.id)

    thread_id = asyncio.run(first())

    async def second() -> list[str]:
        async with make_kernel() as kernel:
            fork = await kernel.resume_thread(kernel.fork_thread(thread_id, at=1))
            thread = await kernel.resume_thread(thread_id)
            modes = [memory_mode(fork.meta), memory_mode(thread.meta)]
            await thread.submit(SetThreadMemoryMode("enabled"))
            return [*modes, memory_mode(thread.meta), heads(thread)[-1]["memory_mode"]]

    assert asyncio.run(second()) == ["disabled", "disabled", "enabled", "enabled"]


def test_a_mode_that_is_set_first_is_in_the_first_line(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("hi")]) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(SetThreadMemoryMode("disabled"))
            assert not Path(thread.conversation.journal.path).exists()
            await thread.run("Go!")
            return heads(thread)

    (head,) = asyncio.run(main())
    assert head["memory_mode"] == "disabled"


@pytest.mark.parametrize("mode", ["nope", "", "Enabled", "polluted", 5])
def test_an_unknown_mode_is_refused_and_the_session_goes_on(make_kernel: Any, mode: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("hi")]) as kernel:
            thread = await kernel.start_thread()
            listener = thread.events()
            await thread.submit(SetThreadMemoryMode(mode))
            result = await thread.run("Go!")
            await thread.shutdown()
            errors = [event.msg.message async for event in listener if isinstance(event.msg, ErrorEvent)]
            return errors, result.final_message, memory_mode(thread.meta)

    (error,), message, kept = asyncio.run(main())
    assert "mode" in error
    assert (message, kept) == ("hi", "enabled")


def test_nothing_else_of_the_metadata_can_be_changed(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("hi")]) as kernel:
            thread = await kernel.start_thread()
            context = thread.conversation.context("memory_mode")
            for field in ("id", "history_base", "source_detail"):
                with pytest.raises(Exception, match=f"'{field}' of a thread's metadata cannot change"):
                    context.change_meta(memory_mode="disabled", **{field: "x"})
            return thread.meta.extra

    assert "memory_mode" not in asyncio.run(main())
