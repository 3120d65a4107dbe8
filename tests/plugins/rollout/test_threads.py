"""Real threads on real rollout files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import codex_plugin_context
import codex_plugin_rollout
from codex_framework import FunctionSpec, Kernel, ThreadError, ToolCall, ToolContext
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    TurnAbortedEvent,
    UserMessageEvent,
    WarningEvent,
)
from codex_framework.testing import Offer
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, say


@pytest.fixture
def open_kernel(tmp_path: Path, home: str) -> Any:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Be kind.")
    Path(home).mkdir()

    async def opened(model: ScriptedModel, *more: Any) -> Kernel:
        environ = {"CODEX_HOME": home, "PATH": "/usr/bin:/bin"}
        overrides = ('model_provider="scripted"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"')
        config = load_config(cwd=work, environ=environ, overrides=overrides)
        plugins = (codex_plugin_rollout, codex_plugin_context, Offer(providers=[model]), *more)
        return await Kernel.create(config, environ=environ, entry_points=(), plugins=plugins)

    return opened


class Looks:
    """A tool that finds its own call in the thread's file, and lets the file be out of reach for the rest of a turn."""

    name = "looks"
    parallel_safe = False
    spec = FunctionSpec("looks", "Looks.", {"type": "object", "properties": {}})

    def __init__(self) -> None:
        self.found: list[bool] = []

    async def run(self, tool_call: ToolCall, context: ToolContext) -> str:
        path = context.turn.thread.path
        assert path is not None
        self.found.append(f'"call_id":"{tool_call.call_id}"' in Path(path).read_text())
        return "looked"


def test_a_call_is_on_disk_before_its_tool_runs(open_kernel: Any) -> None:
    looks = Looks()

    async def run() -> None:
        model = ScriptedModel([call("looks", call_id="first"), call("looks", call_id="second"), say("done")])
        async with await open_kernel(model, Offer(tools=[looks])) as kernel:
            await (await kernel.start_thread()).run("go")

    asyncio.run(run())
    assert looks.found == [True, True]


def test_an_unsaved_conversation_is_told_once_for_each_time_that_saving_fails(open_kernel: Any) -> None:
    async def run() -> list[int]:
        async with await open_kernel(ScriptedModel([say("a"), say("b"), say("c"), say("d")])) as kernel:
            thread = await kernel.start_thread()
            await thread.run("one")
            path = Path(thread.rollout_path)
            told = []
            for broken in (True, False, True):
                if broken:
                    path.rename(path.with_suffix(".away"))
                    path.mkdir()
                else:
                    path.rmdir()
                    path.with_suffix(".away").rename(path)
                result = await thread.run("more")
                warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
                told.append(sum("Failed to save the conversation transcript" in text for text in warnings))
            path.rmdir()
            path.with_suffix(".away").rename(path)
            return told

    assert asyncio.run(run()) == [1, 0, 1]


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
