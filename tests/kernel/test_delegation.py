"""A delegate: one prompt in a thread of its own, which nothing of the workspace reaches and which leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    ApprovalPolicy,
    CommandVerdict,
    Decision,
    Notification,
    Reply,
    ReviewDecision,
    ReviewFacts,
    ThreadError,
    Verdict,
)
from codex_framework.protocol.items import Message, message_text
from codex_framework.testing import Offer, call, fail, say
from codex_framework.testing.kernels import KernelFactory

ASKED = "Answer yes or no."
SCHEMA = {"type": "object", "properties": {}}


class AskAlways:
    name = "ask-always"

    def judge(self, command: Any, facts: Any) -> CommandVerdict:
        return CommandVerdict(verdict=Verdict.ASK, reason="always")


class Delegating:
    """A reviewer that lets a test do as it likes with the facts."""

    name = "delegating"

    def __init__(self, work: Callable[[ReviewFacts], Awaitable[object]]) -> None:
        self.work = work
        self.gave: list[object] = []

    async def review(self, request: Any, facts: ReviewFacts) -> ReviewDecision:
        self.gave.append(await self.work(facts))
        return ReviewDecision(Decision.APPROVED)


class Ear:
    name = "ear"

    def __init__(self) -> None:
        self.heard: list[Notification] = []

    def notify(self, notification: Notification) -> None:
        self.heard.append(notification)


def model(*, turn: list[Reply], delegate: Callable[[], Reply]) -> list[Callable[[Any], Reply]]:
    """Replies by who asks: the turn gets its own in order."""
    rest = iter(turn)

    def reply(request: Any) -> Reply:
        return delegate() if request.instructions == ASKED else next(rest)

    return [reply] * 20


def run(
    make_kernel: KernelFactory,
    work: Callable[[ReviewFacts], Awaitable[object]],
    *,
    turn: list[Reply] | None = None,
    delegate: Callable[[], Reply] = lambda: say("yes"),
) -> tuple[Delegating, Any, Any, Ear, list[str]]:
    reviewer, ear = Delegating(work), Ear()
    offer = Offer(policies=[AskAlways()], reviewers=[reviewer], notifiers=[ear])

    async def main() -> Any:
        replies = model(turn=turn or [call("exec_command", cmd="echo hi"), say("done")], delegate=delegate)
        async with make_kernel(replies, plugins=[offer]) as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST, reasoning_effort="high")
            result = await thread.run("Go!")
            assert list(kernel.threads) == [thread.id]
            return reviewer, result, kernel.model.requests, ear, [thread.id]

    return asyncio.run(main())


def test_a_delegate_sees_its_prompt_and_nothing_else(make_kernel: KernelFactory, workspace: Path, codex_home: Path):
    (workspace / "AGENTS.md").write_text("Always say yes.")

    async def work(facts: ReviewFacts) -> str:
        return await facts.delegate(
            "May it?", instructions=ASKED, model="other", reasoning_effort="low", output_schema=SCHEMA
        )

    reviewer, _, requests, _, _ = run(make_kernel, work)
    assert reviewer.gave == ["yes"]
    (request,) = (one for one in requests if one.instructions == ASKED)
    assert [message_text(item) for item in request.prompt.items if isinstance(item, Message)] == ["May it?"]
    assert len(request.prompt.items) == 1
    assert request.tools == ()
    assert (request.model.slug, request.reasoning_effort, request.output_schema) == ("other", "low", SCHEMA)
    others = [one for one in requests if one is not request]
    assert all("Always say yes" in str(one.prompt.items) for one in others)
    assert request.thread_id not in {one.thread_id for one in others}


def test_a_delegate_leaves_nothing_behind(make_kernel: KernelFactory, codex_home: Path):
    async def work(facts: ReviewFacts) -> str:
        return await facts.delegate("May it?", instructions=ASKED)

    _, result, _, ear, threads = run(make_kernel, work)
    assert len(list(codex_home.rglob("rollout-*.jsonl"))) == 1
    assert "May it?" not in "".join(path.read_text() for path in codex_home.rglob("rollout-*.jsonl"))
    assert [notice.thread_id for notice in ear.heard if notice.type == "agent-turn-complete"] == threads
    assert result.usage.total_tokens == 2 * 120, "the turn's own two requests"
    assert not any("May it?" in repr(event) or "yes" in repr(event) for event in result.events)


def test_a_delegate_whose_model_fails_raises(make_kernel: KernelFactory):
    async def work(facts: ReviewFacts) -> str:
        with pytest.raises(ThreadError) as caught:
            await facts.delegate("May it?", instructions=ASKED)
        return str(caught.value)

    assert run(make_kernel, work, delegate=lambda: fail("no such model"))[0].gave == ["no such model"]
    assert run(make_kernel, work, delegate=lambda: Reply())[0].gave == ["the model gave no answer"]


def test_many_delegates_at_once(make_kernel: KernelFactory):
    async def work(facts: ReviewFacts) -> list[str]:
        asked = (facts.delegate(f"{number}", instructions=ASKED) for number in range(15))
        return await asyncio.gather(*asked)

    assert run(make_kernel, work)[0].gave == [["yes"] * 15]


def test_a_delegate_that_calls_a_tool_has_none(make_kernel: KernelFactory, workspace: Path):
    answers = iter([call("exec_command", cmd=f"touch {workspace}/made"), say("no")])

    async def work(facts: ReviewFacts) -> str:
        return await facts.delegate("May it?", instructions=ASKED)

    assert run(make_kernel, work, delegate=lambda: next(answers))[0].gave == ["no"]
    assert not (workspace / "made").exists()


def test_a_cancelled_delegate_ends(make_kernel: KernelFactory):
    async def work(facts: ReviewFacts) -> bool:
        asking = asyncio.ensure_future(facts.delegate("May it?", instructions=ASKED))  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.wait([asking])
        return asking.cancelled()

    assert run(make_kernel, work, delegate=lambda: say("yes").evolve(delay_s=60))[0].gave == [True]


def test_a_reviewers_state_lasts_as_long_as_the_thread(make_kernel: KernelFactory):
    async def work(facts: ReviewFacts) -> object:
        return facts.state("mine", object)

    turn = [call("exec_command", cmd="echo 1"), call("exec_command", cmd="echo 2"), say("done")]
    first, second = run(make_kernel, work, turn=turn)[0].gave
    assert first is second


def test_what_is_no_decision_denies(make_kernel: KernelFactory):
    class Vague:
        name = "vague"

        async def review(self, request: Any, facts: ReviewFacts) -> Any:
            return True

    async def main() -> Any:
        offer = Offer(policies=[AskAlways()], reviewers=[Vague()])
        async with make_kernel([call("exec_command", cmd="echo hi"), say("done")], plugins=[offer]) as kernel:
            return await kernel.run_turn("Go!", approval_policy=ApprovalPolicy.ON_REQUEST)

    turn = asyncio.run(main())
    assert "hi" not in turn.outputs[0]
    assert any("returned bool instead of ReviewDecision" in repr(event) for event in turn.result.events)
