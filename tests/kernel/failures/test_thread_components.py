"""Rows ``ThreadComponent.start``, ``tools``, ``before_calls``, ``turn_ended``, ``idle``, ``background``; state that cannot close."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from codex_framework import Component, Op, Status, ThreadComponent, handles, tool
from codex_framework.contract.protocol.events import TurnAbortedEvent, TurnCompleteEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.testing import LeftBehind, call, say
from tests.kernel.failures.careless import ignore_cancellation, place, play

HELLO = say("Hello.")


class Whole(Component):
    """A component whose part is made by the test."""

    def __init__(self, make, name="whole"):
        self.name = name
        self._make = make

    def for_thread(self, thread):
        return self._make(thread)


def part(**members):
    """A class of thread components with these members."""
    return type("Part", (ThreadComponent,), members)


@tool
def here() -> str:
    """Be here."""
    return "here"


async def fail(self, *_):
    raise RuntimeError("no server")


async def hang(self, *_):
    await asyncio.sleep(3600)


async def hang_on(self, *_):
    await ignore_cancellation()


async def exit_(self, *_):
    sys.exit(3)


def plain(self, *_):
    return None


def turns(thread_with, *makes, replies=(HELLO,), within_s=20, **more):
    """One turn per list of replies; what came of them, the warnings and the thread."""

    async def story():
        components = [Whole(make, f"part-{number}") for number, make in enumerate(makes, 1)]
        async with thread_with(components=components, **more) as thread:
            results = [await thread.turn("Hi!", *(each if isinstance(each, list) else [each])) for each in replies]
            return results, list(thread.warnings), thread

    return play(story, within_s)


def of_part(warnings):
    return [text for text in warnings if text.startswith("component 'part-")]


LABEL = "component 'part-1' of plugin 'careless'"


@pytest.mark.parametrize(
    ("start", "fact"),
    [
        (fail, "start() failed: RuntimeError: no server ("),
        (exit_, "start() failed: SystemExit: 3 ("),
        (plain, "start() failed: start is not async ("),
    ],
)
def test_a_start_that_fails_is_told_once_and_the_thread_goes_on_without(thread_with, start, fact):
    made = part(start=renamed(start, "start"), tools=lambda self, turn: [here])
    replies = [[call("here"), say("One.")], say("Two.")]
    results, warnings, thread = turns(thread_with, lambda _: made(), replies=replies)
    assert [result.final_message for result in results] == ["One.", "Two."]
    (warning,) = of_part(warnings)
    assert warning.startswith(f"{LABEL}: {fact}")
    assert __file__ in warning
    assert "). The thread continues without it. " in warning
    assert thread.outputs == ["unsupported call: here"], "its tools are gone"


@pytest.mark.slow
def test_a_start_that_hangs_holds_up_one_sample_and_no_more(thread_with):
    made = part(start=hang, ready_timeout_s=4)
    began = time.monotonic()
    results, warnings, _ = turns(thread_with, lambda _: made(), replies=[[call("nothing"), say("One.")], say("Two.")])
    assert time.monotonic() - began < 8, "three samples, one of which waited"
    assert [result.final_message for result in results] == ["One.", "Two."]
    (warning,) = of_part(warnings)
    assert warning == (
        f"{LABEL}: start() did not end within 4 s{place(hang)}."
        " The thread continues, and its tools become available when it is ready. Make it faster, or increase its `ready_timeout_s`."
    )


def test_parts_are_waited_for_at_once(thread_with):
    made = part(start=hang, ready_timeout_s=0.6)
    began = time.monotonic()
    _, warnings, _ = turns(thread_with, *[lambda _: made()] * 8)
    assert time.monotonic() - began < 0.6 * 8
    assert len(of_part(warnings)) == 8


def test_a_late_part_is_used_when_it_is_ready(thread_with):
    class Late(ThreadComponent):
        ready_timeout_s = 0.05

        def __init__(self, thread):
            self.thread = thread
            self.ready = False

        async def start(self):
            await asyncio.sleep(0.3)
            self.ready = True
            self.thread.tools_changed()

        def tools(self, turn):
            return [here] if self.ready else []

    async def story():
        async with thread_with(components=[Whole(Late)]) as thread:
            first = await thread.turn("Hi!", say("One."))
            await asyncio.sleep(0.4)
            await thread.turn("Hi!", call("here"), say("Two."))
            return first.final_message, thread.outputs

    assert play(story) == ("One.", ["here"])


def test_a_late_part_that_fails_loses_its_tools(thread_with):
    class Late(ThreadComponent):
        ready_timeout_s = 0.05

        def __init__(self, thread):
            self.thread = thread
            self.fails = asyncio.Event()

        async def start(self):
            await self.fails.wait()
            raise RuntimeError("no server")

        def tools(self, turn):
            return [here]

    made = []

    async def story():
        async with thread_with(components=[Whole(lambda thread: made.append(Late(thread)) or made[-1])]) as thread:
            await thread.turn("Hi!", call("here"), say("One."))
            made[0].fails.set()
            await asyncio.sleep(0.01)
            made[0].thread.tools_changed()
            await thread.turn("Hi!", call("here"), say("Two."))
            return thread.outputs

    assert play(story) == ["here", "unsupported call: here"]


def test_a_required_part_that_fails_fails_the_turn_and_the_next_one_tries_again(thread_with):
    tries = []

    class Flaky(ThreadComponent):
        required = True

        async def start(self):
            tries.append(len(tries))
            if len(tries) == 1:
                raise RuntimeError("no server")

    (first, second), _, _ = turns(thread_with, lambda _: Flaky(), replies=[say("Never."), say("Well.")])
    assert (first.status, second.final_message) == (Status.FAILED, "Never."), "nothing was asked of the model before"
    assert first.error.startswith(f"{LABEL}: start() failed: RuntimeError: no server (")
    assert 'Fix the plugin, or disable it with `[framework] plugins.disabled = ["careless"]`.' in first.error


def test_a_required_part_that_hangs_fails_the_turn_until_it_is_ready(thread_with):
    class Slow(ThreadComponent):
        required = True
        ready_timeout_s = 0.1

        async def start(self):
            await asyncio.sleep(0.25)

    async def story():
        async with thread_with(components=[Whole(lambda _: Slow(), "part-1")]) as thread:
            first = await thread.turn("Hi!", say("Well."))
            await asyncio.sleep(0.2)
            return first, await thread.turn("Hi!")

    first, second = play(story)
    assert first.error.startswith(f"{LABEL}: start() did not end within 0.1 s{place(Slow.start)}")
    assert second.final_message == "Well."


def test_an_interrupt_ends_the_waiting(thread_with):
    async def story():
        async with thread_with(components=[Whole(lambda _: part(start=hang)())]) as thread:
            thread.start("Hi!", say("Never."))
            await asyncio.sleep(0.05)
            await thread.client.interrupt()
            await thread.until(TurnAbortedEvent)
            return len(thread.requests)

    assert play(story, within_s=5) == 0


def test_a_start_that_ignores_its_cancellation_does_not_hold_up_the_end(thread_with):
    made = part(start=hang_on, ready_timeout_s=0.05)
    with pytest.raises(LeftBehind) as caught:
        turns(thread_with, lambda _: made())
    assert caught.value.things[0].startswith(f"{LABEL}: start() did not stop within 0.2 s{place(hang_on)}. Fix ")


@pytest.mark.parametrize(
    ("tools", "fact"),
    [
        (lambda self, turn: 1 / 0, "tools() failed: ZeroDivisionError: division by zero ("),
        (lambda self, turn: None, "tools() failed: it returned None, not a list of tools ("),
        (lambda self, turn: "here", "tools() failed: it returned str, not a list of tools ("),
    ],
)
def test_tools_that_fail_give_none_of_this_part_and_all_of_the_others(thread_with, tools, fact):
    broken, fine = part(tools=tools), part(tools=lambda self, turn: [here])
    _, warnings, thread = turns(
        thread_with, lambda _: broken(), lambda _: fine(), replies=[[call("here"), say("One.")]]
    )
    (warning,) = of_part(warnings)
    assert warning.startswith(f"{LABEL}: {fact}")
    assert __file__ in warning
    assert thread.outputs == ["here"]


def test_an_object_that_is_no_tool_is_left_out_alone(thread_with):
    made = part(tools=lambda self, turn: [object(), here])
    _, warnings, thread = turns(thread_with, lambda _: made(), replies=[[call("here"), say("One.")]])
    assert any(text.startswith("a tool of plugin 'careless' is ignored: it has no attribute spec") for text in warnings)
    assert thread.outputs == ["here"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "fact"),
    [
        (fail, "failed: RuntimeError: no server ("),
        (exit_, "failed: SystemExit: 3 ("),
        (hang, "did not end within 0.3 s ("),
        (hang_on, "did not end within 0.3 s ("),
        (plain, "failed: before_calls is not async ("),
    ],
)
def test_before_calls_that_fails_or_hangs_is_told_and_calls_go_on(thread_with, method, fact):
    method = renamed(method, "before_calls")
    made = part(before_calls=method, tools=lambda self, turn: [here])

    async def story():
        async with thread_with(components=[Whole(lambda _: made(), "part-1")]) as thread:
            await thread.turn("Hi!", call("here"), say("One."))
            await asyncio.sleep(1.6 if "hang_on" in repr(method) else 0)
            return thread.outputs, list(thread.warnings)

    outputs, warnings = play(story)
    assert outputs == ["here"]
    (warning,) = of_part(warnings)
    assert warning.startswith(f"{LABEL}: before_calls() {fact}")
    assert __file__ in warning


def renamed(function, name):
    """The function under the name of the method that it is."""
    copy = type(function)(function.__code__, function.__globals__, name)
    copy.__qualname__ = f"hang_on.{name}" if function is hang_on else name
    return copy


@pytest.mark.parametrize(
    ("method", "fact"),
    [
        (fail, "failed: RuntimeError: no server ("),
        (exit_, "failed: SystemExit: 3 ("),
        (hang, "did not end within 0.2 s ("),
        (plain, "failed: turn_ended is not async ("),
    ],
)
def test_turn_ended_that_fails_or_hangs_is_told_and_the_turn_ends(thread_with, method, fact):
    log = []

    class Last(ThreadComponent):
        async def turn_ended(self, turn, outcome):
            log.append((outcome.status, turn.facts.turn_id != "", turn.thread.turn is not None))

    made = part(turn_ended=renamed(method, "turn_ended"))
    (result,), warnings, _ = turns(thread_with, lambda _: made(), lambda _: Last())
    assert result.final_message == "Hello."
    (warning,) = of_part(warnings)
    assert warning.startswith(f"{LABEL}: turn_ended() {fact}")
    assert log == [(Status.COMPLETED, True, True)]


def test_a_part_without_work_in_a_turn_is_not_called(thread_with):
    log = []

    class Part(ThreadComponent):
        works = True

        def has_turn_work(self, turn):
            log.append(turn.turn_id != "")
            return self.works

        async def before_calls(self, turn):
            log.append("before_calls")

        async def turn_ended(self, turn, outcome):
            log.append("turn_ended")
            self.works = False

    replies = [[call("here"), say("One.")], say("Two.")]
    turns(thread_with, lambda _: part(tools=lambda self, turn: [here])(), lambda _: Part(), replies=replies)
    assert log == [True, "before_calls", True, "turn_ended", True, True]


@pytest.mark.parametrize(
    ("method", "fact"),
    [
        (lambda self, turn: 1 / 0, "ZeroDivisionError: division by zero ("),
        (exit_, "has_turn_work is async, but it is called without await ("),
    ],
)
def test_a_part_that_cannot_say_whether_it_has_work_is_told_and_called(thread_with, method, fact):
    log = []

    async def turn_ended(self, turn, outcome):
        log.append(outcome.status)

    made = part(has_turn_work=method, turn_ended=turn_ended)
    _, warnings, _ = turns(thread_with, lambda _: made())
    (warning,) = of_part(warnings)
    assert warning.startswith(f"{LABEL}: has_turn_work() failed: {fact}")
    assert log == [Status.COMPLETED]


def test_turn_ended_comes_in_reverse_order_before_the_end_is_visible(thread_with):
    log = []

    def make(number):
        class Part(ThreadComponent):
            async def turn_ended(self, turn, outcome):
                await asyncio.sleep(0.01)
                log.append(number)

        return lambda _: Part()

    async def story():
        async with thread_with(components=[Whole(make(n), f"part-{n}") for n in (1, 2)]) as thread:
            subscription = thread.client.events()
            thread.start("Hi!", say("Hello."))
            async for event in subscription:
                if isinstance(event.msg, TurnCompleteEvent):
                    break
            return list(log)

    assert play(story) == [2, 1]


def test_the_last_part_is_closed_first(thread_with):
    log = []

    def make(number):
        class Part(ThreadComponent):
            async def aclose(self):
                log.append(number)

        return lambda _: Part()

    turns(thread_with, make(1), make(2))
    assert log == [2, 1]


def test_idle_that_fails_is_told_and_not_asked_again_before_the_next_turn(thread_with):
    asked = []

    class Part(ThreadComponent):
        async def idle(self):
            asked.append("part")
            raise RuntimeError("no server")

    class Next(ThreadComponent):
        async def idle(self):
            asked.append("next")

    async def story():
        components = [Whole(lambda _: Part(), "part-1"), Whole(lambda _: Next(), "part-2")]
        async with thread_with(components=components) as thread:
            for _ in range(2):
                await thread.turn("Hi!", say("Hello."))
                await thread.client.settled()
                await asyncio.sleep(0.05)
            return list(thread.warnings)

    (warning,) = of_part(play(story))
    assert warning.startswith(f"{LABEL}: idle() failed: RuntimeError: no server (")
    assert asked == ["part", "next"] * 2


def test_the_first_idle_that_starts_a_turn_ends_the_round(thread_with):
    asked = []

    class Part(ThreadComponent):
        def __init__(self, thread):
            self.thread = thread

        async def idle(self):
            asked.append("part")
            if len(asked) == 1:
                self.thread.deliver([user_message("Go on.")], trigger=True)

    class Next(ThreadComponent):
        async def idle(self):
            asked.append("next")

    async def story():
        async with thread_with(components=[Whole(Part, "part-1"), Whole(lambda _: Next(), "part-2")]) as thread:
            await thread.turn("Hi!", say("One."), say("Two."))
            return (await thread.client.settled()).last_agent_message

    assert play(story) == "Two."
    assert asked == ["part", "part", "next"]


def test_input_ends_an_idle_that_hangs(thread_with):
    ended = []

    class Part(ThreadComponent):
        async def idle(self):
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(True)

    async def story():
        async with thread_with(components=[Whole(lambda _: Part(), "part-1")]) as thread:
            await thread.turn("Hi!", say("One."))
            await asyncio.sleep(0.05)
            result = await thread.turn("Hi!", say("Two."))
            return result.final_message, list(ended), of_part(thread.warnings)

    assert play(story) == ("Two.", [True], [])


class Beside(Op):
    type = "beside"

    how: str


@pytest.mark.parametrize(
    ("work", "fact"),
    [
        (fail, "failed: RuntimeError: no server ("),
        (exit_, "failed: SystemExit: 3 ("),
    ],
)
def test_background_work_that_fails_is_told_and_nothing_else_ends(thread_with, work, fact):
    @handles
    async def beside(op: Beside, thread, id):  # noqa: A002  # the wire's name
        thread.background(work(None), name="looking")

    async def story():
        async with thread_with(ops=[beside]) as thread:
            await thread.client.submit(Beside("x"))
            result = await thread.turn("Hi!", say("Hello."))
            return result.final_message, list(thread.warnings)

    message, warnings = play(story)
    assert message == "Hello."
    (warning,) = (text for text in warnings if "looking" in text)
    assert warning.startswith(f"background work 'looking' of plugin 'careless' {fact}")
    assert __file__ in warning


def test_background_work_that_goes_on_is_abandoned_and_told(thread_with):
    @handles
    async def beside(op: Beside, thread, id):  # noqa: A002  # the wire's name
        thread.background(ignore_cancellation(), name="looking")

    async def story():
        async with thread_with(ops=[beside]) as thread:
            await thread.client.submit(Beside("x"))
            await asyncio.sleep(0.01)

    with pytest.raises(LeftBehind) as caught:
        play(story, within_s=10)
    text = "background work 'looking' of plugin 'careless' did not stop within 0.2 s and was abandoned. "
    assert caught.value.things[0].startswith(text)


def test_a_background_that_is_no_coroutine_is_told_at_the_call(thread_with):
    async def story():
        async with thread_with() as thread:
            with pytest.raises(
                TypeError, match="background\\(\\) takes a coroutine: call the async function, not function"
            ):
                thread.inside("careless").background(ignore_cancellation, name="x")

    play(story)


@pytest.mark.parametrize(
    ("close", "fact"), [(fail, "failed: RuntimeError: no server ("), (hang_on, "did not end within 0.2 s (")]
)
def test_state_that_cannot_be_closed_is_told_and_the_rest_is_closed(thread_with, close, fact):
    closed = []

    class Kept:
        async def aclose(self):
            closed.append(True)

    async def story():
        async with thread_with() as thread:
            context = thread.inside("careless")
            context.state("bad", type("Bad", (), {"aclose": close}))
            context.state("good", Kept)

    with pytest.raises(LeftBehind) as caught:
        play(story)
    assert caught.value.things[0].startswith(f"state 'bad' of plugin 'careless': aclose() {fact}")
    assert closed == [True]
