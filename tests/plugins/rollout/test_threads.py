"""Real threads on real rollout files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import codex_plugin_context
import codex_plugin_rollout
from codex_framework import Kernel, ThreadError, hookimpl
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    TurnAbortedEvent,
    UserMessageEvent,
    WarningEvent,
)
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, say


class Offer:
    """A plugin that offers a model."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @hookimpl
    def codex_model_providers(self) -> list[Any]:
        return [self._model]


@pytest.fixture
def open_kernel(tmp_path: Path, home: str) -> Any:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Be kind.")
    Path(home).mkdir()

    async def opened(model: ScriptedModel) -> Kernel:
        environ = {"CODEX_HOME": home, "PATH": "/usr/bin:/bin"}
        overrides = ('model_provider="scripted"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"')
        config = load_config(cwd=work, environ=environ, overrides=overrides)
        plugins = (codex_plugin_rollout, codex_plugin_context, Offer(model))
        return await Kernel.create(config, environ=environ, entry_points=(), plugins=plugins)

    return opened


def test_a_resumed_thread_sends_the_same_prefix(open_kernel: Any, home: str, tmp_path: Path) -> None:

    async def run() -> None:
        model = ScriptedModel([call("no_such_tool", call_id="c1"), say("first"), say("second")])
        async with await open_kernel(model) as kernel:
            thread = await kernel.start_thread()
            await thread.run("one")
        async with await open_kernel(model) as kernel:
            latest = kernel.latest_thread(cwd=tmp_path / "work")
            assert latest == thread.id
            resumed = await kernel.resume_thread(latest)
            await resumed.run("two")
            assert resumed.total_usage.total_tokens > thread.total_usage.total_tokens
        before, after = (list(request.prompt.items) for request in model.requests[1:])
        said = [item.type for item in after[len(before) :]]
        assert after[: len(before)] == before
        assert said == ["message", "message"], "the answer, and what was asked then: no context again"
        assert model.requests[2].instructions == model.requests[1].instructions
        assert model.requests[2].cache_key == model.requests[1].cache_key == thread.id

    asyncio.run(run())


def test_a_turns_lines_are_on_disk_when_it_has_ended(open_kernel: Any, home: str) -> None:

    async def run() -> None:
        async with await open_kernel(ScriptedModel([say("hello")])) as kernel:
            thread = await kernel.start_thread()
            assert not list(Path(home).rglob("*.jsonl"))
            await thread.run("hi")
            lines = [json.loads(line) for line in Path(thread.rollout_path).read_text().splitlines()]
            kinds = [line["type"] if "type" not in line["payload"] else line["payload"]["type"] for line in lines]
            assert kinds[:2] == ["session_meta", "task_started"]
            assert kinds[-1] == "task_complete"
            assert {"turn_context", "message", "user_message", "agent_message", "token_count"} <= set(kinds)

    asyncio.run(run())


def test_a_home_that_cannot_be_written_warns_once_and_loses_nothing(open_kernel: Any, home: str) -> None:
    blocker = Path(home) / "sessions"
    blocker.write_text("in the way")

    async def run() -> None:
        async with await open_kernel(ScriptedModel([say("a"), say("b")])) as kernel:
            thread = await kernel.start_thread()
            first = await thread.run("one")
            warnings = [
                msg.message for msg in first.events if isinstance(msg, WarningEvent) and "transcript" in msg.message
            ]
            assert len(warnings) == 1
            assert "cannot write" in warnings[0]
            blocker.unlink()
            await thread.run("two")
        stored = codex_plugin_rollout.RolloutStore().load(thread.id, home)
        assert [msg.message for msg in stored.events if isinstance(msg, UserMessageEvent)] == ["one", "two"]

    asyncio.run(run())


def test_an_interrupted_turn_resumes_with_its_mark(open_kernel: Any, home: str) -> None:

    async def run() -> None:
        async with await open_kernel(ScriptedModel([say("slowly " * 500, deltas=500, delta_delay_s=0.02)])) as kernel:
            thread = await kernel.start_thread()
            async for msg in thread.stream("one"):
                if isinstance(msg, AgentMessageContentDeltaEvent):
                    interrupting = asyncio.create_task(thread.interrupt())
            await interrupting
        stored = codex_plugin_rollout.RolloutStore().load(thread.id, home)
        assert isinstance(stored.events[-1], TurnAbortedEvent)
        assert "<turn_aborted>" in str(stored.history[-1])

    asyncio.run(run())


def test_an_unknown_thread_cannot_be_resumed(open_kernel: Any) -> None:
    async def run() -> None:
        async with await open_kernel(ScriptedModel([])) as kernel:
            with pytest.raises(ThreadError, match="no rollout found for thread id nope"):
                await kernel.resume_thread("nope")

    asyncio.run(run())
