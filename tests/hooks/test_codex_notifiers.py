"""Hook ``codex_notifiers``: who is told when a turn ends or needs a person."""

from __future__ import annotations

from codex_framework import hookimpl


def test_codex_notifiers_example_rings_when_a_turn_ends(example, run_turn, capsys):
    turn = run_turn(example("codex_notifiers"))
    assert turn.final == "Done."
    assert capsys.readouterr().err == "\a"


def test_codex_notifiers_are_told_what_was_asked_and_answered(run_turn):
    class Plugin:
        name = "diary"
        told = []  # noqa: RUF012

        def notify(self, notification):
            self.told.append(notification)

        @hookimpl
        def codex_notifiers(self):
            return [self]

    run_turn(Plugin())
    (notification,) = Plugin.told
    assert (notification.type, notification.input_messages, notification.last_assistant_message) == (
        "agent-turn-complete",
        ("Hello!",),
        "Done.",
    )
