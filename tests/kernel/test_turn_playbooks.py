"""The turn machine, case by case: what happens, and what has to follow from it."""

from __future__ import annotations

import pytest

from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent, StreamErrorEvent
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    UnknownItem,
    user_message,
)
from codex_framework.contract.roles.outcomes import Compaction, Outcome, Status
from codex_framework.testing import Playbook
from codex_framework.threads.turn.machine import (
    INTERRUPT_MARKER,
    MAX_CONTINUATIONS,
    MAX_STARTS_OVER,
    OVERFLOW,
    Admit,
    Admitted,
    CancelCompact,
    CancelSample,
    CancelStop,
    CancelTool,
    CancelWait,
    CheckStop,
    Compact,
    Compacted,
    CompactionFailed,
    Delivered,
    Emit,
    Finish,
    Flush,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Record,
    Refused,
    Replace,
    RunTool,
    Sample,
    State,
    StopChecked,
    StopRequested,
    TimerFired,
    ToolFinished,
    Turn,
    Wait,
)

PROMPT = user_message("Do it.")
MORE = user_message("And that.")
LATE = user_message("And then?")
NOTE = user_message("a note")
MARKER = Record((user_message(INTERRUPT_MARKER),))
CUT = "stream disconnected before completion: Transport error: network error: error decoding response body"
NOT_COMPLETED = "stream disconnected before completion: stream closed before response.completed"
IDLE = "stream disconnected before completion: idle timeout waiting for SSE"
DISCONNECTED = {"response_stream_disconnected": {"http_status_code": None}}
SUMMARY = Compaction(items=(user_message("the summary"),), message="the summary")


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
    return Finish(Outcome(status=Status.COMPLETED, last_agent_message=text))


def interrupted(text: str | None = None, reason: str = "interrupted") -> Finish:
    return Finish(Outcome(status=Status.INTERRUPTED, last_agent_message=text, reason=reason))


def failed(error: str, info: object = "other") -> Finish:
    return Finish(Outcome(status=Status.FAILED, error=error, info=info))  # type: ignore[arg-type]


# The plain course


def search(number: int = 1) -> UnknownItem:
    return UnknownItem({"type": "tool_search_call", "call_id": f"s{number}", "execution": "client", "arguments": {}})


def found_nothing(number: int = 1) -> UnknownItem:
    fields = {"call_id": f"s{number}", "status": "completed", "execution": "client", "tools": []}
    return UnknownItem({"type": "tool_search_output", **fields})


def test_a_tool_search_is_answered_with_no_tools_and_the_turn_goes_on():
    assert (
        begun()
        << ModelItem(search())
        >> Record((search(),))
        << ModelItem(function("write"))
        >> Record((function("write"),))
        >> RunTool(1, function("write"))
        << ModelItem(search(2))
        >> Record((search(2),))
        << ModelCompleted()
        << ToolFinished(1, output())
        >> Record((found_nothing(), output(), found_nothing(2)))
        >> Sample()
        << ModelItem(search())
        >> Record((search(),))
        << Interrupted()
        >> CancelSample()
        >> Record((found_nothing(),))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_tool_search_that_a_tool_answers_is_a_call_like_any_other():
    found = found_nothing().evolve(raw={**found_nothing().raw, "tools": [{"type": "function", "name": "a"}]})
    assert (
        begun(searches=lambda: True)
        << ModelItem(search())
        >> Record((search(),))
        >> RunTool(0, search())
        << ModelItem(search(2))
        >> Record((search(2),))
        << ModelCompleted()
        << ToolFinished(0, found)
        >> RunTool(1, search(2))
        << Interrupted()
        >> CancelTool(1)
        << ToolFinished(1, found_nothing(2))
        >> Record((found, found_nothing(2)))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_tool_search_that_has_not_started_is_answered_without_tools():
    assert (
        begun(searches=lambda: True)
        << ModelItem(function("write"))
        >> Record((function("write"),))
        >> RunTool(0, function("write"))
        << ModelItem(search())
        >> Record((search(),))
        << Interrupted()
        >> CancelSample()
        >> CancelTool(0)
        << ToolFinished(0, output())
        >> Record((output(), found_nothing()))
        >> MARKER
        >> Flush()
        >> interrupted()
    )


def test_a_tool_search_of_the_server_needs_no_answer():
    item = UnknownItem({"type": "tool_search_call", "call_id": "s1", "execution": "server", "arguments": {}})
    assert begun() << ModelItem(item) >> Record((item,)) << ModelCompleted() >> Flush() >> completed(None)


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
        >> Emit(ErrorEvent(CUT, DISCONNECTED))
        >> Flush()
        >> failed(CUT, DISCONNECTED)
    )


def test_a_provider_that_starts_over_uses_no_retry_but_cannot_do_so_for_ever():
    other_way = ModelFailed(CUT, retryable=True, info=DISCONNECTED, starts_over=True)
    play = begun()
    for _ in range(MAX_STARTS_OVER):
        play = play << lost() >> reconnecting(1) >> Wait(0.2) << TimerFired() >> Sample()
        play = play << other_way >> Wait(0.0) << TimerFired() >> Sample()
    assert play << other_way >> reconnecting(1) >> Wait(0.2)


def test_a_complete_response_lets_a_provider_start_over_as_often_again():
    other_way = ModelFailed(CUT, retryable=True, info=DISCONNECTED, starts_over=True)
    look = function("look")
    play = begun()
    for _ in range(MAX_STARTS_OVER):
        play = play << other_way >> Wait(0.0) << TimerFired() >> Sample()
    play = play << ModelItem(look) >> Record((look,)) >> RunTool(0, look) << ModelCompleted()
    play = play << ToolFinished(0, output()) >> Record((output(),)) >> Sample()
    assert play << other_way >> Wait(0.0)


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
    assert (
        begun()
        << ModelFailed("no key", info="unauthorized")
        >> Emit(ErrorEvent("no key", "unauthorized"))
        >> Flush()
        >> failed("no key", "unauthorized")
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


def guarded(**settings: object) -> Playbook:
    return Playbook(new_turn(guarded=True, **settings))


def first_admitted(**settings: object) -> Playbook:
    play = guarded(**settings)
    arrived = InputArrived((PROMPT,))
    assert play << arrived >> Admit(0, arrived) << Admitted(0, arrived) >> Record((PROMPT,)) >> Sample()
    return play


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


def due(*reasons: str | None) -> dict[str, object]:
    """The reasons that the compactor has, one for each time that it is asked; then none."""
    left = iter(reasons)
    return {"compacts": True, "due": lambda: next(left, None)}


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


def overflow(*, retryable: bool = False) -> ModelFailed:
    return ModelFailed("too long", retryable=retryable, info=OVERFLOW)


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
