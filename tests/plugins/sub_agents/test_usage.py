"""The usage of a thread whose model starts agents: what a bill can be based on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Agent, Limits, RunError, Status, Usage
from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.testing import call, fail, say

from .conftest import Play, spawn
from .test_team import ON, start, wait

TOKENS = TokenUsage(100, 10, 20, 5, 120)
"""What the scripted model counts for each response."""


def tokens(responses: int) -> TokenUsage:
    return sum([TOKENS] * responses, TokenUsage())


def working(*_: Any) -> Any:
    return call("update_plan", plan=[])


def worker_with_a_call() -> Any:
    seen: set[int] = set()

    def reply(number: int, _: Any) -> Any:
        if number in seen:
            return say("done")
        seen.add(number)
        return working()

    return reply


def wait_for(play: Play, *calls: str, timeout_ms: int = 10_000) -> Any:
    """Return a reply that waits for agents of the first group, by the calls that started them."""
    return lambda: call("wait_agent", targets=[play.id_of(each) for each in calls], timeout_ms=timeout_ms, call_id="w")


@pytest.mark.parametrize("group", ["first", "second"])
def test_a_turn_counts_the_requests_calls_and_tokens_of_its_children(play: Play, group: str) -> None:
    if group == "first":
        calls, config = [spawn(), spawn(call_id="s2"), wait_for(play, "s", "s2")], ()
    else:
        calls, config = [start("one"), start("two"), wait("w1"), wait("w2", timeout_ms=100)], (ON,)

    async def story(play: Play) -> list[Any]:
        first = await play.thread.run("Go!")
        for child in list(play.kernel.threads.values()):
            await child.settled()
        return [first, await play.thread.run("And?")]

    results = play.run([*calls, say("done"), say("again")], worker_with_a_call(), *config, story=story)
    assert [result.status for result in results] == [Status.COMPLETED] * 2
    spent = sum((result.outcome.usage for result in results), Usage())
    assert len(play.of_agents()) == 4
    assert spent == Usage(len(play.requests), len(calls) + 2, tokens(len(play.requests)))
    assert results[0].usage == results[0].outcome.usage.tokens
    assert play.thread.usage == spent.tokens
    assert play.thread.total_usage == tokens(len(calls) + 2), "as in the events of the thread, which are its own"


def test_a_failed_child_and_a_failed_turn_count(play: Play) -> None:
    def worker(number: int, _: Any) -> Any:
        return fail("gone") if number else say("fine")

    replies = [spawn(), spawn(call_id="s2"), wait_for(play, "s", "s2"), fail("no such model")]

    async def story(play: Play) -> Any:
        result = await play.thread.run("Go!")
        for child in list(play.kernel.threads.values()):
            await child.settled()
        return result.outcome.usage + play.thread.conversation.budget.bill(), result.status

    usage, status = play.run(replies, worker, story=story)
    assert status is Status.FAILED
    assert usage == Usage(6, 3, tokens(4)), "the failed responses were not counted by the server"


def test_an_interrupted_turn_counts_what_was_done(play: Play) -> None:
    def worker(*_: Any) -> Any:
        return call("exec_command", cmd="sleep 50", yield_time_ms=30_000, login=False)

    async def story(play: Play) -> Any:
        running = asyncio.ensure_future(play.thread.run("Go!"))
        while len(play.requests) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await play.thread.interrupt()
        return await running

    result = play.run([spawn(), wait_for(play, "s", timeout_ms=60_000), say("never")], worker, story=story)
    assert result.status is Status.INTERRUPTED
    assert result.outcome.usage == Usage(3, 3, tokens(3))


def test_a_resumed_session_knows_what_its_children_have_used(play: Play, make_kernel: Any) -> None:
    async def first(play: Play) -> str:
        await play.thread.run("Go!")
        assert play.thread.usage == tokens(4)
        await play.thread.run("More!")
        assert play.thread.usage == tokens(5)
        return str(play.thread.id)

    thread_id = play.run([spawn(), wait_for(play, "s"), say("done"), say("more")], story=first)

    async def second() -> Any:
        async with make_kernel([say("again"), say("and again")]) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            before = thread.usage
            result = await thread.run("Again!")
            await thread.shutdown()
            again = await kernel.resume_thread(thread_id)
            spent = again.conversation.budget.spent
            return before, result.outcome.usage, again.usage, (spent.requests, spent.tool_calls, spent.turns)

    before, usage, after, spent = asyncio.run(second())
    assert before == tokens(5)
    assert usage == Usage(1, 0, tokens(1)), "what was used before is not a part of this turn"
    assert after == tokens(6)
    assert spent == (6, 2, 3), "kept up to date from then on, and without a limit"


def test_a_limit_that_children_reach_names_itself(play: Play) -> None:
    agent = Agent(name="a", limits=Limits(requests=3), output_type=int)
    result = play.run([spawn(), wait_for(play, "s"), say("never")], agent=agent)
    assert (result.status, result.outcome.usage) == (Status.LIMITED, Usage(3, 2, tokens(3)))
    with pytest.raises(RunError, match="the limit of 3 requests is reached") as caught:
        _ = result.output
    assert caught.value.slug == "limit-reached"
    assert caught.value.hint == (
        "Raise the limit in the agent's `limits` or in `[framework.limits]`, then continue with another input."
    )
