"""Hook ``codex_context_sources``: fragments of instructions and context."""

from __future__ import annotations

from codex_framework import CodexError, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import Message, message_text


def test_codex_context_sources_example_is_in_the_first_prompt(example, run_turn):
    turn = run_turn(example("codex_context_sources"))
    said = [(item.role, message_text(item)) for item in turn.requests[0].prompt.items if isinstance(item, Message)]
    assert said[:2] == [
        ("developer", "<house_rules>\nWrite British English.\n</house_rules>"),
        ("user", "Hello!"),
    ]


def test_codex_context_sources_that_fail_leave_the_turn_alone(run_turn):
    class Plugin:
        name = "torn"

        def fragments(self, facts):
            raise CodexError("the rules are torn")

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    assert turn.final == "Done."
    assert any("'torn'" in event.message for event in turn.events if isinstance(event, WarningEvent))
