"""Hook ``codex_observers``: they hear every event but deltas."""

from __future__ import annotations

from codex_framework import hookimpl


def test_codex_observers_example_prints_what_happens(example, run_turn, capsys):
    run_turn(example("codex_observers"))
    heard = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert heard.count("task_started") == heard.count("task_complete") == 1
    assert "agent_message" in heard
    assert not [kind for kind in heard if kind.endswith("_delta")]


def test_codex_observers_hear_events_in_order_with_the_threads_id(run_turn):
    heard = []

    class Plugin:
        name = "ear"

        def observe(self, thread_id, event):
            heard.append((thread_id, event.msg.type))

        @hookimpl
        def codex_observers(self):
            return [self]

    run_turn(Plugin())
    kinds = [kind for _, kind in heard]
    assert kinds[0] == "session_configured"
    assert len({thread_id for thread_id, _ in heard}) == 1
    assert kinds.index("task_started") < kinds.index("agent_message") < kinds.index("task_complete")
