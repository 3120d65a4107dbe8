"""Calls that block the event loop are named while they do, and by the conformance checks."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ToolContext, tool
from codex_framework.testing import ContractViolation, Offer, call, check_tool, say


@tool
async def blocking(text: str) -> str:
    """Block."""
    time.sleep(1.5)  # noqa: ASYNC251
    return text


@tool
def waiting(text: str) -> str:
    """Block a worker thread, which nobody minds."""
    time.sleep(1.5)
    return text


class Times(logging.Handler):
    """Notes when something is logged, and what."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((time.monotonic(), record.getMessage()))


@pytest.fixture
def logged() -> Any:
    handler = Times()
    logger = logging.getLogger("codex_framework")
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)


def test_a_tool_that_blocks_is_named_while_it_blocks_and_in_the_thread(run_turn: Any, logged: Any) -> None:
    ended = []

    @tool
    async def timed(text: str) -> str:
        """Block."""
        time.sleep(1.5)  # noqa: ASYNC251
        ended.append(time.monotonic())
        return text

    run = run_turn("Go.", [call("timed", text="a"), say("Done.")], tools=[timed], entry_points=())
    assert run.outputs == ("a",)
    ((when, text),) = logged
    assert when < ended[0]
    assert f"timed() ({__file__}, line " in text
    assert "asyncio.to_thread" in text
    assert text in [getattr(event, "message", "") for event in run.result.events]


def test_a_function_that_is_not_async_blocks_nobody(run_turn: Any, logged: Any) -> None:
    run = run_turn("Go.", [call("waiting", text="a"), say("Done.")], tools=[waiting], entry_points=())
    assert run.outputs == ("a",)
    assert logged == []


def test_check_tool_fails_a_tool_that_blocks_and_passes_one_on_a_worker_thread() -> None:
    with pytest.raises(ContractViolation, match=r"it blocks the event loop in blocking\(\) \("):
        check_tool(blocking, {"text": "a"})


def test_a_plugin_that_blocks_a_call_of_another_is_named_and_not_the_other(
    make_kernel: Any, tmp_path: Path, logged: Any
) -> None:
    policy = tmp_path / "patient.py"
    policy.write_text(
        "import time\n"
        "from codex_framework import CommandPolicy, hookimpl\n"
        "class Patient(CommandPolicy):\n"
        "    name = 'patient'\n"
        "    def judge(self, command, facts):\n"
        "        time.sleep(1.5)\n"
        "@hookimpl\n"
        "def codex_command_policies():\n"
        "    return [Patient()]\n"
    )

    async def story() -> None:
        async with make_kernel([call("runs"), say("Done.")], plugins=[Offer(tools=[runs]), policy]) as kernel:
            await kernel.run_turn("go")

    asyncio.run(story())
    ((_, text),) = logged
    assert text.startswith("plugin 'patient' blocks the event loop")
    assert f"({policy}, line 6)" in text


@tool
async def runs(context: ToolContext) -> str:
    """Run a command."""
    await context.run(["true"])
    return "run"
