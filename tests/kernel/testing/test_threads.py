"""``make_thread``: what a test does with a thread, and what it is told of at the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

import codex_plugin_compaction
from codex_framework import (
    Component,
    Observer,
    Op,
    Plugin,
    Request,
    Status,
    ThreadComponent,
    ThreadContext,
    ToolContext,
    handles,
    hookimpl,
    tool,
)
from codex_framework.contract.protocol.events import ToolCallBeginEvent, TurnCompleteEvent
from codex_framework.testing import LeftBehind, Offer, ThreadFactory, answer, call, say
from codex_plugin_compaction import Compact


class MayI(Request[bool]):
    type = "test_may_i"
    answer_type = bool
    what: str = ""

    def unattended(self):
        return False


class Notes(ThreadComponent):
    def __init__(self, thread):
        self.thread = thread

    def tools(self, turn):
        return [tool(self.note), tool(self.linger)]

    async def note(self, text: str, context: ToolContext) -> str:
        """Note something."""
        if not await context.request(MayI(what=text)):
            return "not noted"
        self.thread.append_entry("note", {"text": text})
        return ", ".join(entry["text"] for entry in self.thread.entries("note"))

    async def linger(self) -> str:
        """Wait."""
        await asyncio.sleep(3600)
        return ""


class Notebook(Component):
    name = "notebook"

    def for_thread(self, thread):
        return Notes(thread)


class Notebooks(Plugin):
    codex_components = hookimpl(lambda self: [Notebook()])


@pytest.fixture
def make_thread(make_kernel):
    return ThreadFactory(make_kernel)


def play(story):
    return asyncio.run(asyncio.wait_for(story(), 60))


def test_turns_answers_and_what_was_seen(make_thread):
    async def story():
        async with make_thread(Notebooks, answer(MayI, lambda request: request.what != "b")) as thread:
            result = await thread.turn("Note.", call("note", text="a"), call("note", text="b"), say("Done."))
            return result, thread.outputs, [request.what for request in thread.seen], len(thread.requests)

    result, outputs, seen, requests = play(story)
    assert (result.final_message, result.status) == ("Done.", Status.COMPLETED)
    assert outputs == ["a", "not noted"]
    assert (seen, requests) == (["a", "b"], 3)


def test_without_answers_nobody_is_there(make_thread):
    async def story():
        async with make_thread(Notebooks) as thread:
            await thread.turn("Note.", call("note", text="a"), say("Done."))
            return thread.outputs, thread.warnings

    outputs, warnings = play(story)
    assert outputs == ["not noted"]
    assert any("nobody can answer" in text for text in warnings)


def test_an_async_answer(make_thread):
    async def think(request):
        await asyncio.sleep(0.01)
        return True

    async def story():
        async with make_thread(Notebooks, answer(MayI, think)) as thread:
            await thread.turn("Note.", call("note", text="a"), say("Done."))
            return thread.outputs

    assert play(story) == ["a"]


def test_a_turn_is_started_followed_and_interrupted(make_thread):
    async def story():
        async with make_thread(Notebooks) as thread:
            turn_id = thread.start("Wait.", call("linger"))
            begun = await thread.until(ToolCallBeginEvent)
            await thread.client.interrupt()
            return turn_id, begun, await thread.client.settled()

    turn_id, begun, outcome = play(story)
    assert (begun.turn_id, begun.tool) == (turn_id, "linger")
    assert outcome.status is Status.INTERRUPTED


def test_each_event_is_returned_once_and_one_that_does_not_come_is_named(make_thread):
    async def story():
        async with make_thread(Notebooks) as thread:
            for number in ("one", "two"):
                await thread.turn(number, say(number))
            ends = [(await thread.until(TurnCompleteEvent)).last_agent_message for _ in range(2)]
            with pytest.raises(AssertionError) as caught:
                await thread.until(TurnCompleteEvent, within_s=0.05)
            return ends, str(caught.value)

    ends, text = play(story)
    assert ends == ["one", "two"]
    assert text.startswith("no TurnCompleteEvent within 0.05 s; received events: task_started")


def test_a_restarted_thread_has_what_was_on_disk(make_thread):
    async def story():
        async with make_thread(Notebooks, answer(MayI, True)) as first:  # the answer
            await first.turn("Note.", call("note", text="a"), say("Done."))
            second = await first.restarted()
            assert second.client.id == first.client.id
            assert second.kernel is not first.kernel
            assert second.inside("Notebooks").origin == "resumed"
            await second.turn("Again.", call("note", text="b"), say("Done."))
            return second.outputs, len(second.requests)

    outputs, requests = play(story)
    assert outputs == ["a", "a, b"]
    assert requests == 4


def test_what_the_dying_process_would_have_written_is_not_there(make_thread):
    async def story():
        async with make_thread(Notebooks) as first:
            first.start("Wait.", call("linger"))
            await first.until(ToolCallBeginEvent)
            second = await first.restarted()
            return [item.type for item in second.history[-2:]], second.outputs

    types, outputs = play(story)
    assert types == ["function_call", "function_call_output"], "every call has an output"
    assert outputs == ["aborted"]


def test_an_installed_plugin_is_loaded_once_under_its_own_name(make_thread):
    async def story():
        async with make_thread(codex_plugin_compaction) as thread:
            await thread.turn("Hi!", say("Hello."))
            thread.kernel.model.add(say("They greeted."))
            await thread.client.submit(Compact())
            await thread.client.settled()
            return [report.name for report in thread.kernel.registry.reports], len(thread.history)

    names, length = play(story)
    assert names.count("compaction") == 1
    assert "codex_plugin_compaction" not in names
    assert length == 2


def test_a_plugin_that_is_not_loaded_whole_is_told(make_thread):
    class Broken(Plugin):
        codex_compactors = hookimpl(lambda self: [object()])

    async def story():
        async with make_thread(Broken):
            pass

    with pytest.raises(
        AssertionError, match=r"the plugin is not loaded completely:\n.*compactor of type object is ignored"
    ):
        play(story)


class Leaving(Op):
    type = "test_leaving"

    what: str


KEPT = []


def sleeper():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])


def leaving(what):
    """A plugin that leaves something behind."""

    class Untidy(Component):
        name = "untidy"

        async def start(self, kernel):
            if what == "task":
                KEPT.append(asyncio.ensure_future(asyncio.sleep(3600)))
            elif what == "process":
                KEPT.append(sleeper())
            elif what == "file":
                KEPT.append(open(__file__))  # noqa: SIM115, PTH123  # that is the point

        async def aclose(self):
            if what == "close":
                raise RuntimeError("cannot close")

    return Offer(name="untidy", components=[Untidy()])


def test_what_a_plugin_leaves_behind_is_told(make_thread, monkeypatch):
    monkeypatch.setattr("codex_framework.testing.leftovers.GRACE_S", 0.3)

    async def leave(what):
        async with make_thread(leaving(what)) as thread:
            await thread.turn("Hi!", say("Hello."))

    async def left(what):
        with pytest.raises(LeftBehind) as caught:
            await leave(what)
        for thing in KEPT:
            if isinstance(thing, subprocess.Popen):
                thing.kill()
                thing.wait()
            elif isinstance(thing, asyncio.Task):
                thing.cancel()
            else:
                thing.close()
        KEPT.clear()
        return caught.value.things

    async def story():
        return [await left(what) for what in ("task", "process", "file", "close")]

    (task,), (process,), (file,), (close,) = play(story)
    assert task.startswith("the task sleep (") and task.endswith(") is still running")  # noqa: PT018
    assert "import time; time.sleep(3600)) is still running" in process
    assert file.startswith(f"{__file__} is still open")
    assert "component 'untidy' of plugin 'untidy': aclose() failed: RuntimeError: cannot close (" in close


def test_an_open_request_is_told(make_thread):
    @handles
    async def ask(op: Leaving, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        thread.background(_asked(thread), name="asking")

    async def _asked(thread):
        await thread.request(MayI())

    async def story():
        async with make_thread(Offer(ops=[ask]), attended=True) as thread:
            await thread.client.submit(Leaving("x"))
            await thread.until(MayI)

    with pytest.raises(LeftBehind) as caught:
        play(story)
    assert caught.value.things == ("the request test_may_i is still open",)


def test_an_observer_that_fails_late_in_a_turn_is_a_warning_of_the_turn_and_not_of_the_end(make_thread):
    goes_on = threading.Event()

    class Late(Observer):
        name = "late"

        def observe(self, thread_id, event):
            if isinstance(event.msg, TurnCompleteEvent):
                goes_on.wait(20)
                raise RuntimeError("too late")

    async def story():
        async with make_thread(Offer(observers=[Late()])) as thread:
            await thread.turn("Hi!", say("Hello."))
            asyncio.get_running_loop().call_later(0.05, goes_on.set)  # after the thread has begun to close
        return [text for text in thread.warnings if "observer 'late'" in text]

    (warning,) = play(story)
    assert "RuntimeError: too late" in warning


def test_a_failure_of_the_test_itself_comes_through(make_thread):
    async def story():
        async with make_thread(leaving("close")):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        play(story)
