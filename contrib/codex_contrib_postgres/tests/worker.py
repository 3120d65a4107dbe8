"""A process that continues or starts one thread against a scripted model. Its tool appends a line to a file: python worker.py JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from codex_framework import Kernel, ToolContext, tool
from codex_framework.config import load_config
from codex_framework.testing import Offer, ScriptedModel, call, say


async def main(task: dict[str, Any]) -> None:
    """Run turns that call the tool once each; print a line at the end of each turn."""
    effects = Path(task["effects"])

    @tool
    async def act(number: int, context: ToolContext) -> str:
        """Act."""
        with effects.open("a") as file:
            file.write(f"{number} {context.thread_id} {os.getpid()}\n")
        if task.get("dies_at") == number:
            os.kill(os.getpid(), 9)
        if task.get("sleeps_at") == number:
            print("asleep", flush=True)
            await asyncio.sleep(task["sleeps_s"])
        return "done"

    first, last = task["turns"]
    replies = [
        reply for number in range(first, last + 1) for reply in (call("act", number=number), say(f"turn {number}"))
    ]
    model = ScriptedModel(replies)
    overrides = (
        'framework.thread_store="postgres"',
        'model_provider="scripted"',
        'sandbox_mode="danger-full-access"',
        'approval_policy="never"',
        *(f"framework.plugins.postgres.{key}={json.dumps(value)}" for key, value in task["settings"].items()),
    )
    environ = {"CODEX_HOME": task["home"], "PATH": os.environ["PATH"], "CODEX_DATABASE_URL": task["url"]}
    config = load_config(cwd=Path(task["home"]), environ=environ, overrides=overrides)
    store = EntryPoint("postgres", "codex_contrib_postgres:Postgres", "codex_framework")
    offer = Offer(providers=[model], tools=[act])
    async with await Kernel.create(config, environ=environ, entry_points=[store], plugins=[offer]) as kernel:
        for warning in kernel.registry.warnings:
            print("warning", warning, flush=True)
        if "thread" in task:
            thread = await kernel.resume_thread(task["thread"])
        else:
            thread = await kernel.start_thread()
        print("thread", thread.id, flush=True)
        for number in range(first, last + 1):
            result = await thread.run(f"do {number}")
            print("turn", number, result.status.value, result.error or "", flush=True)
            time.sleep(task.get("pause_s", 0))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
