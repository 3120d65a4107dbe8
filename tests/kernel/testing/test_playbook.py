"""Playbooks: what they accept, and how they show what went wrong."""

from __future__ import annotations

import pytest

from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing import Playbook
from codex_framework.threads.turn.commands import Emit, Finish, Flush, Record, Sample
from codex_framework.threads.turn.inputs import InputArrived, Interrupted, ModelCompleted, TimerFired
from codex_framework.threads.turn.machine import Outcome, Turn

HELLO = user_message("hello")


def new_turn() -> Turn:
    return Turn(parallel=lambda call: True)


def test_a_script_that_is_followed_is_true_and_may_go_on():
    play = Playbook(new_turn())
    assert play << InputArrived((HELLO,)) >> Record((HELLO,)) >> Sample() << TimerFired()
    assert play << ModelCompleted() >> Flush() >> Finish
    assert play


def test_what_is_missing_and_what_came_instead_are_shown_in_the_script():
    play = Playbook(new_turn()) << InputArrived(()) >> Sample() << ModelCompleted() >> Emit >> Finish
    with pytest.raises(AssertionError) as caught:
        assert play
    assert str(caught.value).split("\n") == [
        "the turn did not follow its playbook:",
        "  << InputArrived(items=(), event=None, mentions=(), context=())",
        "    >> Sample()",
        "  << ModelCompleted(end_turn=None)",
        "-   >> any Emit",
        "+   >> Flush()",
        "    >> any Finish",
    ]


def test_a_wrong_value_is_shown_as_it_came_and_as_it_should_have():
    play = (
        Playbook(new_turn()) << ModelCompleted() << Interrupted() >> Flush() >> Finish(Outcome(status=Status.COMPLETED))
    )
    with pytest.raises(AssertionError) as caught:
        assert play
    assert str(caught.value).split("\n")[-2:] == [
        f"-   >> {Finish(Outcome(status=Status.COMPLETED))!r}",
        f"+   >> {Finish(Outcome(status=Status.INTERRUPTED, reason='interrupted'))!r}",
    ]


def test_an_input_without_commands_has_to_cause_none():
    with pytest.raises(AssertionError, match=r"\n\+   >> Sample\(\)$"):
        assert Playbook(new_turn()) << InputArrived(())


def test_the_order_of_commands_counts():
    with pytest.raises(AssertionError, match="did not follow"):
        assert Playbook(new_turn()) << Interrupted() >> Finish >> Flush


def test_a_command_before_any_input_is_a_mistake():
    with pytest.raises(ValueError, match="begin with `<<`"):
        Playbook(new_turn()) >> Sample()
