"""Hook ``codex_thread_stores``: where conversations live."""

from __future__ import annotations

from codex_framework import hookimpl


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
