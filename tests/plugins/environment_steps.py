"""Turns with selections of environments, in Codex and here: the last request of each is compared."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from codex_framework import ApprovalPolicy
from codex_framework.contract.protocol.environments import EnvironmentSelection, EnvironmentSelections
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import DangerFullAccess
from codex_framework.testing import ResponsesServer
from tests.plugins.rollout.conftest import AppServer


def plain(text: str) -> str:
    """Return a text without what differs between two runs."""
    text = re.sub(r"Chunk ID: \w+|Wall time: [\d.]+|Original token count: \d+\n?", "", text)
    return re.sub(r"id \d+", "id N", re.sub(r"line 1 column \d+", "line 1", text))


def last_request_of_codex(binary: str, home: Path, folder: Path, steps: Any, replies: Any) -> Any:
    """Run the steps in Codex. The first one is the selection of the thread; None selects nothing."""
    first, *others = steps
    with ResponsesServer(replies, repeat_last=True) as server:
        with AppServer(binary, home, folder, server.url) as app:
            settings: Any = {"approvalPolicy": "never", "sandbox": "danger-full-access", **selected(first)}
            thread = app.request("thread/start", cwd=str(folder), **settings)["thread"]["id"]
            for step in (None, *others):
                app.turn(thread, "Go!", **selected(step))
        return [request.json for request in server.requests if request.body][-1]


def selected(step: Any) -> dict[str, Any]:
    """Return the parameter with a selection. None selects nothing."""
    return {} if step is None else {"environments": [{"environmentId": name, "cwd": str(cwd)} for name, cwd in step]}


def last_request_of_ours(make_kernel: Any, folder: Path, steps: Any, replies: Any) -> tuple[Any, list[str]]:
    """Run the steps here. Returns the last request as far as it is the conversation, and the names of its tools."""

    async def main() -> tuple[Any, list[str]]:
        async with make_kernel(replies) as kernel, asyncio.timeout(60):
            settings = {"approval_policy": ApprovalPolicy.NEVER, "sandbox_policy": DangerFullAccess()}
            thread = await kernel.start_thread(cwd=folder, **settings)
            for step in steps:
                if step is not None:
                    chosen = tuple(EnvironmentSelection(name, str(cwd)) for name, cwd in step)
                    selections = EnvironmentSelections(environments=chosen)
                    await thread.submit(ThreadSettings(ThreadSettingsOverrides(environments=selections)))
                await thread.run("Go!")
            last = kernel.model.requests[-1]
            return {"input": json.loads(last.prompt.encoded())}, [spec.name for spec in last.tools]

    return asyncio.run(main())
