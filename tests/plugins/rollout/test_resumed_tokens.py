"""The tokens of a resumed thread: what was spent counts on, and the length of the history is the last one that applies."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework.contract.protocol.events import (
    ContextCompactedEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.testing import say
from codex_framework.threads.stored_threads import count_tokens, usage_so_far
from codex_plugin_rollout import RolloutStore
from tests.plugins.rollout.test_reconstruction import event, turn


def counted(total: int, last: int) -> TokenCountEvent:
    return TokenCountEvent(TokenUsageInfo(TokenUsage(total_tokens=total), TokenUsage(total_tokens=last)))


STARTED, DONE = TurnStartedEvent("t"), TurnCompleteEvent("t")


def test_the_last_count_is_what_was_spent() -> None:
    assert usage_so_far(()) == TokenUsage()
    past = (STARTED, counted(10, 10), counted(30, 20), TokenCountEvent(None), DONE)
    assert usage_so_far(past) == TokenUsage(total_tokens=30)


def test_the_length_of_the_history_is_that_of_the_last_sample() -> None:
    assert count_tokens((STARTED, counted(10, 10), counted(30, 20), TokenCountEvent(None), DONE)) == 20


def test_counts_of_turns_that_are_gone_do_not_apply() -> None:
    turn = (STARTED, counted(10, 10), DONE)
    assert count_tokens((*turn, counted(30, 20))) == 0
    assert count_tokens((*turn, counted(30, 20), STARTED, counted(35, 5), DONE)) == 5
    assert count_tokens((STARTED, counted(10, 10), ContextCompactedEvent(), DONE)) == 0


def test_of_turns_that_were_rolled_back_the_last_count_stays(store: RolloutStore, rollout: Any) -> None:
    counts = [("event_msg", to_wire(msg)) for msg in (counted(10, 10), counted(30, 20))]
    path = rollout(*turn(1)[:-1], *counts, turn(1)[-1], event("thread_rolled_back", num_turns=1))
    assert store.load(str(path), "/nowhere").events == (counted(30, 20),)


def test_a_resumed_thread_counts_on(make_kernel: Any) -> None:
    def used(text: str, tokens: int) -> Any:
        return say(text).evolve(usage=TokenUsage(tokens - 10, 0, 10, 0, tokens))

    async def story() -> tuple[list[int], list[int]]:
        async with make_kernel([used("One.", 100), used("Two.", 250), used("Three.", 300)]) as kernel:
            first = await kernel.start_thread()
            await first.run("a")
            await first.run("b")
            await first.shutdown()
            resumed = await kernel.resume_thread(first.id)
            result = await resumed.run("c")
        infos = [event.info for event in result.events if isinstance(event, TokenCountEvent) and event.info]
        return [info.total_token_usage.total_tokens for info in infos], [
            info.last_token_usage.total_tokens for info in infos
        ]

    total, last = asyncio.run(story())
    assert (total[-1], last[-1]) == (650, 300)
