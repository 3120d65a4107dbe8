"""What a thread takes over from its record."""

from __future__ import annotations

from codex_framework.contract.protocol.events import (
    ContextCompactedEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.threads.stored import tokens_counted

BEGIN, END, CUT = TurnStartedEvent("1"), TurnCompleteEvent("1"), TurnAbortedEvent("1", "interrupted")


def count(tokens: int) -> TokenCountEvent:
    return TokenCountEvent(TokenUsageInfo(TokenUsage(total_tokens=9), TokenUsage(total_tokens=tokens)))


def test_the_last_count_of_a_turn_tells_how_long_the_history_is():
    assert tokens_counted([BEGIN, count(1), count(2), END]) == 2
    assert tokens_counted([BEGIN, count(1), END, BEGIN, count(3), CUT]) == 3
    assert tokens_counted([BEGIN, count(1)]) == 1


def test_without_a_count_nothing_is_known():
    assert tokens_counted([]) == 0
    assert tokens_counted([BEGIN, TokenCountEvent(), END]) == 0


def test_the_count_of_a_turn_that_was_rolled_back_tells_nothing():
    assert tokens_counted([BEGIN, count(1), END, count(5)]) == 0


def test_a_count_from_before_a_compaction_tells_nothing():
    assert tokens_counted([BEGIN, count(1), END, ContextCompactedEvent()]) == 0, "by a plugin, between turns"
    assert tokens_counted([BEGIN, count(9), END, BEGIN, ContextCompactedEvent()]) == 0, "the program was killed"
    assert tokens_counted([BEGIN, count(9), ContextCompactedEvent(), count(2), END]) == 2


def test_a_record_without_turns_is_taken_as_it_is():
    assert tokens_counted([count(1), count(2)]) == 2
