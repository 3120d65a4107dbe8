"""A plugin for workers: a model that works through the steps of its prompt, and a tool whose effect is a line in a file.

The prompt is JSON: {"name": TEXT, "steps": N, "pause_s": S, "ask": BOOL, "die_at": N}.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from codex_framework import Agent, ModelProvider, ModelRequest, Tool, ToolContext, hookimpl, tool
from codex_framework.contract.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    is_user_message,
    message_text,
)
from codex_framework.testing import ScriptedModel, call, fail, say


def effects(name: str) -> Path:
    return Path(os.environ["EFFECTS"]) / name


def lines(name: str) -> list[str]:
    path = effects(name)
    return path.read_text().splitlines() if path.exists() else []


def decide(request: ModelRequest) -> Any:
    """Take the next step that has no effect yet. After ``aborted`` the file tells whether there was one."""
    items = request.prompt.items
    task = json.loads(
        next(message_text(item) for item in items if is_user_message(item) and "steps" in message_text(item))
    )
    if task.get("fails") and not effects(task["name"] + ".failed").exists():
        effects(task["name"] + ".failed").touch()
        return fail("the server is busy", retryable=True)
    calls = {item.call_id: item for item in items if isinstance(item, FunctionCall)}
    done = set()
    for item in items:
        if isinstance(item, FunctionCallOutput):
            step = json.loads(calls[item.call_id].arguments)["step"]
            if item.output == "done" or str(step) in {line.split()[0] for line in lines(task["name"])}:
                done.add(step)
    for step in range(1, task["steps"] + 1):
        if step not in done:
            name = "ask_first" if task.get("ask") else "act"
            arguments = {key: task.get(key, 0) for key in ("pause_s", "die_at")}
            return call(name, call_id=f"call_{len(calls)}", name=task["name"], step=step, **arguments)
    return say(f"{task['name']}: {len(done)} steps")


async def _act(name: str, step: int, pause_s: float, die_at: int) -> str:
    with effects(name).open("a") as file:
        file.write(f"{step} {os.getpid()}\n")
    if step == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(pause_s)
    return "done"


@tool
async def act(name: str, step: int, pause_s: float, die_at: int, context: ToolContext) -> str:
    """Act."""
    return await _act(name, step, pause_s, die_at)


@tool(needs_approval=True)
async def ask_first(name: str, step: int, pause_s: float, die_at: int, context: ToolContext) -> str:
    """Act, with an approval."""
    return await _act(name, step, pause_s, die_at)


@hookimpl
def codex_model_providers() -> Iterable[ModelProvider]:
    return [ScriptedModel([decide], repeat_last=True)]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    return [act, ask_first]


@hookimpl
def codex_agents() -> Iterable[Agent[Any]]:
    return [Agent(name="stepper")]
