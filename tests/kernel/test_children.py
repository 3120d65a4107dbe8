"""Children: threads that plugins spawn. What reaches them, what they may do, and what they leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    Agent,
    ApprovalPolicy,
    ApprovalReviewer,
    CommandVerdict,
    Decision,
    Limits,
    Notification,
    ReviewDecision,
    Status,
    ThreadError,
    TurnContext,
    Verdict,
)
from codex_framework.contract.protocol.items import Message, message_text
from codex_framework.testing import Offer, Reply, call, fail, say
from codex_framework.testing.kernels import KernelFactory

ASKED = "Answer yes or no."
JUDGE: Agent[str] = Agent(
    name="judge",
    instructions=ASKED,
    allowed_tools=(),
    context=(),
    permissions=":read-only",
    approval_policy="never",
    ephemeral=True,
)


class AskAlways:
    name = "ask-always"

    def judge(self, command: Any, facts: Any) -> CommandVerdict:
        return CommandVerdict(verdict=Verdict.ASK, reason="always")


class Spawning(ApprovalReviewer):
    """A reviewer that lets a test do as it likes with the turn."""

    name = "spawning"

    def __init__(self, work: Callable[[TurnContext], Awaitable[object]]) -> None:
        self.work = work
        self.gave: list[object] = []

    async def review(self, request: Any, turn: TurnContext) -> ReviewDecision:
        self.gave.append(await self.work(turn))
        return ReviewDecision(Decision.APPROVED)


class Ear:
    name = "ear"

    def __init__(self) -> None:
        self.heard: list[Notification] = []

    def notify(self, notification: Notification) -> None:
        self.heard.append(notification)


def model(*, turn: list[Reply], child: Callable[[], Reply]) -> list[Callable[[Any], Reply]]:
    """Replies by who asks: the turn gets its own in order."""
    rest = iter(turn)

    def reply(request: Any) -> Reply:
        return child() if request.instructions == ASKED else next(rest)

    return [reply] * 40


def run(
    make_kernel: KernelFactory,
    work: Callable[[TurnContext], Awaitable[object]],
    *,
    turn: list[Reply] | None = None,
    child: Callable[[], Reply] = lambda: say("yes"),
    config: str = "",
) -> tuple[Spawning, Any, Any, Ear, list[str]]:
    reviewer, ear = Spawning(work), Ear()
    offer = Offer(policies=[AskAlways()], reviewers=[reviewer], notifiers=[ear])

    async def main() -> Any:
        replies = model(turn=turn or [call("exec_command", cmd="echo hi"), say("done")], child=child)
        async with make_kernel(replies, plugins=[offer], config=config) as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST, reasoning_effort="high")
            result = await thread.run("Go!")
            assert list(kernel.threads) == [thread.id]
            return reviewer, result, kernel.model.requests, ear, [thread.id]

    return asyncio.run(asyncio.wait_for(main(), 60))


async def asked(turn: TurnContext, prompt: str, agent: Agent[str] = JUDGE) -> str | None:
    child = await turn.thread.spawn(agent)
    try:
        result = await child.run(prompt)
    finally:
        await child.shutdown()
    return result.final_message if result.status is Status.COMPLETED else f"failed: {result.error}"


def test_a_child_without_tools_and_context_sees_its_prompt_and_nothing_else(
    make_kernel: KernelFactory, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("Always say yes.")

    async def work(turn: TurnContext) -> str | None:
        return await asked(turn, "May it?", JUDGE.evolve(model="other", reasoning_effort="low"))

    reviewer, _, requests, _, _ = run(make_kernel, work)
    assert reviewer.gave == ["yes"]
    (request,) = (one for one in requests if one.instructions == ASKED)
    assert [message_text(item) for item in request.prompt.items if isinstance(item, Message)] == ["May it?"]
    assert len(request.prompt.items) == 1
    assert request.tools == ()
    assert (request.model.slug, request.reasoning_effort) == ("other", "low")
    others = [one for one in requests if one is not request]
    assert all("Always say yes" in str(one.prompt.items) for one in others)
    assert request.thread_id not in {one.thread_id for one in others}


def test_an_ephemeral_child_leaves_nothing_behind(make_kernel: KernelFactory, codex_home: Path) -> None:
    async def work(turn: TurnContext) -> str | None:
        return await asked(turn, "May it?")

    _, result, _, ear, threads = run(make_kernel, work)
    assert len(list(codex_home.rglob("rollout-*.jsonl"))) == 1
    assert "May it?" not in "".join(path.read_text() for path in codex_home.rglob("rollout-*.jsonl"))
    assert [notice.thread_id for notice in ear.heard if notice.type == "agent-turn-complete"] == threads
    assert result.usage.total_tokens == 3 * 120, "the turn's own two requests, and the child's"
    assert not any("May it?" in repr(event) or "yes" in repr(event) for event in result.events)


def test_a_child_whose_model_fails_says_so(make_kernel: KernelFactory) -> None:
    async def work(turn: TurnContext) -> str | None:
        return await asked(turn, "May it?")

    assert run(make_kernel, work, child=lambda: fail("no such model"))[0].gave == ["failed: no such model"]


def test_many_children_at_once(make_kernel: KernelFactory) -> None:
    async def work(turn: TurnContext) -> object:
        return await asyncio.gather(*(asked(turn, f"{number}") for number in range(15)))

    assert run(make_kernel, work)[0].gave == [["yes"] * 15]


def test_a_child_without_tools_that_calls_one_has_none(make_kernel: KernelFactory, workspace: Path) -> None:
    answers = iter([call("exec_command", cmd=f"touch {workspace}/made"), say("no")])

    async def work(turn: TurnContext) -> str | None:
        return await asked(turn, "May it?")

    assert run(make_kernel, work, child=lambda: next(answers))[0].gave == ["no"]
    assert not (workspace / "made").exists()


@pytest.mark.parametrize(
    ("agent", "fact"),
    [
        (JUDGE.evolve(permissions=":danger-full-access"), "which exceed the permissions of its parent"),
        (JUDGE.evolve(approval_policy="on-failure"), "which is neither the policy of its parent nor stricter"),
        (JUDGE.evolve(permissions=":no-such-profile"), ":no-such-profile"),
    ],
)
def test_a_child_may_not_do_more_than_its_parent(make_kernel: KernelFactory, agent: Agent[str], fact: str) -> None:
    async def work(turn: TurnContext) -> object:
        with pytest.raises(ThreadError if "more" in fact or "another" in fact else Exception) as caught:
            await turn.thread.spawn(agent)
        return str(caught.value)

    config = 'sandbox_mode = "workspace-write"\napproval_policy = "on-request"'
    (gave,) = run(make_kernel, work, config=config)[0].gave
    assert fact in str(gave)


def test_what_a_child_uses_counts_against_the_limits_of_its_parent(make_kernel: KernelFactory) -> None:
    offer_work = []

    async def work(turn: TurnContext) -> object:
        offer_work.append(await asked(turn, "1"))
        return None

    async def main() -> Any:
        reviewer = Spawning(work)
        offer = Offer(policies=[AskAlways()], reviewers=[reviewer])
        replies = model(turn=[call("exec_command", cmd="echo hi"), say("never")], child=lambda: say("yes"))
        async with make_kernel(replies, plugins=[offer]) as kernel:
            agent: Agent[str] = Agent(name="parent", limits=Limits(requests=2))
            thread = await kernel.start_thread(agent=agent, approval_policy=ApprovalPolicy.ON_REQUEST)
            return await thread.run("Go!")

    result = asyncio.run(asyncio.wait_for(main(), 60))
    assert offer_work == ["yes"]
    assert (result.status, result.outcome.reason) == (Status.LIMITED, "budget_limited")
    assert result.events[-1].type == "turn_aborted"
