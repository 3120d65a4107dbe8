"""The turn machine, case by case: the plain course, calls, broken responses and steering."""

from __future__ import annotations

import pytest

from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent, StreamErrorEvent
from codex_framework.contract.protocol.items import (
    FunctionCallOutput,
    LocalShellCall,
    Reasoning,
    UnknownItem,
)
from codex_framework.testing import Playbook
from codex_framework.threads.turn.commands import (
    CancelSample,
    CancelTool,
    Emit,
    Finish,
    Flush,
    Record,
    RunTool,
    Sample,
    Wait,
)
from codex_framework.threads.turn.inputs import (
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    TimerFired,
    ToolFinished,
)
from codex_framework.threads.turn.machine import MAX_STARTS_OVER

from .turn_plays import (
    CUT,
    DISCONNECTED,
    IDLE,
    MARKER,
    MORE,
    NOT_COMPLETED,
    PROMPT,
    begun,
    completed,
    failed,
    function,
    interrupted,
    lost,
    new_turn,
    output,
    reconnecting,
    said,
)

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


def test_the_final_message_is_what_clients_see_of_it():
    answer = said("shown, and the rest")
    assert (
        begun() << ModelItem(answer, "shown") >> Record((answer,)) << ModelCompleted() >> Flush() >> completed("shown")
    )
    assert begun() << ModelItem(answer, "") >> Record((answer,)) << ModelCompleted() >> Flush() >> completed(None)


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
    longer = ModelFailed("slow down", retryable=True, retry_after_s=29.7)
    told = "slow down; the next attempt is in 30 s"
    assert begun() << longer >> Emit(StreamErrorEvent("Reconnecting... 1/3", "other", told)) >> Wait(29.7)
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
