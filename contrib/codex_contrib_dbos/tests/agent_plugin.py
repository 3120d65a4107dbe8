"""A plugin for workers: tools whose effect is a line in a file, and an agent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from codex_framework import Agent, Tool, ToolContext, hookimpl, tool


async def _act(name: str, step: int, pause_s: float, die_at: int, attempt: int) -> str:
    path = Path(os.environ["EFFECTS"]) / name
    if attempt == 1 or not path.exists() or str(step) not in {line.split()[0] for line in path.open()}:
        with path.open("a") as file:
            file.write(f"{step} {os.getpid()}\n")
    if step == die_at and attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        await asyncio.sleep(pause_s if attempt == 1 else 0)
    except asyncio.CancelledError:
        (Path(os.environ["EFFECTS"]) / f"{name}.cancelled").touch()
        raise
    return "done"


@tool
async def act(name: str, step: int, pause_s: float, die_at: int, attempt: int, context: ToolContext) -> str:
    """Act."""
    return await _act(name, step, pause_s, die_at, attempt)


@tool(needs_approval=True)
async def ask_first(name: str, step: int, pause_s: float, die_at: int, attempt: int, context: ToolContext) -> str:
    """Act, with an approval."""
    return await _act(name, step, pause_s, die_at, attempt)


@hookimpl
def codex_tools() -> Iterable[Tool]:
    return [act, ask_first]


@hookimpl
def codex_agents() -> Iterable[Agent[Any]]:
    return [Agent(name="stepper")]
