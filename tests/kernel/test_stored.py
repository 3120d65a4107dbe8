"""What a thread takes over from its record."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import Agent, ApprovalPolicy, ProviderInfo
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events import (
    ContextCompactedEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.policies import ReadOnly
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread, ThreadMeta
from codex_framework.threads.stored_threads import count_tokens, keep_model

BEGIN, END, CUT = TurnStartedEvent("1"), TurnCompleteEvent("1"), TurnAbortedEvent("1", "interrupted")


def count(tokens: int) -> TokenCountEvent:
    return TokenCountEvent(TokenUsageInfo(TokenUsage(total_tokens=9), TokenUsage(total_tokens=tokens)))


def test_the_last_count_of_a_turn_tells_how_long_the_history_is():
    assert count_tokens([BEGIN, count(1), count(2), END]) == 2
    assert count_tokens([BEGIN, count(1), END, BEGIN, count(3), CUT]) == 3
    assert count_tokens([BEGIN, count(1)]) == 1


def test_without_a_count_nothing_is_known():
    assert count_tokens([]) == 0
    assert count_tokens([BEGIN, TokenCountEvent(), END]) == 0


def test_the_count_of_a_turn_that_was_rolled_back_tells_nothing():
    assert count_tokens([BEGIN, count(1), END, count(5)]) == 0


def test_a_count_from_before_a_compaction_tells_nothing():
    assert count_tokens([BEGIN, count(1), END, ContextCompactedEvent()]) == 0, "by a plugin, between turns"
    assert count_tokens([BEGIN, count(9), END, BEGIN, ContextCompactedEvent()]) == 0, "the program was killed"
    assert count_tokens([BEGIN, count(9), ContextCompactedEvent(), count(2), END]) == 2


def test_a_record_without_turns_is_taken_as_it_is():
    assert count_tokens([count(1), count(2)]) == 2


@pytest.mark.parametrize(("provider", "kept"), [("p", True), ("another", False)])
@pytest.mark.parametrize("named", [True, False])
def test_a_child_keeps_its_model_only_at_the_provider_that_has_it(provider, kept, named):
    info = ProviderInfo(id="p", name="P")
    settings = Settings(
        model="of the parent",
        provider=info,
        approval_policy=ApprovalPolicy.NEVER,
        permissions=permissions_of(ReadOnly()),
        cwd=Path("/"),
        reasoning_effort="high",
    )
    meta = ThreadMeta(
        id="t",
        cwd="/",
        created_at=0.0,
        originator="",
        source="subagent",
        cli_version="",
        model_provider="" if named else provider,
    )
    context = {"model": "own", "effort": "low", **({"model_provider": provider} if named else {})}
    found = keep_model(StoredThread(meta=meta, history=(), last_turn_context=context), settings, Agent(name="a"))
    assert (found.model, found.reasoning_effort) == (("own", "low") if kept else ("of the parent", "high"))
