"""The check of components."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.outcomes import Status
from codex_framework.loader.value_checks import value_problems
from codex_framework.testing.conformance.findings import Findings, run_check
from codex_framework.testing.conformance.stage import HELLO, Stage, interrupted
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["check_component"]


def check_component(
    make: Callable[[], Component], *, replies: Sequence[ReplySource] = (), config: str = "", installed: bool = False
) -> None:
    """Check that a component fulfils its role: a turn, an interrupted turn, two kernels at once, a cancelled start, closing twice.

    Parts of threads that react to a changed configuration run a turn with one.

    Args:
        make: Creates the component, or its class. Each kernel gets its own.
        replies: The model's replies in a turn, with calls of the component's tools.
        config: The text of a ``config.toml``.
        installed: Whether the kernels load installed plugins too.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    first = make()
    findings = Findings("component", first)
    for problem in value_problems("codex_components", first):
        findings.note(problem)
    if findings.members(first, Component):
        stage = Stage(findings, lambda: {"components": [make()]}, config=config, installed=installed)
        run_check(findings, lambda: _check_component(findings, stage, make, replies or (HELLO,)))
    findings.raise_any()


async def _check_component(
    findings: Findings, stage: Stage, make: Callable[[], Component], replies: Sequence[ReplySource]
) -> None:
    first = make()

    async def turn(thread: ScriptedThread) -> None:
        result = await thread.turn("Go!")
        findings.require(result.status is Status.COMPLETED, f"a turn with the component fails: {result.error}")
        part = thread.client.conversation.parts.of(first.name)
        if part is not None and part.overrides("reconfigured"):
            thread.inside("checked").reconfigure({"developer_instructions": "Be brief."})
            result = await thread.turn("Go on!", HELLO)
            findings.require(
                result.status is Status.COMPLETED, f"a turn with a changed configuration fails: {result.error}"
            )

    async def starts(thread: ScriptedThread) -> None:
        kernel = thread.client.conversation.host.kernel("checked")
        component = make()
        task = asyncio.ensure_future(component.start(kernel))
        await asyncio.sleep(0)
        await findings.cancelled("a start", task)
        for what in ("aclose() after a cancelled start", "a second aclose()"):
            await findings.awaited(what, component.aclose(), within_s=component.close_timeout_s)
        fresh = make()
        await findings.awaited("aclose() without a start", fresh.aclose(), within_s=fresh.close_timeout_s)

    await stage.play("in a turn", turn, replies=replies)
    await stage.play("in an interrupted turn", interrupted, replies=replies)
    await stage.play("in two kernels at once", turn, replies=replies, kernels=2)
    await stage.play("when its start is cancelled", starts)
