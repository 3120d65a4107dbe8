"""The turn machine, case by case: interrupts, fatal tools, stops, limits, and the decisions of guards."""

from __future__ import annotations

from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
)
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.testing import Playbook
from codex_framework.threads.turn.commands import (
    Admit,
    CancelSample,
    CancelTool,
    CancelWait,
    Emit,
    Finish,
    Flush,
    Record,
    RunTool,
    Sample,
    Wait,
)
from codex_framework.threads.turn.inputs import (
    Admitted,
    Compacted,
    CompactionFailed,
    Delivered,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Refused,
    StopChecked,
    StopRequested,
    TimerFired,
    ToolFinished,
)
from codex_framework.threads.turn.machine import State

from .turn_plays import (
    LATE,
    MARKER,
    MORE,
    NOTE,
    PROMPT,
    SUMMARY,
    begun,
    completed,
    due,
    failed,
    first_admitted,
    function,
    guarded,
    interrupted,
    lost,
    new_turn,
    output,
    overflow,
    reconnecting,
    said,
)

# Interrupts, in every state


def test_an_interrupt_before_the_first_input():
    assert Playbook(new_turn()) << Interrupted() >> Flush() >> interrupted()


def test_an_interrupt_while_the_response_streams():
    answer = said("I be")
    assert (
        begun()
        << ModelItem(answer)
        >> Record((answer,))
        << Interrupted()
        >> CancelSample()
        >> MARKER
        >> Flush()
        >> interrupted("I be")
    )


def test_an_interrupt_while_calls_run_waits_for_them_and_answers_those_that_never_ran():
    write, custom = function("write"), CustomToolCall("patch", "x", "call-2")
    assert (
        begun()
        << ModelItem(write)
        >> Record((write,))
        >> RunTool(0, write)
        << ModelItem(custom)
        >> Record((custom,))
        << ModelCompleted()
        << Interrupted()
        >> CancelTool(0)
        << Interrupted("replaced")
        << ToolFinished(0, output(text="killed"))
        >> Record((output(text="killed"), CustomToolCallOutput("call-2", "aborted")))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_an_interrupt_while_waiting_for_a_retry():
    assert (
        begun()
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
        << Interrupted()
        >> CancelWait()
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_an_interrupt_records_what_was_steered():
    assert (
        begun()
        << InputArrived((MORE,))
        << Interrupted()
        >> CancelSample()
        >> Record((MORE,))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_turn_that_is_replaced_leaves_no_marker():
    assert begun() << Interrupted("replaced") >> CancelSample() >> Flush() >> interrupted(reason="replaced")


def test_input_after_an_interrupt_is_kept_for_the_next_turn_while_calls_still_end():
    play = (
        running("write")
        << InputArrived((MORE,))
        << Interrupted()
        >> CancelTool(0)
        << InputArrived((LATE,))
        << Delivered((NOTE,), when="steer")
        << ToolFinished(0, output(text="killed"))
        >> Record((output(text="killed"),))
        >> Record((MORE,))
        >> MARKER
        >> Flush()
        >> interrupted()
    )
    assert play
    assert play.turn.take_pending() == (InputArrived((LATE,)), InputArrived((NOTE,)))


def test_a_loop_within_a_task_leaves_the_marker_and_the_flush_to_the_task():
    assert begun(marks=False) << Interrupted() >> CancelSample() >> interrupted()
    assert begun(marks=False) << ModelCompleted() >> completed(None)


def test_after_the_end_nothing_follows_from_anything():
    play = begun() << ModelCompleted() >> Flush() >> completed(None)
    assert (
        play
        << Interrupted()
        << ModelItem(said("late"))
        << ModelCompleted()
        << lost()
        << TimerFired()
        << ToolFinished(0, output())
        << Compacted(SUMMARY)
        << CompactionFailed("late")
        << StopChecked(InputArrived((MORE,)))
        << StopRequested("late")
        << Admitted(0, InputArrived((MORE,)))
        << Refused(0, (MORE,))
    )
    assert play.turn.state is State.DONE


# Fatal tools


def running(*names: str) -> Playbook:
    """Calls that run, of a response that is whole."""
    play = begun()
    for key, name in enumerate(names):
        item = function(name, key + 1)
        assert play << ModelItem(item) >> Record((item,)) >> RunTool(key, item)
    assert play << ModelCompleted()
    return play


def test_a_fatal_tool_ends_the_turn_with_every_call_answered():
    one, two, write = function("read_a", 1), function("read_b", 2), function("write", 3)
    aborted = output(3, "aborted")
    assert (
        begun()
        << ModelItem(one)
        >> Record((one,))
        >> RunTool(0, one)
        << ModelItem(two)
        >> Record((two,))
        >> RunTool(1, two)
        << ModelItem(write)
        >> Record((write,))
        << ToolFinished(0, output(1, "fatal"), fatal="the disk is gone")
        >> CancelSample()
        >> CancelTool(1)
        << ToolFinished(1, output(2, "aborted"))
        >> Record((output(1, "fatal"), output(2, "aborted"), aborted))
        >> Emit(ErrorEvent("the disk is gone", "other"))
        >> Flush()
        >> failed("the disk is gone")
    )


def test_a_fatal_end_while_the_turn_is_being_interrupted_stays_an_interrupt():
    assert (
        running("look")
        << Interrupted()
        >> CancelTool(0)
        << ToolFinished(0, output(text="fatal"), fatal="too late")
        >> Record((output(text="fatal"),))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_normal_stop_ends_the_turn_as_completed():
    answer = said("I have")
    assert (
        begun()
        << ModelItem(answer)
        >> Record((answer,))
        << StopRequested("The budget is spent.")
        >> CancelSample()
        >> Emit(WarningEvent("The budget is spent."))
        >> Flush()
        >> completed("I have")
    )


def test_a_stop_while_calls_run_waits_for_them_and_the_first_end_counts():
    assert (
        running("write")
        << StopRequested("")
        >> CancelTool(0)
        << StopRequested("again")
        << Interrupted()
        << ToolFinished(0, output(text="aborted"), fatal="too late")
        >> Record((output(text="aborted"),))
        >> Flush()
        >> completed(None)
    )
    assert (
        running("write")
        << Interrupted()
        >> CancelTool(0)
        << StopRequested("too late")
        << ToolFinished(0, output())
        >> Record((output(),))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_stop_before_the_first_input_is_ignored():
    play = Playbook(new_turn()) << StopRequested("")
    assert play
    assert play.turn.state is State.NEW


# Guards


def test_input_is_recorded_as_the_guards_let_it_pass():
    arrived, changed = InputArrived((PROMPT,), UserMessageEvent("Do it.")), InputArrived((MORE,), UserMessageEvent("!"))
    assert (
        guarded()
        << arrived
        >> Admit(0, arrived)
        << Admitted(0, changed)
        >> Record((MORE,))
        >> Emit(UserMessageEvent("!"))
        >> Sample()
    )


def test_refused_input_is_not_recorded_and_ends_a_turn_that_has_nothing_else_without_asking_anybody():
    arrived = InputArrived((PROMPT,))
    assert (
        guarded(checks_stop=True)
        << arrived
        >> Admit(0, arrived)
        << Refused(0, (NOTE,))
        >> Record((NOTE,))
        >> Flush()
        >> completed(None)
    )


def test_where_the_first_input_is_refused_the_steered_one_takes_its_place():
    first, second = InputArrived((PROMPT,)), InputArrived((MORE,))
    assert (
        guarded()
        << first
        >> Admit(0, first)
        << second
        >> Admit(1, second)
        << Refused(0)
        << Admitted(1, second)
        >> Record((MORE,))
        >> Sample()
    )


def test_steered_input_that_is_admitted_first_still_comes_after_the_first_sample():
    first, second = InputArrived((PROMPT,)), InputArrived((MORE,))
    assert (
        guarded()
        << first
        >> Admit(0, first)
        << second
        >> Admit(1, second)
        << Admitted(1, second)
        << Admitted(0, first)
        >> Record((PROMPT,))
        >> Sample()
        << ModelCompleted()
        >> Record((MORE,))
        >> Sample()
    )


def test_the_next_sample_waits_for_the_guards_and_a_refusal_makes_it_needless():
    second = InputArrived((MORE,))
    assert (
        first_admitted()
        << second
        >> Admit(1, second)
        << ModelCompleted()
        << Refused(1, (NOTE,))
        >> Record((NOTE,))
        >> Flush()
        >> completed(None)
    )


def test_only_the_first_decision_on_an_input_counts():
    second = InputArrived((MORE,))
    assert (
        first_admitted()
        << second
        >> Admit(1, second)
        << Refused(1)
        << Admitted(1, second)
        << Admitted(7, second)
        << ModelCompleted()
        >> Flush()
        >> completed(None)
    )


def test_input_that_nobody_has_decided_on_when_the_turn_is_interrupted_is_told_by_its_key():
    first, second = InputArrived((PROMPT,)), InputArrived((MORE,))
    play = guarded() << first >> Admit(0, first) << second >> Admit(1, second) << Admitted(1, second)
    assert play << Interrupted() >> Record((MORE,)) >> MARKER >> Flush() >> interrupted() << Admitted(0, first)
    assert play.turn.take_undecided() == (0,)
    assert play.turn.take_pending() == ()


def test_what_was_decided_and_not_recorded_before_a_failure_is_left_over():
    second, third = InputArrived((MORE,)), InputArrived((LATE,))
    play = (
        first_admitted()
        << second
        >> Admit(1, second)
        << third
        >> Admit(2, third)
        << Admitted(1, second)
        << Refused(2, (NOTE,))
        << ModelFailed("no key")
        >> Emit
        >> Flush()
        >> Finish
    )
    assert play
    assert play.turn.take_pending() == (second,)
    assert play.turn.take_deliveries() == (Delivered((NOTE,)),)
    assert play.turn.take_undecided() == ()


# Limits


def limited(*sentences: str | None) -> dict[str, object]:
    """What the budget says each time that it is asked; then the last again."""
    said_yet = list(sentences)
    return {"limit": lambda: said_yet.pop(0) if len(said_yet) > 1 else said_yet[0]}


def test_a_limit_ends_the_turn_at_its_next_sample_without_a_marker():
    look, sentence = function("look"), "the limit of 1 requests is reached"
    outcome = Outcome(status=Status.LIMITED, error=sentence, reason="budget_limited")
    play = (
        begun(**limited(None, sentence))
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << InputArrived((MORE,))
        << ModelCompleted()
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Record((MORE,))
        >> Emit(WarningEvent(sentence))
        >> Flush()
        >> Finish(outcome)
    )
    assert play


def test_a_limit_does_not_end_a_turn_that_has_nothing_left_to_do():
    assert begun(**limited(None, "reached")) << ModelCompleted() >> Flush() >> completed(None)


def test_where_a_limit_is_reached_nothing_is_compacted():
    assert (
        Playbook(new_turn(**due("context_limit"), **limited("reached")))
        << InputArrived((PROMPT,))
        >> Record((PROMPT,))
        >> Emit(WarningEvent("reached"))
        >> Flush()
        >> Finish
    )
    assert (
        begun(compacts=True, **limited(None, None, "reached"))
        << overflow()
        >> Emit(WarningEvent("reached"))
        >> Flush()
        >> Finish(Outcome(status=Status.LIMITED, error="reached", reason="budget_limited"))
    )
