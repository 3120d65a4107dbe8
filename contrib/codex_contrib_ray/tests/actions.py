"""A plugin file of the workers: tools whose effects are lines in a file, and an agent."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from codex_framework import Agent, ToolContext, hookimpl, tool


@tool
async def act(number: int, context: ToolContext) -> str:
    """Act once."""
    folder = Path(context.cwd)
    line = f"{context.thread_id} {number} {os.getpid()}\n".encode()
    file = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    while (folder / "block").exists():
        time.sleep(0.02)  # no other session of the worker gets on
    while (folder / "hold").exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            if not (folder / "persist").exists():
                raise
    return "done"


@hookimpl
def codex_tools() -> list[object]:
    return [act]


@hookimpl
def codex_agents() -> list[Agent[str]]:
    return [Agent(name="actor", instructions="Act.")]
