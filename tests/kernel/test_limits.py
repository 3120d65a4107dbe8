"""Limits of agents, and what clients hear of the calls that count for them."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import Agent, Limits, Status, ToolError, tool
from codex_framework.contract.protocol.events import ToolCallBeginEvent, ToolCallEndEvent
from codex_framework.testing import call, say


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
