"""The conversation on the screen."""

from __future__ import annotations

from codex_client_terminal.text import plain_text
from codex_client_terminal.transcript import MOST_PAST, Past, Transcript
from codex_framework.contract.protocol.events import AgentMessageEvent, TokenCountEvent, TokenUsage, TokenUsageInfo


def test_of_a_long_conversation_only_the_newest_items_are_kept() -> None:
    usage = TokenUsageInfo(TokenUsage(total_tokens=7), TokenUsage(total_tokens=5), 100)
    events = [AgentMessageEvent(f"answer {number}") for number in range(MOST_PAST + 3)]
    past = Past.of([*events[:9], TokenCountEvent(usage), *events[9:]])
    assert (len(past.items), past.earlier, past.usage) == (MOST_PAST, 3, usage)
    lines = [plain_text(line) for line in Transcript({}).print_past(past)]
    assert lines[1].startswith("… 3 earlier items are not printed")
    assert lines[3] == "• answer 3"
    assert lines[-1] == f"• answer {MOST_PAST + 2}"


def test_of_a_short_conversation_everything_is_kept() -> None:
    past = Past.of([AgentMessageEvent("only")])
    assert (len(past.items), past.earlier, past.usage) == (1, 0, None)
