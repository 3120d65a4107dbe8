"""The ops with which clients see and end commands that run in the background."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework.testing import call, say
from codex_plugin_unified_exec.background import ListBackgroundTerminals, TerminateBackgroundTerminal
from codex_plugin_unified_exec.events import BackgroundTerminalsEvent, BackgroundTerminalTerminatedEvent


def test_a_command_in_the_background_is_listed_and_ended(make_thread: Any) -> None:
    config = ['approval_policy="never"', 'sandbox_mode="danger-full-access"']

    async def main() -> None:
        async with make_thread(config=config) as thread, asyncio.timeout(60):
            command = call("exec_command", cmd="sleep 600", workdir="/", yield_time_ms=250, login=False, shell="sh")
            await thread.turn("go", command, say("done"))
            await thread.client.submit(ListBackgroundTerminals())
            (one,) = (await thread.until(BackgroundTerminalsEvent)).terminals
            assert (one.command, one.cwd) == ("sleep 600", "/")
            for terminated in (True, False):
                await thread.client.submit(TerminateBackgroundTerminal(one.process_id))
                assert (await thread.until(BackgroundTerminalTerminatedEvent)).terminated is terminated
            await thread.client.submit(ListBackgroundTerminals())
            assert (await thread.until(BackgroundTerminalsEvent)).terminals == ()

    asyncio.run(main())
