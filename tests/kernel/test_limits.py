"""Limits of agents, and what clients hear of the calls that count for them."""

from __future__ import annotations

import asyncio
import json
import math
import time

import pytest

from codex_framework import Agent, Limits, ModelInfo, Status, ToolError, tool
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import (
    ToolCallBeginEvent,
    ToolCallEndEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.events.turn import TokenCountEvent, TokenUsage, TokenUsageInfo
from codex_framework.contract.roles.models import ModelPrices
from codex_framework.contract.roles.outcomes import Usage
from codex_framework.contract.roles.stores import PluginEntry
from codex_framework.testing import call, say
from codex_framework.threads.budget import Budget, Spent, cost_of, spent_so_far


@tool
async def rest(seconds: float = 0.0, *, fails: bool = False) -> str:
    """Rest for a while."""
    await asyncio.sleep(seconds)
    if fails:
        raise ToolError("no rest")
    return "rested"


def run(make_kernel, limits, *replies):
    async def main():
        async with make_kernel(replies, entry_points=()) as kernel:
            return await kernel.run(Agent(name="a", tools=(rest,), limits=limits), "go"), len(kernel.model.requests)

    return asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize(
    ("limits", "text", "requests"),
    [
        (Limits(requests=2), "the limit of 2 requests is reached", 2),
        (Limits(tool_calls=2), "the limit of 2 tool calls is reached", 2),
        (Limits(tokens=130), "the limit of 130 tokens is reached", 2),
        (Limits(seconds=0.1), "the limit of 0.1 seconds is reached", 3),
    ],
    ids=str,
)
def test_a_turn_ends_before_the_sample_that_would_pass_a_limit(make_kernel, limits, text, requests):
    result, sent = run(make_kernel, limits, call("rest"), call("rest"), call("rest", seconds=0.15), say("done"))
    assert (result.status, result.error, sent) == (Status.LIMITED, text, requests)


def test_a_turn_within_its_limits_is_whole(make_kernel):
    limits = Limits(requests=3, tool_calls=3, tokens=1000, seconds=20)
    result, _ = run(make_kernel, limits, call("rest"), call("rest"), say("done"))
    assert (result.status, result.final_message) == (Status.COMPLETED, "done")


def test_clients_hear_of_a_call_and_whether_it_succeeded(make_kernel):
    result, _ = run(make_kernel, Limits(), call("rest"), call("rest", fails=True), say("done"))
    begins = [event for event in result.events if isinstance(event, ToolCallBeginEvent)]
    ends = [event for event in result.events if isinstance(event, ToolCallEndEvent)]
    assert [event.call_id for event in begins] == [event.call_id for event in ends]
    assert [(end.tool, end.output, end.success) for end in ends] == [
        ("rest", "rested", True),
        ("rest", "no rest", False),
    ]
    assert result.status is Status.COMPLETED


PRICED = ModelInfo(slug="test-model", prices=ModelPrices(input=1.0, output=10.0, cached_input=0.1))


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"tokens": 130}, "the limit of 130 tokens is reached"),
        ({"requests": 2}, "the limit of 2 requests is reached"),
        ({"tool_calls": 2}, "the limit of 2 tool calls is reached"),
        ({"seconds": 0.0}, "the limit of 0 seconds is reached"),
    ],
    ids=str,
)
def test_limits_of_the_configuration_hold_for_every_thread(make_kernel, limits, text):
    async def main():
        given = tuple(f"framework.limits.{name}={value}" for name, value in limits.items())
        replies = [call("rest"), call("rest"), call("rest"), say("done")]
        async with make_kernel(replies, entry_points=(), config=given) as kernel:
            result = await kernel.run(Agent(name="a", tools=(rest,), limits=Limits(tokens=1_000_000)), "go")
        aborted = [event for event in result.events if isinstance(event, TurnAbortedEvent)]
        warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
        assert (result.status, result.error) == (Status.LIMITED, text)
        assert [event.reason for event in aborted] == ["budget_limited"]
        assert warnings[-1] == text

    asyncio.run(asyncio.wait_for(main(), 30))


def test_turns_are_limited_and_a_raised_limit_goes_on(make_kernel):
    async def main():
        async with make_kernel([say("one"), say("two"), say("three")], entry_points=()) as kernel:
            thread = await kernel.start_thread(agent=Agent(name="a", limits=Limits(turns=2)))
            results = [await thread.run(text) for text in ("a", "b", "c")]
            assert [result.status for result in results] == [Status.COMPLETED, Status.COMPLETED, Status.LIMITED]
            assert results[2].error == "the limit of 2 turns is reached"
            thread.conversation.budget.limits = Limits(turns=9)
            again = await thread.run("d")
            assert (again.status, again.final_message) == (Status.COMPLETED, "three")
            said = json.dumps(kernel.model.requests[-1].prompt.encoded().decode())
            assert all(f'\\"{text}\\"' in said for text in "abcd"), "what was said while the limit was reached is kept"

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_limit_of_money_uses_the_prices_of_the_model(make_kernel):
    usage = TokenUsage(1000, 600, 100, 0, 1100, 100)
    assert cost_of(usage, PRICED.prices) == pytest.approx((300 * 1.0 + 600 * 0.1 + 100 * 1.0 + 100 * 10.0) / 1e6)
    assert cost_of(TokenUsage(10, 99, 0, 0, 10), PRICED.prices) == pytest.approx(10 * 0.1 / 1e6), "never below nothing"
    budget = Budget(Limits(cost=0.002), warn=pytest.fail)
    budget.tokens(usage, PRICED)
    assert budget.reached_limit() is None
    budget.tokens(usage, PRICED)
    assert budget.reached_limit() == "the limit of 0.002 units of money is reached"


def test_a_model_without_prices_is_told_once(make_kernel):
    told = []
    budget = Budget(Limits(cost=1.0), warn=told.append)
    child = Budget(parent=budget)
    for _ in range(3):
        child.tokens(TokenUsage(1, 0, 1, 0, 2), ModelInfo(slug="x"))
    assert told == ["no price is known for the model x, so the limit of its cost has no effect"]
    assert (budget.reached_limit(), child.reached_limit()) == (None, None)


def test_a_child_draws_on_what_its_parent_has_left():
    parent = Budget(Limits(tokens=100, tool_calls=5))
    parent.tokens(TokenUsage(40, 0, 10, 0, 50), PRICED)
    child = Budget(Limits(tokens=1000), parent=parent)
    child.tokens(TokenUsage(40, 0, 9, 0, 49), PRICED)
    assert (child.reached_limit(), parent.reached_limit()) == (None, None)
    child.tokens(TokenUsage(1, 0, 0, 0, 1), PRICED)
    assert child.reached_limit() == parent.reached_limit() == "the limit of 100 tokens is reached"
    sibling = Budget(parent=parent)
    assert sibling.reached_limit() == "the limit of 100 tokens is reached"
    assert (child.spent.tokens, parent.spent.tokens) == (50, 100)


def test_a_bill_has_what_was_spent_since_the_last_one_and_everything_once():
    budget = Budget(spent=Spent(requests=7, tool_calls=5, tokens=1000, children=TokenUsage(total_tokens=100)))
    child = Budget(parent=budget)
    grandchild = Budget(parent=child)
    one, two, three = (TokenUsage(number, 0, number, 0, 2 * number) for number in (1, 20, 300))
    assert budget.bill() == Usage()
    budget.request()
    budget.tokens(one, PRICED)
    child.request()
    child.tokens(two, PRICED)
    grandchild.request()
    grandchild.tool_call()
    grandchild.tokens(three, PRICED)
    assert budget.bill() == Usage(3, 1, one + two + three)
    assert budget.bill() == Usage()
    assert child.bill() == Usage(2, 1, two + three), "whoever is above has been billed for it too"
    grandchild.tool_call()
    grandchild.tokens(one, PRICED)
    assert [each.bill() for each in (budget, child)] == [Usage(0, 1, one)] * 2
    assert grandchild.bill() == Usage(1, 2, three + one)
    assert (budget.spent.requests, budget.children.total_tokens) == (10, 100 + 40 + 600 + 2)


def test_each_turn_has_its_own_bill(make_kernel):
    async def main():
        async with make_kernel([call("rest"), say("one"), say("two")]) as kernel:
            thread = await kernel.start_thread(agent=Agent(name="a", tools=(rest,)))
            bills = [(await thread.run("go")).outcome.usage for _ in range(2)]
            return (
                [(bill.requests, bill.tool_calls) for bill in bills],
                sum(bill.tokens.total_tokens for bill in bills),
                thread,
            )

    bills, tokens, thread = asyncio.run(asyncio.wait_for(main(), 30))
    assert bills == [(2, 1), (1, 0)]
    assert tokens == thread.usage.total_tokens


def test_what_was_spent_counts_on_after_a_resume(make_kernel, tmp_path):
    async def main():
        replies = [call("rest"), say("one"), say("two"), say("three")]
        agent = Agent(name="a", tools=(rest,), limits=Limits(requests=3, tool_calls=9))
        async with make_kernel(replies, entry_points=None) as kernel:
            thread = await kernel.start_thread(agent=agent)
            assert (await thread.run("a")).status is Status.COMPLETED
            spent = thread.conversation.budget.spent
            assert (spent.requests, spent.turns, spent.tool_calls) == (2, 1, 1)
            await thread.shutdown()
            resumed = await kernel.resume_thread(thread.id, agent=agent)
            now = resumed.conversation.budget.spent
            assert (now.requests, now.turns, now.tool_calls, now.tokens) == (2, 1, 1, spent.tokens)
            assert (await resumed.run("b")).status is Status.COMPLETED
            assert (await resumed.run("c")).status is Status.LIMITED
            await resumed.shutdown()
            raised = await kernel.resume_thread(thread.id, agent=agent.evolve(limits=Limits(requests=9)))
            assert (await raised.run("d")).final_message == "three"

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_session_without_limits_is_counted_from_its_events():
    info = TokenUsageInfo(TokenUsage(total_tokens=70), TokenUsage(total_tokens=40))
    past = [
        TurnStartedEvent("t", 0),
        TokenCountEvent(info),
        TokenCountEvent(info),
        TurnCompleteEvent("t", "hi", 0, 1500),
        TurnStartedEvent("u", 0),
        TurnAbortedEvent("u", "interrupted", 0, 500),
    ]
    assert spent_so_far(past, []) == Spent(requests=2, turns=2, tokens=70, seconds=2.0)
    kept = PluginEntry(plugin="", kind="budget", data={"requests": 7, "tokens": 9, "odd": 1, "cost": "x"})
    foreign = PluginEntry(plugin="other", kind="budget", data={"requests": 99})
    assert spent_so_far(past, [kept, foreign]) == Spent(requests=7, turns=2, tokens=9, seconds=2.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, -1e9, True, 10**400, "9", None, [9]], ids=repr)
def test_a_record_cannot_lift_a_limit_with_a_number_that_nobody_spends(value):
    info = TokenUsageInfo(TokenUsage(total_tokens=70), TokenUsage(total_tokens=40))
    data = dict.fromkeys(("requests", "turns", "tokens", "tool_calls", "seconds", "cost"), value)
    kept = PluginEntry(plugin="", kind="budget", data=data)
    spent = spent_so_far([TurnStartedEvent("t", 0), TokenCountEvent(info)], [kept])
    assert spent == Spent(requests=1, turns=1, tokens=70)
    assert Budget(Limits(tokens=70), spent=spent).reached_limit() == "the limit of 70 tokens is reached"


def test_events_cannot_lift_a_limit_with_numbers_that_nobody_spends():
    absurd = TokenUsage(input_tokens=-5, output_tokens=10**400, total_tokens=-100)
    past = [
        TokenCountEvent(TokenUsageInfo(TokenUsage(total_tokens=70), TokenUsage())),
        TokenCountEvent(TokenUsageInfo(absurd, absurd)),
        TurnCompleteEvent("t", "hi", 0, 1500),
        TurnCompleteEvent("u", "hi", 0, -9000),
    ]
    assert spent_so_far(past, []) == Spent(requests=2, tokens=70, seconds=1.5)


def test_nothing_spent_is_an_amount():
    kept = PluginEntry(plugin="", kind="budget", data={"requests": 0, "turns": 0})
    assert spent_so_far([TurnStartedEvent("t", 0)], [kept]) == Spent()


def test_the_time_of_children_counts_for_all_above_and_only_once():
    above = Budget(Limits(seconds=0.05))
    parent = Budget(parent=above)
    one, other = Budget(parent=parent), Budget(parent=parent)
    one.begin()
    other.begin()
    assert above.reached_limit() is None
    time.sleep(0.06)
    assert above.reached_limit() == one.reached_limit() == "the limit of 0.05 seconds is reached"
    one.end()
    time.sleep(0.01)
    other.end()
    assert one.spent.seconds < other.spent.seconds <= parent.spent.seconds <= above.spent.seconds
    assert above.spent.seconds < one.spent.seconds + other.spent.seconds, "at the same time"
    assert (above.spent.turns, parent.spent.turns, one.spent.turns) == (0, 0, 1)
    ended = above.spent.seconds
    time.sleep(0.01)
    assert above.spent.seconds == ended, "nothing runs any more"


def test_what_a_child_spends_after_its_parents_turn_is_in_the_parents_record(make_kernel, codex_home):
    async def main():
        agent = Agent(name="a", tools=(rest,), limits=Limits(requests=3, seconds=50))
        async with make_kernel([say("one"), call("rest", seconds=0.02), say("two")], entry_points=None) as kernel:
            thread = await kernel.start_thread(agent=agent)
            await thread.run("a")
            child = await thread.conversation.context("test").spawn(Agent(name="child", tools=(rest,)))
            await child.run("b")
            spent = thread.conversation.budget.spent
            (path,) = codex_home.rglob(f"rollout-*{thread.id}.jsonl")
            lines = path.read_text().splitlines()  # as a killed process would leave it
            return spent, [json.loads(line) for line in lines if '"budget"' in line][-1]

    spent, line = asyncio.run(asyncio.wait_for(main(), 30))
    assert (spent.requests, spent.tool_calls) == (3, 1)
    assert spent.seconds >= 0.02
    kept = line["payload"]["data"] if "data" in line["payload"] else line["payload"]
    assert (kept["requests"], kept["tool_calls"], kept["turns"]) == (3, 1, 1)
    assert kept["seconds"] == pytest.approx(spent.seconds, abs=1e-5)


def test_a_project_cannot_raise_limits(tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".codex").mkdir(parents=True)
    (work / ".git").mkdir()
    home.mkdir()
    (home / "config.toml").write_text(f'[framework.limits]\ntokens = 5\n[projects."{work}"]\ntrust_level = "trusted"\n')
    (work / ".codex" / "config.toml").write_text("[framework.limits]\ntokens = 500\n")
    config = load_config(cwd=work, environ={"CODEX_HOME": str(home), "HOME": str(tmp_path)})
    assert config.get("framework.limits") == {"tokens": 5}


def test_the_smaller_limit_counts():
    assert Limits(tokens=5, cost=2.0).smaller(Limits(tokens=9, turns=3, cost=1.0)) == Limits(
        tokens=5, turns=3, cost=1.0
    )


def test_the_usage_of_a_turn_is_its_own(make_kernel):
    async def story():
        async with make_kernel([call("nothing"), say("One."), say("Two.")], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            usages = [(await thread.run("Go!")).outcome.usage for _ in range(2)]
            return [(usage.requests, usage.tool_calls, usage.tokens.total_tokens) for usage in usages]

    assert asyncio.run(story()) == [(2, 1, 240), (1, 0, 120)]
