"""Rows ``OpHandler.handle`` and ``Task.run``; what is passed to a context that cannot be used."""

from __future__ import annotations

import asyncio
import inspect
import sys

import pytest

from codex_framework import (
    Agent,
    Compaction,
    Limits,
    Op,
    Status,
    Task,
    ThreadError,
    TurnEnded,
    handles,
)
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    ShutdownCompleteEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.protocol.ops import Shutdown
from codex_framework.testing import Offer, say
from tests.kernel.failures.careless import ignore_cancellation, place, play


class Do(Op):
    type = "test_do"

    what: str = ""


def doing(work):
    """A handler that does this."""

    @handles
    async def do(op: Do, thread, id):  # noqa: A002  # the wire's name
        return await work(thread, op, id)

    return do


async def fail(*_):
    raise RuntimeError("no idea")


async def exit_(*_):
    sys.exit(3)


async def late(*_):
    await asyncio.sleep(3600)


async def late_and_deaf(*_):
    await ignore_cancellation()


async def refuse(*_):
    raise ThreadError("not now", slug="busy", hint="Try later.")


# ``OpHandler.handle``


@pytest.mark.parametrize(
    ("work", "fact"),
    [
        (fail, "plugin 'careless' failed to handle the op 'test_do': RuntimeError: no idea ("),
        (exit_, "plugin 'careless' failed to handle the op 'test_do': SystemExit: 3 ("),
        (late, "plugin 'careless' did not handle the op 'test_do' within 0.3 s"),
        (late_and_deaf, "plugin 'careless' did not handle the op 'test_do' within 0.3 s"),
        (refuse, "not now. Try later."),
    ],
)
def test_a_handler_that_fails_or_hangs_is_an_error_event_and_the_thread_goes_on(thread_with, work, fact):
    async def story():
        async with thread_with(ops=[doing(work)]) as thread:
            await thread.client.submit(Do())
            error = await thread.until(ErrorEvent)
            result = await thread.turn("Hi!", say("Hello."))
            await asyncio.sleep(1.3 if work is late_and_deaf else 0)
            return error, result.final_message

    error, message = play(story, 10)
    assert error.message.startswith(fact)
    assert "bad_request" in repr(error)
    assert message == "Hello."
    assert work is refuse or ".py, line " in error.message


def test_ops_are_handled_in_order_one_at_a_time_and_what_a_handler_submits_comes_after(thread_with):
    log = []

    async def work(thread, op, _):
        log.append(f"{op.what} begins")
        if op.what == "first":
            await thread.submit(Do("inner"))
        await asyncio.sleep(0.02)
        log.append(f"{op.what} ends")

    async def story():
        async with thread_with(ops=[doing(work)]) as thread:
            await asyncio.gather(thread.client.submit(Do("first")), thread.client.submit(Do("second")))
            await asyncio.sleep(0.1)

    play(story)
    assert [entry for entry in log if entry.startswith("first")] == log[:2]
    assert log[1::2] == [f"{name.split()[0]} ends" for name in log[::2]]
    assert log.index("inner begins") > log.index("first ends")


def test_a_task_that_a_handler_started_waits_for_what_it_submits(thread_with):
    """It runs in the context of the handler, which has ended."""
    log = []

    class Submitting(Task):
        kind = "submitting"

        async def run(self, turn, input):  # noqa: A002  # the word of the contract
            await asyncio.sleep(0.01)
            await turn.thread.submit(Do("inner"))
            log.append("submitted")

    async def work(thread, op, turn_id):
        if op.what == "inner":
            await asyncio.sleep(0.02)
            log.append("handled")
        else:
            thread.start_task(Submitting(), id=turn_id)

    async def story():
        async with thread_with(ops=[doing(work)]) as thread:
            await thread.client.submit(Do())
            await thread.client.settled()

    play(story)
    assert log == ["handled", "submitted"]


@pytest.mark.parametrize("work", [late, late_and_deaf])
def test_a_shutdown_ends_a_handler_and_refuses_what_waits_behind_it(thread_with, work, monkeypatch):
    monkeypatch.setattr("codex_framework.threads.ops.HANDLER_PATIENCE_S", 30)

    async def story():
        async with thread_with(ops=[doing(work)]) as thread:
            events = thread.client.events()
            submitting = [asyncio.ensure_future(thread.client.submit(Do())) for _ in range(2)]
            await asyncio.sleep(0.05)
            await thread.client.shutdown()
            await asyncio.gather(*submitting)
            await asyncio.sleep(1.5 if work is late_and_deaf else 0)
            return [event.msg async for event in events]

    events = play(story, 10)
    errors = [event.message for event in events if isinstance(event, ErrorEvent)]
    assert "the thread was shut down while plugin 'careless' handled the op 'test_do'" in errors
    assert isinstance(events[-1], ShutdownCompleteEvent)


def test_a_handler_may_shut_its_thread_down(thread_with):
    async def work(thread, *_):
        await thread.submit(Shutdown())

    async def story():
        async with thread_with(ops=[doing(work)]) as thread:
            await thread.client.submit(Do())
            await thread.client.shutdown()
            return [event.message for event in thread.events if isinstance(event, ErrorEvent)]

    assert play(story, 5) == []


def test_something_that_is_no_op_and_one_that_nobody_handles_are_refused(thread_with):
    async def story():
        async with thread_with() as thread:
            await thread.client.submit("test_do")
            await thread.client.submit(Do())
            return [(await thread.until(ErrorEvent)).message for _ in range(2)]

    assert play(story) == [
        "submit() takes an Op, not str. Pass an Op, such as UserInputOp.",
        "no plugin handles the op 'test_do'. The ops of plugins are: none.",
    ]


# ``Task.run``


def task(run, **members):
    return type("Work", (Task,), {"kind": "work", "run": run, **members})()


def ended(thread_with, *tasks, replies=(), interrupt_after_s=None, agent=None, config=()):
    """Start tasks one after the other; the last outcome, the events and the thread."""

    async def story():
        async with thread_with(replies=replies, agent=agent, config=config) as thread:
            for one in tasks:
                thread.inside("careless").start_task(one)
                if interrupt_after_s is not None:
                    await asyncio.sleep(interrupt_after_s)
                    await thread.client.interrupt()
                outcome = await thread.client.settled()
            await asyncio.sleep(1.5 if interrupt_after_s == 0.06 else 0)
            return outcome, list(thread.events), thread

    return play(story, 20)


@pytest.mark.parametrize(
    ("run", "fact"),
    [
        (fail, "the task 'work' of plugin 'careless' failed: RuntimeError: no idea ("),
        (exit_, "the task 'work' of plugin 'careless' failed: SystemExit: 3 ("),
        (refuse, "not now. Try later."),
        (lambda *_: None, "the task 'work' of plugin 'careless' failed: <lambda> is not async"),
    ],
)
def test_a_task_that_fails_ends_its_turn_as_failed_with_why(thread_with, run, fact):
    outcome, events, _ = ended(thread_with, task(run))
    assert (outcome.status, outcome.error[: len(fact)]) == (Status.FAILED, fact)
    assert [type(event) for event in events[-2:]] == [ErrorEvent, TurnCompleteEvent]
    assert run is refuse or __file__ in outcome.error


async def number(*_):
    return 3


def test_a_task_that_returns_something_else_is_told_and_completed(thread_with):
    outcome, events, _ = ended(thread_with, task(number))
    assert (outcome.status, outcome.last_agent_message) == (Status.COMPLETED, None)
    (warning,) = (event.message for event in events if isinstance(event, WarningEvent) and "returned" in event.message)
    assert warning == f"the task 'work' of plugin 'careless' returned int{place(number)}; the last message must be text"


def test_an_interrupt_cancels_a_task_which_may_clean_up(thread_with):
    cleaned = []

    async def run(self, turn, given):
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            turn.record([user_message("cleaned up")])
            cleaned.append(True)

    outcome, events, thread = ended(thread_with, task(run), interrupt_after_s=0.02)
    assert (outcome.status, cleaned) == (Status.INTERRUPTED, [True])
    assert isinstance(events[-1], TurnAbortedEvent)
    assert "cleaned up" in str(thread.history[-2])
    assert "<turn_aborted>" in str(thread.history[-1]), "the marker is last"


def test_an_interrupted_task_leaves_no_marker_if_the_model_is_not_to_be_told(thread_with):
    async def run(self, turn, given):
        await asyncio.sleep(3600)

    config = ["agents.interrupt_message=false"]
    outcome, _, thread = ended(thread_with, task(run), interrupt_after_s=0.02, config=config)
    assert outcome.status == Status.INTERRUPTED
    assert "<turn_aborted>" not in str(thread.history)


def test_a_task_that_ignores_its_cancellation_is_abandoned_and_its_context_is_dead(thread_with):
    late_tries = []

    async def run(self, turn, given):
        request = turn.draft()
        await ignore_cancellation()
        for use in (
            lambda: turn.record([user_message("too late")]),
            lambda: turn.emit(WarningEvent("too late")),
            lambda: turn.draft(),
            lambda: turn.history,
        ):
            try:
                use()
            except TurnEnded as error:
                late_tries.append(error)
        for work in (turn.sample(request), turn.spawn(Agent(name="x")), turn.compact("x"), turn.call_tool("x", {})):
            try:
                await work
            except TurnEnded as error:
                late_tries.append(error)

    outcome, events, thread = ended(thread_with, task(run), replies=[say("never")], interrupt_after_s=0.06)
    assert outcome.status is Status.INTERRUPTED
    assert len(late_tries) == 8
    assert all("has ended" in str(error) for error in late_tries)
    warnings = [event.message for event in events if isinstance(event, WarningEvent)]
    assert "the task 'work' did not stop within 0 s and was abandoned" in warnings
    assert "too late" not in str(thread.history)
    assert (len(thread.requests), list(thread.kernel.threads)) == (0, [])


def test_a_task_cannot_record_after_its_end_from_the_side(thread_with):
    """Not even while components are told of the end."""
    from codex_framework import Component, ThreadComponent

    gone = []
    contexts = []

    async def run(self, turn, given):
        contexts.append(turn)

    class Part(ThreadComponent):
        async def turn_ended(self, turn, outcome):
            try:
                contexts[0].record([user_message("too late")])
            except TurnEnded as error:
                gone.append(error)

    class Whole(Component):
        name = "whole"

        def for_thread(self, thread):
            return Part()

    async def story():
        async with thread_with(components=[Whole()]) as thread:
            thread.inside("careless").start_task(task(run))
            await thread.client.settled()
            return str(thread.history)

    assert "too late" not in play(story)
    assert len(gone) == 1


def test_a_second_exclusive_task_is_refused_or_waits_or_replaces(thread_with):
    log = []

    def logging(name, seconds):
        async def run(self, turn, given):
            try:
                await asyncio.sleep(seconds)
                log.append(f"{name} ends")
            except asyncio.CancelledError:
                log.append(f"{name} cancelled")
                raise

        return run

    async def story():
        async with thread_with() as thread:
            inside = thread.inside("careless")
            inside.start_task(task(logging("first", 0.05)))
            with pytest.raises(ThreadError) as caught:
                inside.start_task(task(logging("refused", 0)))
            inside.start_task(task(logging("waiting", 0), when_busy="wait"))
            await thread.client.settled()
            await asyncio.sleep(0.05)
            inside.start_task(task(logging("old", 3600)))
            await asyncio.sleep(0.01)
            inside.start_task(task(logging("new", 0), when_busy="replace"))
            await asyncio.sleep(0.1)
            return caught.value, [event.reason for event in thread.events if isinstance(event, TurnAbortedEvent)]

    error, reasons = play(story)
    assert (error.slug, error.hint) == ("busy", "Wait until it ends, or interrupt it.")
    assert log == ["first ends", "waiting ends", "old cancelled", "new ends"]
    assert reasons == ["replaced"]


def test_a_limit_that_a_task_reaches_ends_its_turn_as_limited(thread_with):
    async def run(self, turn, given):
        for _ in range(3):
            await turn.sample(turn.draft())

    agent = Agent(name="a", limits=Limits(requests=2))
    outcome, events, thread = ended(thread_with, task(run), replies=[say("x")] * 3, agent=agent)
    assert (outcome.status, outcome.reason, len(thread.requests)) == (Status.LIMITED, "budget_limited", 2)
    assert (events[-1].type, events[-1].reason) == ("turn_aborted", "budget_limited")
    assert "<turn_aborted>" not in str(thread.history)


# What is passed to a context


@pytest.mark.parametrize(
    ("use", "fact"),
    [
        (lambda inside: inside.start_task("task"), "start_task() takes an instance of a subclass of Task, not str"),
        (lambda inside: inside.start_task(Task), "start_task() takes an instance of a subclass of Task, not type"),
        (lambda inside: inside.deliver("text"), "what is delivered is str, not a list of items"),
        (
            lambda inside: inside.deliver(["text"]),
            "what is delivered has str in it, which is not a conversation item",
        ),
        (
            lambda inside: inside.deliver([], when="soon"),
            "deliver() takes one of join, steer, follow_up as `when`, not str",
        ),
        (lambda inside: inside.deliver([], event="x"), "deliver() takes an EventMsg as `event`, not str"),
        (lambda inside: inside.emit("text"), "emit() takes an EventMsg, not str"),
        (
            lambda inside: inside.append_entry("x", {"a": object()}),
            "append_entry() takes plain JSON data: Object of type object",
        ),
        (lambda inside: inside.append_entry("x", "text"), "append_entry() takes a mapping of plain JSON data, not str"),
        (lambda inside: inside.append_entry(3, {}), "append_entry() takes a word as its kind, not int"),
        (lambda inside: inside.request("text"), "request() takes a Request, not str"),
        (lambda inside: inside.spawn("agent"), "the agent of spawn(): it is str, not an Agent"),
        (lambda inside: inside.edit_history("all"), "edit_history() takes a Compaction or RolledBack, not str"),
        (
            lambda inside: inside.edit_history(Compaction(items=["x"], message="")),
            "the compaction's `items` has str in it, which is not a conversation item",
        ),
    ],
)
def test_what_a_context_cannot_use_is_told_at_the_call_and_changes_nothing(thread_with, use, fact):
    async def story():
        async with thread_with() as thread:
            with pytest.raises(TypeError) as caught:
                await _called(use, thread.inside("careless"))
            result = await thread.turn("Hi!", say("Hello."))
            return str(caught.value), result.final_message, list(thread.warnings)

    text, message, warnings = play(story)
    assert text.startswith(fact)
    assert message == "Hello."
    assert not any("no longer saved" in text for text in warnings)


async def _called(use, inside):
    work = use(inside)
    if inspect.isawaitable(work):
        await work


@pytest.mark.parametrize(
    ("use", "fact"),
    [
        (lambda turn: turn.record("text"), "what is recorded is str, not a list of items"),
        (lambda turn: turn.draft(["text"]), "what is drafted has str in it, which is not a conversation item"),
        (
            lambda turn: turn.sample("text"),
            "sample() takes a ModelRequest, such as the result of `turn.draft()`, not str",
        ),
        (lambda turn: turn.spawn(3), "the agent of spawn(): it is int, not an Agent"),
    ],
)
def test_what_a_task_passes_wrongly_is_told_in_its_failure(thread_with, use, fact):
    async def run(self, turn, given):
        await _called(use, turn)

    outcome, _, _ = ended(thread_with, task(run))
    assert outcome.status is Status.FAILED
    assert fact in outcome.error


class Mine(Op):
    type = "user_input"


@handles
async def mine(op: Mine, thread, id):  # noqa: A002  # the wire's name
    raise AssertionError("never called")


def test_an_op_with_a_built_in_tag_cannot_be_taken(make_kernel):
    async def story():
        async with make_kernel([say("Hello.")], plugins=[Offer(name="p", ops=[mine])], entry_points=()) as kernel:
            return kernel.registry.warnings, (await kernel.run_turn("Hi!")).final_message

    (warning,), message = play(story)
    assert "the op 'user_input' is built in and cannot be replaced" in warning
    assert message == "Hello."
