"""The turn machine, case by case: deliveries, compaction, the check at the end, and loops without an input."""

from __future__ import annotations

from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent
from codex_framework.testing import Playbook
from codex_framework.threads.turn.commands import (
    Admit,
    CancelCompact,
    CancelSample,
    CancelStop,
    CheckStop,
    Compact,
    Emit,
    Finish,
    Flush,
    Record,
    Replace,
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
    TimerFired,
    ToolFinished,
)
from codex_framework.threads.turn.machine import MAX_CONTINUATIONS, OVERFLOW

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

# Deliveries


def test_a_delivery_that_joins_comes_along_with_the_next_sample():
    look, event = function("look"), WarningEvent("mail")
    assert (
        begun()
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << Delivered((NOTE,), event)
        << InputArrived((MORE,))
        << ModelCompleted()
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Record((MORE,))
        >> Record((NOTE,))
        >> Emit(event)
        >> Sample()
    )


def test_a_delivery_that_joins_is_no_reason_for_a_sample_and_is_left_over():
    play = begun() << Delivered((NOTE,)) << ModelCompleted() >> Flush() >> completed(None) << Delivered((MORE,))
    assert play
    assert play.turn.take_deliveries() == (Delivered((NOTE,)), Delivered((MORE,)))
    assert play.turn.take_deliveries() == ()


def test_a_delivery_that_joins_is_left_over_by_an_interrupt():
    play = begun() << Delivered((NOTE,)) << Interrupted() >> CancelSample() >> MARKER >> Flush() >> interrupted()
    assert play
    assert play.turn.take_deliveries() == (Delivered((NOTE,)),)


def test_a_delivery_that_steers_makes_the_turn_go_on():
    assert begun() << Delivered((NOTE,), when="steer") << ModelCompleted() >> Record((NOTE,)) >> Sample()


def test_a_delivery_that_steers_before_the_turn_has_its_input_comes_after_it_and_no_guard_sees_it():
    arrived = InputArrived((PROMPT,))
    assert (
        guarded()
        << Delivered((NOTE,), when="steer")
        << arrived
        >> Admit(0, arrived)
        << Admitted(0, arrived)
        >> Record((PROMPT,))
        >> Sample()
        << ModelCompleted()
        >> Record((NOTE,))
        >> Sample()
    )


def test_a_delivery_that_steers_a_turn_that_never_began_is_kept():
    play = Playbook(new_turn()) << Delivered((NOTE,), when="steer") << Interrupted() >> Flush() >> interrupted()
    assert play
    assert play.turn.take_pending() == (InputArrived((NOTE,)),)


def test_a_follow_up_waits_until_nothing_is_left_to_do_and_each_has_its_own_sample():
    look = function("look")
    assert (
        begun(checks_stop=True)
        << Delivered((NOTE,), when="follow_up")
        << Delivered((MORE,), when="follow_up")
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << ToolFinished(0, output())
        << ModelCompleted()
        >> Record((output(),))
        >> Sample()
        << ModelCompleted()
        >> Record((NOTE,))
        >> Sample()
        << ModelCompleted()
        >> Record((MORE,))
        >> Sample()
        << ModelCompleted()
        >> CheckStop(None)
    )


def test_a_follow_up_to_a_turn_that_fails_is_left_over():
    follow_up = Delivered((NOTE,), when="follow_up")
    play = (
        begun() << follow_up << ModelFailed("no key") >> Emit >> Flush() >> Finish << Delivered((MORE,), when="steer")
    )
    assert play
    assert play.turn.take_deliveries() == (follow_up,)
    assert play.turn.take_pending() == (InputArrived((MORE,)),)


# Compaction


def test_a_compaction_that_is_due_comes_before_the_input_of_the_turn():
    assert (
        Playbook(new_turn(**due("context_limit")))
        << InputArrived((PROMPT,))
        >> Compact("context_limit")
        << Compacted(SUMMARY)
        >> Replace(SUMMARY)
        >> Record((PROMPT,))
        >> Sample()
    )


def test_between_two_samples_come_outputs_compaction_input_deliveries():
    look = function("look")
    assert (
        begun(**due(None, "context_limit", "again"))
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << Delivered((NOTE,))
        << ModelCompleted()
        << InputArrived((MORE,))
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Compact("context_limit")
        << Compacted(SUMMARY)
        >> Replace(SUMMARY)
        >> Record((MORE,))
        >> Record((NOTE,))
        >> Sample()
    )


def test_nothing_is_compacted_at_the_end_of_a_turn():
    assert begun(**due(None, "context_limit")) << ModelCompleted() >> Flush() >> completed(None)


def test_a_compaction_that_fails_is_told_and_the_turn_goes_on():
    assert (
        Playbook(new_turn(**due("context_limit")))
        << InputArrived((PROMPT,))
        >> Compact("context_limit")
        << CompactionFailed("no summary")
        >> Emit(WarningEvent("no summary"))
        >> Record((PROMPT,))
        >> Sample()
    )


def test_a_compaction_after_which_no_request_would_fit_fails_the_turn():
    assert (
        begun(**due(None, "context_limit"))
        << ModelCompleted(end_turn=False)
        >> Compact("context_limit")
        << CompactionFailed("no room", overflow())
        >> Emit(ErrorEvent("too long", OVERFLOW))
        >> Flush()
        >> failed("too long", OVERFLOW)
    )


def test_there_is_no_second_compaction_before_a_response_is_whole():
    assert (
        Playbook(new_turn(**due("context_limit", "again")))
        << InputArrived((PROMPT,))
        >> Compact("context_limit")
        << Compacted(SUMMARY)
        >> Replace(SUMMARY)
        >> Record((PROMPT,))
        >> Sample()
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
        << TimerFired()
        >> Sample()
        << ModelCompleted(end_turn=False)
        >> Compact("again")
    )


def test_an_overflow_is_compacted_once_and_then_fails():
    assert (
        begun(compacts=True)
        << overflow()
        >> Compact("overflow")
        << Compacted(SUMMARY)
        >> Replace(SUMMARY)
        >> Sample()
        << overflow(retryable=True)
        >> Emit(ErrorEvent("too long", OVERFLOW))
        >> Flush()
        >> failed("too long", OVERFLOW)
    )


def test_an_overflow_fails_where_nothing_compacts():
    assert begun() << overflow(retryable=True) >> Emit(ErrorEvent("too long", OVERFLOW)) >> Flush() >> Finish


def test_an_overflow_that_cannot_be_compacted_fails_and_says_why():
    assert (
        begun(compacts=True)
        << overflow()
        >> Compact("overflow")
        << CompactionFailed("no summary")
        >> Emit(WarningEvent("no summary"))
        >> Emit(ErrorEvent("too long", OVERFLOW))
        >> Flush()
        >> failed("too long", OVERFLOW)
    )


def test_a_compaction_that_fails_before_a_retry_does_not_fail_the_turn():
    assert (
        begun(**due(None, "context_limit"))
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
        << TimerFired()
        >> Compact("context_limit")
        << CompactionFailed("no summary")
        >> Emit(WarningEvent("no summary"))
        >> Sample()
    )


def test_an_interrupt_gives_the_compaction_up_and_what_comes_of_it_is_not_taken():
    assert (
        Playbook(new_turn(**due("context_limit")))
        << InputArrived((PROMPT,))
        >> Compact("context_limit")
        << Interrupted()
        >> CancelCompact()
        >> Record((PROMPT,))
        >> MARKER
        >> Flush()
        >> interrupted()
        << Compacted(SUMMARY)
    )


def test_calls_of_a_response_that_overflowed_end_before_the_compaction():
    look = function("look")
    assert (
        begun(compacts=True)
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << overflow()
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Compact("overflow")
    )


# The end of the turn


def stopping(**settings: object) -> Playbook:
    play = begun(checks_stop=True, **settings)
    answer = said("Done.")
    assert play << ModelItem(answer) >> Record((answer,)) << ModelCompleted() >> CheckStop("Done.")
    return play


def test_interceptors_let_the_turn_end():
    assert stopping() << StopChecked() >> Flush() >> completed("Done.")


def test_interceptors_make_the_turn_go_on():
    assert (
        stopping()
        << StopChecked(InputArrived((MORE,)))
        >> Record((MORE,))
        >> Sample()
        << ModelCompleted()
        >> CheckStop("Done.")
        << StopChecked()
        >> Flush()
        >> completed("Done.")
    )


def test_interceptors_make_a_turn_go_on_25_times_at_most():
    play = stopping()
    for _ in range(MAX_CONTINUATIONS - 1):
        play = play << StopChecked(InputArrived((MORE,))) >> Record((MORE,)) >> Sample()
        assert play << ModelCompleted() >> CheckStop("Done.")
    play = play << StopChecked(InputArrived((MORE,))) >> Record((MORE,)) >> Sample()
    assert play << ModelCompleted() >> Flush() >> completed("Done.")


def test_input_of_a_person_ends_the_asking_and_is_answered():
    assert (
        stopping()
        << InputArrived((MORE,))
        >> CancelStop()
        >> Record((MORE,))
        >> Sample()
        << StopChecked(InputArrived((LATE,)))
        << ModelCompleted()
        >> CheckStop("Done.")
    )


def test_input_that_is_refused_while_the_end_is_checked_has_it_checked_again():
    arrived, second = InputArrived((PROMPT,)), InputArrived((MORE,))
    assert (
        first_admitted(checks_stop=True)
        << ModelCompleted()
        >> CheckStop(None)
        << second
        >> CancelStop()
        >> Admit(1, second)
        << Refused(1)
        >> CheckStop(None)
        << Admitted(1, arrived)
        << StopChecked()
        >> Flush()
        >> completed(None)
    )


def test_deliveries_wait_for_the_answer_and_then_the_turn_goes_on():
    assert (
        stopping()
        << Delivered((NOTE,), when="follow_up")
        << Delivered((MORE,), when="steer")
        << StopChecked(InputArrived((LATE,)))
        >> Record((MORE,))
        >> Record((LATE,))
        >> Sample()
        << ModelCompleted()
        >> Record((NOTE,))
        >> Sample()
    )
    assert stopping() << Delivered((NOTE,), when="follow_up") << StopChecked() >> Record((NOTE,)) >> Sample()
    assert stopping() << Delivered((NOTE,), when="steer") << StopChecked() >> Record((NOTE,)) >> Sample()


def test_what_makes_a_turn_go_on_is_recorded_after_a_compaction_that_is_due():
    assert (
        stopping(**due(None, "context_limit"))
        << StopChecked(InputArrived((MORE,)))
        >> Compact("context_limit")
        << Compacted(SUMMARY)
        >> Replace(SUMMARY)
        >> Record((MORE,))
        >> Sample()
    )
    assert (
        begun(**due(None, "context_limit"))
        << Delivered((NOTE,), when="follow_up")
        << ModelCompleted()
        >> Compact("context_limit")
        << Compacted(SUMMARY)
        >> Replace(SUMMARY)
        >> Record((NOTE,))
        >> Sample()
    )


def test_an_interrupt_gives_the_asking_up():
    assert (
        stopping()
        << Interrupted()
        >> CancelStop()
        >> MARKER
        >> Flush()
        >> interrupted("Done.")
        << StopChecked(InputArrived((MORE,)))
    )


# A loop without an input


def test_a_loop_may_begin_with_the_history_as_it_is():
    turn = new_turn()
    assert turn.begin() == [Sample()]
    assert turn.begin() == []
    assert Playbook(turn) << InputArrived((MORE,)) << ModelCompleted() >> Record((MORE,)) >> Sample()


def test_what_was_delivered_before_the_beginning_goes_with_the_first_sample():
    turn = new_turn()
    assert Playbook(turn) << Delivered((MORE,), when="steer") << Delivered((NOTE,))
    assert turn.begin() == [Record((MORE,)), Record((NOTE,)), Sample()]
