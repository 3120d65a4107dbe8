"""The check of tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from codex_framework.contract.protocol.items import is_call
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.roles.tasks import Task
from codex_framework.testing.conformance.findings import Findings, run_check
from codex_framework.testing.conformance.stage import SOON_S, Stage
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["check_task"]


def check_task(
    make: Callable[[], Task],
    input: object = None,  # noqa: A002  # the word of the contract
    *,
    replies: Sequence[ReplySource] = (),
    plugins: Sequence[object] = (),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that a task fulfils its role: it runs, and ends if interrupted at any time, in two kernels concurrently.

    Args:
        make: Creates the task, or its class.
        input: The input for ``start_task``.
        replies, plugins, config, installed: As for :func:`check_op_handler`.

    Raises:
        ContractViolation: It violates its role; every violation is listed.
    """
    first = make()
    findings = Findings("task", first)
    if findings.check_members(first, Task):
        kind: Any = first.kind
        findings.require(
            isinstance(kind, str) and kind not in ("", "task", "regular"),
            f"its kind is {kind!r}: give it one of its own",
        )
        findings.require(first.when_busy in ("refuse", "replace", "wait"), f"its when_busy is {first.when_busy!r}")
        stage = Stage(findings, dict, plugins=plugins, config=config, installed=installed)
        run_check(findings, lambda: _check_task(findings, stage, make, input, list(replies)))
    findings.raise_any()


async def _check_task(
    findings: Findings,
    stage: Stage,
    make: Callable[[], Task],
    input: object,  # noqa: A002  # the word of the contract
    replies: Sequence[ReplySource],
) -> None:
    async def runs(thread: ScriptedThread) -> None:
        thread.inside("checked").start_task(make(), input)
        outcome = await thread.client.settled()
        findings.require(outcome.status is Status.COMPLETED, f"it ends as {outcome.status}: {outcome.error}")

    def stopped(after_s: float) -> Callable[[ScriptedThread], Awaitable[None]]:
        async def act(thread: ScriptedThread) -> None:
            thread.inside("checked").start_task(make(), input)
            await asyncio.sleep(after_s)
            began = time.monotonic()
            await thread.client.interrupt()
            took = time.monotonic() - began
            findings.require(took < 2, f"it takes {took:.1f} s to end when it is interrupted")
            for text in thread.warnings:
                findings.require("abandoned" not in text, text)
            items = list(thread.history)
            open_calls = {getattr(item, "call_id", None) for item in items if is_call(item)}
            open_calls -= {getattr(item, "call_id", None) for item in items if not is_call(item)}
            findings.require(not open_calls, "an interrupt leaves calls without outputs in the history")

        return act

    await stage.play("in an idle thread", runs, replies=replies)
    for after_s in (0.0, 0.01, SOON_S):
        await stage.play(f"interrupted after {after_s:g} s", stopped(after_s), replies=replies, failing=True)
    await stage.play("in two kernels at once", runs, replies=replies, kernels=2)
