"""The check of agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.outcomes import Status
from codex_framework.loader.value_checks import value_problems
from codex_framework.testing.conformance.findings import Findings, run_check
from codex_framework.testing.conformance.stage import Stage, interrupted
from codex_framework.testing.replies import say
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["check_agent"]


def check_agent(
    agent: Agent[Any],
    *,
    replies: Sequence[ReplySource] = (say("Hello."),),
    plugins: Sequence[object] = (),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that an agent works: its names exist, and it has an output in a run, as a child, and in two kernels together.

    Args:
        agent: The agent.
        replies: The model's replies in one run. The last message must match the output type.
        plugins: Plugins that the agent needs. One of them may offer the agent itself.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It violates its role; every violation is listed.
    """
    findings = Findings("agent", agent)
    for problem in value_problems("codex_agents", agent):
        findings.note(problem)
    if not findings.violations:
        offers: Callable[[], dict[str, Any]] = lambda: {"agents": [agent]}  # noqa: E731  # as the others
        stage = Stage(findings, offers, plugins=plugins, config=config, installed=installed)
        run_check(findings, lambda: _check_agent(findings, stage, agent, list(replies)))
    findings.raise_any()


async def _check_agent(findings: Findings, stage: Stage, agent: Agent[Any], replies: Sequence[ReplySource]) -> None:
    async def runs(thread: ScriptedThread) -> None:
        result = await thread.turn("Go!")
        findings.require(result.misfit is None, f"the output does not have its type: {result.misfit}")
        findings.require(result.status is Status.COMPLETED, f"a run ends as {result.status}: {result.error}")
        for text in thread.warnings:
            findings.require(not text.startswith(("agent ", "a tool of agent ")), text)

    async def child(thread: ScriptedThread) -> None:
        spawned = await thread.inside("checked").spawn(agent)
        result = await spawned.run("Go!")
        findings.require(result.status is Status.COMPLETED, f"as a child it ends as {result.status}: {result.error}")

    await stage.play("in a thread", runs, replies=replies, agent=agent)
    await stage.play("as a child", child, replies=replies)
    await stage.play("in an interrupted turn", interrupted, replies=replies, agent=agent)
    await stage.play("in two kernels at once", runs, replies=replies, kernels=2, agent=agent)
