"""Hook ``codex_compactors``: how a conversation is shortened."""

from __future__ import annotations

from codex_framework import Compaction, Compactor, hookimpl
from codex_framework.testing.replies import call, say


class Forget(Compactor):
    name = "forget"

    def __init__(self, broken=False):
        self.broken = broken
        self.asked = []

    def due(self, status, turn):
        self.asked.append(status)
        return "enough" if len(self.asked) == 2 else None

    async def compact(self, turn, reason):
        if self.broken:
            raise OSError("no disk")
        return Compaction(items=turn.history[-1:], message=f"because of {reason}")


class Plugin:
    def __init__(self, compactor):
        self.compactor = compactor

    @hookimpl
    def codex_compactors(self):
        return [self.compactor]


def test_codex_compactors_example_leaves_a_short_history_alone(example, run_turn):
    turn = run_turn(example("codex_compactors"), replies=[say("Done.")])
    assert (turn.final, turn.error) == ("Done.", None)


def test_codex_compactors_replace_the_history_when_they_are_due(run_turn):
    turn = run_turn(Plugin(Forget()), replies=[call("nothing"), say("Done.")])
    assert turn.final == "Done."
    assert "context_compacted" in [event.type for event in turn.events]
    first, second = (request.prompt.items for request in turn.requests)
    assert "Hello!" in str(first)
    assert "Hello!" not in str(second)


def test_codex_compactors_that_fail_leave_the_history_as_it_was(run_turn):
    turn = run_turn(Plugin(Forget(broken=True)), replies=[call("nothing"), say("Done.")])
    assert "no disk" in str(turn.events), turn.events
    assert "Hello!" in str(turn.requests[1].prompt.items)
