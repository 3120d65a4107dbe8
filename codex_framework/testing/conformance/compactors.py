"""The check of compactors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from codex_framework.contract.protocol.items import is_call
from codex_framework.contract.roles.compactors import Compactor, ContextStatus
from codex_framework.contract.roles.outcomes import Status
from codex_framework.contract.roles.tasks import Task
from codex_framework.loader.value_checks import value_problems
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.conformance.stage import HELLO, SOON_S, Stage
from codex_framework.testing.facts import turn_facts
from codex_framework.testing.replies import fail, say
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["check_compactor"]


def check_compactor(
    compactor: Compactor,
    *,
    replies: Sequence[ReplySource] = (say("A summary."),),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that a compactor fulfils its role: with unusual numbers, a compaction, an interrupt and a failing model.

    Args:
        compactor: The compactor.
        replies: The model's replies in one compaction.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("compactor", compactor)
    for problem in value_problems("codex_compactors", compactor):
        findings.note(problem)
    if findings.check_members(compactor, Compactor):
        _check_due(findings, compactor)
        config = f'{config}\n[framework]\ncompactor = "{compactor.name}"\n' if "[framework]" not in config else config
        stage = Stage(findings, lambda: {"compactors": [compactor]}, config=config, installed=installed)
        run_check(findings, lambda: _check_compactor(findings, stage, list(replies)))
    findings.raise_any()


def _check_due(findings: Findings, compactor: Compactor) -> None:
    for tokens in (0, 1, 10**6, 10**12):
        for window in (None, 0, 1000, 10**6):
            status = ContextStatus(tokens=tokens, window=window, first=tokens == 0)
            what = f"due() with {tokens} tokens in a window of {window}"
            try:
                due = partial(compactor.due, status, turn_facts())
                reason: object = findings.call(what, due, within_s=SOON_S)
            except Unmet:
                return
            findings.require(
                reason is None or (isinstance(reason, str) and reason),
                f"{what} returns {reason!r}, not a reason or None",
            )


class _Compacting(Task):
    kind = "compacting"

    async def run(self, turn: Any, input: Any) -> str | None:  # noqa: A002, ARG002  # the word of the contract
        await turn.compact("manual")
        return None


async def _check_compactor(findings: Findings, stage: Stage, replies: Sequence[ReplySource]) -> None:
    async def compacts(thread: ScriptedThread) -> None:
        await thread.turn("Say hello.")
        thread.inside("checked").start_task(_Compacting())
        outcome = await thread.client.settled()
        findings.require(outcome.status is Status.COMPLETED, f"compact() fails: {outcome.error}")
        found = {getattr(item, "call_id", None) for item in thread.history if is_call(item)}
        findings.require(not found, "a compacted history has calls without outputs")

    async def model_fails(thread: ScriptedThread) -> None:
        await thread.turn("Say hello.")
        before = list(thread.history)
        asked = len(thread.requests)
        thread.inside("checked").start_task(_Compacting())
        outcome = await thread.client.settled()
        if len(thread.requests) > asked:
            findings.require(outcome.status is Status.FAILED, "compact() succeeds although the model failed")
            findings.require(list(thread.history) == before, "a compaction that fails changes the history")
            findings.require(
                "Fix" not in str(outcome.error) and " failed: " not in str(outcome.error), str(outcome.error)
            )

    async def interrupted(thread: ScriptedThread) -> None:
        await thread.turn("Say hello.")
        thread.inside("checked").start_task(_Compacting())
        await asyncio.sleep(0)
        await thread.client.interrupt()
        for text in thread.warnings:
            findings.require("abandoned" not in text, text)

    await stage.play("in a conversation", compacts, replies=[HELLO, *replies])
    await stage.play("when the model fails", model_fails, replies=[HELLO, *[fail("no key")] * 3], failing=True)
    await stage.play("when it is interrupted", interrupted, replies=[HELLO, *replies], failing=True)
    await stage.play("in two kernels at once", compacts, replies=[HELLO, *replies], kernels=2)
