"""The turn machine, case by case: what happens, and what has to follow from it."""

from __future__ import annotations

import pytest

from codex_framework.protocol.events.command import ExecApprovalRequestEvent
from codex_framework.protocol.events.message import UserMessageEvent
from codex_framework.protocol.events.turn import ErrorEvent, StreamErrorEvent
from codex_framework.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    user_message,
)
from codex_framework.protocol.policies import Decision, ReviewDecision
from codex_framework.testing import Playbook
from codex_framework.turn import (
    INTERRUPT_MARKER,
    ApprovalAnswered,
    ApprovalRequested,
    CancelSample,
    CancelTool,
    CancelWait,
    Emit,
    Finish,
    Flush,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Outcome,
    Record,
    Resolve,
    RunTool,
    Sample,
    State,
    Status,
    TimerFired,
    ToolFinished,
    Turn,
    Wait,
)

PROMPT = user_message("Do it.")
MORE = user_message("And that.")
MARKER = Record((user_message(INTERRUPT_MARKER),))
CUT = "stream disconnected before completion: Transport error: network error: error decoding response body"
NOT_COMPLETED = "stream disconnected before completion: stream closed before response.completed"
IDLE = "stream disconnected before completion: idle timeout waiting for SSE"
DISCONNECTED = {"response_stream_disconnected": {"http_status_code": None}}
ABORT = ReviewDecision(Decision.ABORT)
APPROVED = ReviewDecision(Decision.APPROVED)


def new_turn(**settings: object) -> Turn:
    """Calls whose name begins with ``read`` are parallel-safe."""
    return Turn(parallel=lambda call: getattr(call, "name", "").startswith("read"), max_retries=3, **settings)  # type: ignore[arg-type]


def begun(**settings: object) -> Playbook:
    play = Playbook(new_turn(**settings))
    assert play << InputArrived((PROMPT,)) >> Record((PROMPT,)) >> Sample()
    return play


def said(text: str, phase: str | None = None) -> Message:
    return Message("assistant", (OutputText(text),), phase=phase)


def function(name: str, number: int = 1) -> FunctionCall:
    return FunctionCall(name, "{}", f"call-{number}")


def output(number: int = 1, text: str = "done") -> FunctionCallOutput:
    return FunctionCallOutput(f"call-{number}", text)


def lost(reason: str = CUT) -> ModelFailed:
    return ModelFailed(reason, retryable=True, info=DISCONNECTED)


def reconnecting(number: int, reason: str = CUT) -> Emit:
    return Emit(StreamErrorEvent(f"Reconnecting... {number}/3", DISCONNECTED, reason))


def completed(text: str | None) -> Finish:
    return Finish(Outcome(Status.COMPLETED, text))


def interrupted(text: str | None = None, reason: str = "interrupted") -> Finish:
    return Finish(Outcome(Status.INTERRUPTED, text, reason=reason))


def request(number: int = 1) -> ApprovalRequested:
    event = ExecApprovalRequestEvent(
        call_id=f"call-{number}", turn_id="turn-1", command=("rm",), cwd="/", started_at_ms=0, available_decisions=()
    )
    return ApprovalRequested(f"call-{number}", event)


def ask(number: int = 1) -> Emit:
    return Emit(request(number).event)


# The plain course


def test_an_answer_ends_the_turn():
    answer = said("Done.")
    assert begun() << ModelItem(answer) >> Record((answer,)) << ModelCompleted() >> Flush() >> completed("Done.")


def test_an_empty_response_ends_the_turn_without_a_message():
    assert begun() << ModelCompleted() >> Flush() >> completed(None)


def test_reasoning_and_commentary_are_recorded_and_are_not_the_final_message():
    thought, remark, answer = Reasoning(summary=()), said("Let me see.", "commentary"), said("Yes.", "final_answer")
    assert (
        begun()
        << ModelItem(thought)
        >> Record((thought,))
        << ModelItem(answer)
        >> Record((answer,))
        << ModelItem(remark)
        >> Record((remark,))
        << ModelCompleted()
        >> Flush()
        >> completed("Yes.")
    )


def test_the_prompt_is_shown_before_the_model_is_asked():
    event = UserMessageEvent("Do it.")
    assert Playbook(new_turn()) << InputArrived((PROMPT,), event) >> Record((PROMPT,)) >> Emit(event) >> Sample()


def test_a_call_starts_while_the_response_streams_and_its_output_leads_to_the_next_sample():
    look, answer = function("look"), said("Done.")
    assert (
        begun()
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << ToolFinished(0, output())
        << ModelCompleted()
        >> Record((output(),))
        >> Sample()
        << ModelItem(answer)
        >> Record((answer,))
        << ModelCompleted()
        >> Flush()
        >> completed("Done.")
    )


def test_a_response_that_does_not_end_the_turn_is_followed_by_another_sample():
    remark = said("Wait.")
    assert (
        begun()
        << ModelItem(remark)
        >> Record((remark,))
        << ModelCompleted(end_turn=False)
        >> Sample()
        << ModelCompleted(end_turn=True)
        >> Flush()
        >> completed("Wait.")
    )


def test_end_turn_true_does_not_drop_the_output_of_a_call():
    look = function("look")
    assert (
        begun()
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << ModelCompleted(end_turn=True)
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Sample()
    )


def test_a_local_shell_call_without_a_call_id_is_given_one():
    shell = LocalShellCall({"type": "exec", "command": ["ls"]}, None, "completed")
    known = LocalShellCall({"type": "exec", "command": ["ls"]}, None, "completed", id="lsh_1")
    first, second = shell.evolve(call_id="local_shell_0"), known.evolve(call_id="lsh_1")
    assert (
        begun()
        << ModelItem(shell)
        >> Record((first,))
        >> RunTool(0, first)
        << ModelItem(known)
        >> Record((second,))
        << Interrupted()
        >> CancelSample()
        >> CancelTool(0)
        << ToolFinished(0, FunctionCallOutput("local_shell_0", "aborted"))
        >> Record((FunctionCallOutput("local_shell_0", "aborted"), FunctionCallOutput("lsh_1", "aborted")))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


# Parallel and exclusive calls


def test_parallel_calls_overlap_and_their_outputs_keep_call_order():
    one, two = function("read_a", 1), function("read_b", 2)
    assert (
        begun()
        << ModelItem(one)
        >> Record((one,))
        >> RunTool(0, one)
        << ModelItem(two)
        >> Record((two,))
        >> RunTool(1, two)
        << ModelCompleted()
        << ToolFinished(1, output(2))
        << ToolFinished(0, output(1))
        >> Record((output(1), output(2)))
        >> Sample()
    )


def test_an_exclusive_call_waits_for_those_before_it_and_those_behind_it_wait():
    one, write, two, three = function("read_a", 1), function("write", 2), function("read_b", 3), function("read_c", 4)
    assert (
        begun()
        << ModelItem(one)
        >> Record((one,))
        >> RunTool(0, one)
        << ModelItem(write)
        >> Record((write,))
        << ModelItem(two)
        >> Record((two,))
        << ModelItem(three)
        >> Record((three,))
        << ToolFinished(0, output(1))
        >> RunTool(1, write)
        << ModelCompleted()
        << ToolFinished(1, output(2))
        >> RunTool(2, two)
        >> RunTool(3, three)
        << ToolFinished(3, output(4))
        << ToolFinished(2, output(3))
        >> Record((output(1), output(2), output(3), output(4)))
        >> Sample()
    )


def test_a_call_that_ends_twice_counts_once():
    look = function("look")
    assert (
        begun()
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << ToolFinished(0, output(text="first"))
        << ToolFinished(0, output(text="second"))
        << ToolFinished(7, output(text="of no call"))
        << ModelCompleted()
        >> Record((output(text="first"),))
        >> Sample()
    )


# Broken responses (what the real Codex does in the same cases)


@pytest.mark.parametrize("reason", [CUT, NOT_COMPLETED, IDLE], ids=["h1 h2 cut", "h3 not completed", "h4 idle"])
def test_a_response_that_breaks_off_is_asked_for_again(reason):
    half, whole = said("I be"), said("I begin.")
    assert (
        begun()
        << ModelItem(half)
        >> Record((half,))
        << lost(reason)
        >> reconnecting(1, reason)
        >> Wait(0.2)
        << TimerFired()
        >> Sample()
        << ModelItem(whole)
        >> Record((whole,))
        << ModelCompleted()
        >> Flush()
        >> completed("I begin.")
    )


def test_h5_a_response_that_always_breaks_off_fails_after_the_last_retry():
    error = ErrorEvent(CUT, DISCONNECTED)
    assert (
        begun()
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
        << TimerFired()
        >> Sample()
        << lost()
        >> reconnecting(2)
        >> Wait(0.4)
        << TimerFired()
        >> Sample()
        << lost()
        >> reconnecting(3)
        >> Wait(0.8)
        << TimerFired()
        >> Sample()
        << lost()
        >> Emit(error)
        >> Flush()
        >> Finish(Outcome(Status.FAILED, error=error))
    )


def test_h6_a_call_that_was_complete_before_the_cut_runs_once_and_its_output_goes_with_the_retry():
    look = function("look")
    assert (
        begun()
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << lost()
        << ToolFinished(0, output())
        >> Record((output(),))
        >> reconnecting(1)
        >> Wait(0.2)
        << TimerFired()
        >> Sample()
    )


def test_a_whole_response_starts_the_count_of_retries_anew():
    assert (
        begun()
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
        << TimerFired()
        >> Sample()
        << ModelCompleted(end_turn=False)
        >> Sample()
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
    )


def test_the_server_may_say_how_long_to_wait_and_the_jitter_is_left_out_then():
    failure = ModelFailed("slow down", retryable=True, retry_after_s=1.2)
    assert (
        begun(jitter=lambda: 1.1)
        << failure
        >> Emit(StreamErrorEvent("Reconnecting... 1/3", "other", "slow down"))
        >> Wait(1.2)
    )
    assert begun(jitter=lambda: 1.5) << lost() >> reconnecting(1) >> Wait(0.2 * 1.5)


def test_a_failure_that_cannot_be_mended_ends_the_turn_at_once():
    error = ErrorEvent("no key", "unauthorized")
    assert (
        begun()
        << ModelFailed("no key", info="unauthorized")
        >> Emit(error)
        >> Flush()
        >> Finish(Outcome(Status.FAILED, error=error))
    )


def test_what_comes_of_a_response_that_was_given_up_is_not_taken():
    late = said("late")
    assert begun() << lost() >> reconnecting(1) >> Wait(0.2) << ModelItem(late) << ModelCompleted() << lost()


# Steering


def test_steered_input_goes_into_the_next_sample():
    look, event = function("look"), UserMessageEvent("And that.")
    assert (
        begun()
        << ModelItem(look)
        >> Record((look,))
        >> RunTool(0, look)
        << InputArrived((MORE,), event)
        << ModelCompleted()
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Record((MORE,))
        >> Emit(event)
        >> Sample()
    )


def test_steered_input_keeps_a_turn_going_that_would_have_ended():
    answer = said("Done.")
    assert (
        begun()
        << InputArrived((MORE,))
        << ModelItem(answer)
        >> Record((answer,))
        << ModelCompleted()
        >> Record((MORE,))
        >> Sample()
    )


def test_input_that_comes_while_waiting_goes_with_the_retry():
    assert (
        begun()
        << lost()
        >> reconnecting(1)
        >> Wait(0.2)
        << InputArrived((MORE,))
        << TimerFired()
        >> Record((MORE,))
        >> Sample()
    )


def test_input_after_the_end_is_kept_for_the_next_turn():
    play = begun() << ModelCompleted() >> Flush() >> completed(None) << InputArrived((MORE,))
    assert play
    assert play.turn.take_pending() == (InputArrived((MORE,)),)


def test_input_that_was_steered_before_a_failure_is_kept_for_the_next_turn():
    play = begun() << InputArrived((MORE,)) << ModelFailed("no key") >> Emit >> Flush() >> Finish
    assert play
    assert play.turn.take_pending() == (InputArrived((MORE,)),)


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
        << Interrupted("replaced")
        >> CancelTool(0)
        << Interrupted()
        << ToolFinished(0, output(text="killed"))
        >> Record((output(text="killed"), CustomToolCallOutput("call-2", "aborted")))
        >> MARKER
        >> Flush()
        >> interrupted(reason="replaced")
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
        << ApprovalAnswered("call-1", APPROVED)
    )
    assert play.turn.state is State.DONE


# Approvals


def running(*names: str) -> Playbook:
    """Calls that run, of a response that is whole."""
    play = begun()
    for key, name in enumerate(names):
        item = function(name, key + 1)
        assert play << ModelItem(item) >> Record((item,)) >> RunTool(key, item)
    assert play << ModelCompleted()
    return play


def test_an_approval_is_asked_and_its_answer_given_to_the_call():
    assert (
        running("look")
        << request()
        >> ask()
        << ApprovalAnswered("call-1", APPROVED)
        >> Resolve("call-1", APPROVED)
        << ToolFinished(0, output())
        >> Record((output(),))
        >> Sample()
    )


def test_an_answer_to_nothing_or_for_the_second_time_is_ignored():
    assert (
        running("look")
        << ApprovalAnswered("call-1", APPROVED)
        << request()
        >> ask()
        << ApprovalAnswered("call-9", APPROVED)
        << ApprovalAnswered("call-1", APPROVED)
        >> Resolve("call-1", APPROVED)
        << ApprovalAnswered("call-1", ABORT)
    )


def test_a_denied_call_ends_and_the_turn_goes_on():
    denied = ReviewDecision(Decision.DENIED)
    assert (
        running("look")
        << request()
        >> ask()
        << ApprovalAnswered("call-1", denied)
        >> Resolve("call-1", denied)
        << ToolFinished(0, output(text="rejected by user"))
        >> Record((output(text="rejected by user"),))
        >> Sample()
    )


def test_two_open_approvals_are_answered_each_by_its_own():
    assert (
        running("read_a", "read_b")
        << request(1)
        >> ask(1)
        << request(2)
        >> ask(2)
        << ApprovalAnswered("call-2", APPROVED)
        >> Resolve("call-2", APPROVED)
        << ApprovalAnswered("call-1", APPROVED)
        >> Resolve("call-1", APPROVED)
    )


def test_abort_as_an_answer_ends_the_turn():
    assert (
        running("look")
        << request()
        >> ask()
        << ApprovalAnswered("call-1", ABORT)
        >> Resolve("call-1", ABORT)
        >> CancelTool(0)
        << ToolFinished(0, output(text="aborted"))
        >> Record((output(text="aborted"),))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_an_interrupt_answers_what_is_open_and_what_is_still_asked():
    assert (
        running("read_a", "read_b")
        << request(1)
        >> ask(1)
        << Interrupted()
        >> Resolve("call-1", ABORT)
        >> CancelTool(0)
        >> CancelTool(1)
        << request(2)
        >> Resolve("call-2", ABORT)
        << ApprovalAnswered("call-1", APPROVED)
        << ToolFinished(0, output(1))
        << ToolFinished(1, output(2))
        >> Record((output(1), output(2)))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_question_after_the_end_is_answered_with_abort():
    assert begun() << ModelCompleted() >> Flush() >> completed(None) << request() >> Resolve("call-1", ABORT)


# Fatal tools


def test_a_fatal_tool_ends_the_turn_with_every_call_answered():
    one, two, write = function("read_a", 1), function("read_b", 2), function("write", 3)
    error = ErrorEvent("the disk is gone", "other")
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
        >> Emit(error)
        >> Flush()
        >> Finish(Outcome(Status.FAILED, error=error))
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
