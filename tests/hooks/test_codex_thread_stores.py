"""Hook ``codex_thread_stores``: where conversations live."""

from __future__ import annotations

import pytest

from codex_framework import hookimpl, tool
from codex_framework.contract.roles.stores import ItemEntry, RecorderStopped
from codex_framework.testing import Offer, call, say
from codex_plugin_sessions.memory import MemoryStore


def test_codex_thread_stores_example_is_used_when_named(example, run_turn):
    turn = run_turn(example("codex_thread_stores"), config=('framework.thread_store="forgetful"',))
    assert turn.final == "Done."


def test_codex_thread_stores_get_the_head_and_the_entries_of_a_thread(run_turn):
    heard = []

    class Plugin:
        name = "memory"
        path = None

        def create(self, meta, codex_home):
            heard.append(("create", meta.model_provider))
            return self

        def reopen(self, stored, codex_home):
            raise NotImplementedError

        def load(self, thread_id, codex_home):
            raise NotImplementedError

        def latest(self, codex_home, *, cwd=None):
            return None

        def append(self, entries):
            heard.append(("append", [type(entry).__name__ for entry in entries]))

        def flush(self):
            heard.append(("flush", True))

        def close(self):
            heard.append(("close", True))

        @hookimpl
        def codex_thread_stores(self):
            return [self]

    run_turn(Plugin(), config=('framework.thread_store="memory"',))
    assert heard[0] == ("create", "scripted")
    assert {kind for kind, _ in heard} == {"create", "append", "flush", "close"}
    kept = [kind for what, kinds in heard if what == "append" for kind in kinds]
    assert "ItemEntry" in kept
    assert "TurnContextEntry" in kept
    assert heard.index(("create", "scripted")) < heard.index(("flush", True)) < heard.index(("close", True))


@pytest.mark.parametrize(("stops_with", "expected"), [("function_call", []), ("function_call_output", [1])])
def test_codex_thread_stores_whose_recorder_stops_end_the_turn_before_its_next_effect(run_turn, stops_with, expected):
    effects = []

    class TakenStore(MemoryStore):
        """A store whose thread another process takes when an item of a kind is recorded."""

        def create(self, meta, codex_home):
            recorder = super().create(meta, codex_home)
            append, flush, kinds = recorder.append, recorder.flush, set()

            def note(entries):
                kinds.update(entry.item.type for entry in entries if isinstance(entry, ItemEntry))
                append(entries)

            def flush_or_stop():
                if stops_with in kinds:
                    raise RecorderStopped("thread t is continued by another process", hint="Stop this one.")
                flush()

            recorder.append, recorder.flush = note, flush_or_stop
            return recorder

    @tool
    async def act(number: int) -> str:
        """Act."""
        effects.append(number)
        return "done"

    class Plugin:
        @hookimpl
        def codex_thread_stores(self):
            return [TakenStore()]

    replies = (call("act", number=1), call("act", number=2), say("finished"))
    turn = run_turn(Plugin(), Offer(tools=[act]), config=('framework.thread_store="memory"',), replies=replies)
    assert effects == expected
    assert len(turn.requests) == 1
    assert turn.final is None
    assert turn.error == "the turn failed: thread t is continued by another process. Stop this one."
