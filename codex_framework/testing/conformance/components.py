"""The check of components."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from codex_framework.contract.errors import ServiceError
from codex_framework.contract.roles.components import Component, ThreadComponent
from codex_framework.contract.roles.outcomes import Status
from codex_framework.loader.value_checks import value_problems
from codex_framework.testing.conformance.findings import Findings, run_check
from codex_framework.testing.conformance.stage import HELLO, Stage, interrupted
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread
from codex_framework.threads.components import declaration_problem
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["check_component"]


def check_component(
    make: Callable[[], Component], *, replies: Sequence[ReplySource] = (), config: str = "", installed: bool = False
) -> None:
    """Check that a component fulfils its role: turns, an interrupt, two concurrent kernels, a cancelled start, closing twice.

    Parts of threads that react to a changed configuration run a turn with one. Shared tools are requested twice, and parts are
    compared with the component's declarations.

    Args:
        make: Creates the component, or its class. Each kernel gets its own.
        replies: The model's replies in a turn, with calls of the component's tools.
        config: The text of a ``config.toml``.
        installed: Whether the kernels load installed plugins too. One of them may offer the component itself.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    first = make()
    findings = Findings("component", first)
    for problem in value_problems("codex_components", first):
        findings.note(problem)
    if findings.check_members(first, Component):
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
        await _check_declared(findings, thread, first.name)
        part = thread.client.conversation.parts.find(first.name)
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
        await findings.cancel("a start", task)
        for what in ("aclose() after a cancelled start", "a second aclose()"):
            await findings.wait_for(what, component.aclose(), within_s=component.close_timeout_s)
        fresh = make()
        await findings.wait_for("aclose() without a start", fresh.aclose(), within_s=fresh.close_timeout_s)

    await stage.play("in a turn", turn, replies=replies)
    await stage.play("in an interrupted turn", interrupted, replies=replies)
    await stage.play("in two kernels at once", turn, replies=replies, kernels=2)
    await stage.play("when its start is cancelled", starts)


async def _check_declared(findings: Findings, thread: ScriptedThread, name: str) -> None:
    """Compare the shared tools and the part of a component with its declarations."""
    conversation = thread.client.conversation
    component = conversation.host.registry.components[name].item
    facts = TurnScope(conversation, "").facts
    tools, again = component.shared_tools(facts), component.shared_tools(facts)
    findings.require(
        [id(tool) for tool in tools] == [id(tool) for tool in again],
        "shared_tools() creates its tools anew at each call: create them once, and return the same objects",
    )
    part = conversation.parts.find(name)
    for tool in (*tools, *(() if part is None else part.item.tools(facts))):
        findings.require(
            tool.spec == tool.spec,  # a property may return another one each time
            f"the spec of its tool {tool.spec.name!r} changes: return what differs between turns from spec_for()",
        )
    if part is not None:
        findings.check_members(part.item, ThreadComponent)
    if component.part_when == "use" and component.part_class is not None:
        with contextlib.suppress(ServiceError):  # this thread gets no part
            await conversation.parts.part(component.part_class)
        part = conversation.parts.find(name)
        if part is not None and (problem := declaration_problem(component, part.item)):
            findings.note(problem)
