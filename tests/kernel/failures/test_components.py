"""Rows ``Component.start``, ``Component.aclose`` and ``for_thread``; services, and circles of requirements."""

from __future__ import annotations

import asyncio
import sys

import pytest

from codex_framework import (
    ApprovalReviewer,
    CodexError,
    Component,
    Interceptor,
    PluginError,
    ServiceError,
    ServiceKey,
    ThreadComponent,
    hookimpl,
    tool,
)
from codex_framework.testing import Offer, say
from tests.kernel.failures.careless import ignore_cancellation, place, play

A, B, C, D = (ServiceKey(name) for name in "abcd")


class Starting(Component):
    """A component whose start is a function of the test."""

    def __init__(self, name, start=None, *, provides=(), requires=(), required=False, limit_s=0.3, part=None):
        self.name = name
        self.provides = provides
        self.requires = requires
        self.required = required
        self.start_timeout_s = self.close_timeout_s = limit_s
        self.closed = 0
        self._start = start
        self._part = part

    async def start(self, kernel):
        return await self._start(kernel) if self._start else dict.fromkeys(self.provides, self.name)

    def for_thread(self, thread):
        return self._part(thread) if self._part else None

    async def aclose(self):
        self.closed += 1


def reports(make_kernel, *plugins, **settings):
    """The kernel's registry with these plugins, and what a turn in it gives."""

    async def story():
        async with make_kernel([say("Hello.")], plugins=plugins, entry_points=(), **settings) as kernel:
            run = await kernel.run_turn("Hi!")
            return kernel.registry, run

    return play(story)


def problem(registry, plugin):
    (found,) = next(report for report in registry.reports if report.name == plugin).problems
    return found.text


async def fail(kernel):
    raise RuntimeError("no disk")


async def hang(kernel):
    await asyncio.sleep(3600)


async def hang_on(kernel):
    await ignore_cancellation()


async def give_a_list(kernel):
    return ["a"]


async def give_less(kernel):
    return {B: 1}


async def give_words(kernel):
    return {A: 1, "b": 2}


async def exit_(kernel):
    sys.exit(3)


@tool
def good() -> str:
    """Do."""
    return ""


@pytest.mark.parametrize(
    ("start", "fact"),
    [
        (fail, "component 'x' did not start: RuntimeError: no disk ("),
        (hang, "component 'x' did not start within 0.3 s ("),
        (hang_on, "component 'x' did not start within 0.3 s ("),
        (exit_, "component 'x' did not start: SystemExit: 3 ("),
        (give_a_list, "component 'x' did not start: start() returned list, not a mapping of services ("),
        (give_less, "component 'x' did not start: start() returned no service a, which `provides` names ("),
        (give_words, "component 'x' did not start: start() returned services under 'b', which is not a ServiceKey ("),
    ],
)
def test_a_start_that_fails_leaves_its_plugin_out_and_nothing_else(make_kernel, start, fact):
    broken = Offer(name="broken", components=[Starting("x", start, provides=[A])], tools=[good])
    fine = Offer(name="fine", components=[Starting("y")])
    registry, run = reports(make_kernel, broken, fine)
    assert problem(registry, "broken").startswith(fact)
    assert __file__ in problem(registry, "broken")
    assert 'Fix the plugin, or disable it with `[framework] plugins.disabled = ["broken"]`.' in next(
        text for text in registry.warnings if "'x'" in text
    )
    assert (dict(registry.tools), list(registry.components)) == ({}, ["y"])
    assert run.final_message == "Hello."


def test_all_that_a_failed_plugin_offers_is_withdrawn(make_kernel, scripted_model):
    class Told:
        name = "told"

        def __init__(self):
            self.events = []

        def observe(self, thread_id, event):
            self.events.append(event)

    told = Told()
    offer = Offer(
        name="broken", components=[Starting("x", fail)], observers=[told], providers=[scripted_model([], name="lost")]
    )
    registry, run = reports(make_kernel, offer)
    assert (dict(registry.providers).keys(), "lost" in registry.builtin_providers) == ({"scripted"}, False)
    assert (run.final_message, told.events) == ("Hello.", [])


class Policy:
    name = "policy"

    def judge(self, command, facts):
        return None


class Reviewer(ApprovalReviewer):
    name = "reviewer"

    async def review(self, request, turn):
        return None


class Watch(Interceptor):
    name = "watch"


SAFEGUARDS = {
    "command policies (policy)": {"policies": [Policy()]},
    "reviewers (reviewer)": {"reviewers": [Reviewer()]},
    "interceptors (watch)": {"interceptors": [Watch()]},
}


@pytest.mark.parametrize("words", SAFEGUARDS)
def test_a_plugin_with_safeguards_whose_component_fails_is_an_error(make_kernel, words):
    """Without it the kernel would let more through."""
    other = Starting("other")
    guard = Offer(name="guard", components=[Starting("x", fail)], **SAFEGUARDS[words])
    with pytest.raises(PluginError) as caught:
        reports(make_kernel, guard, Offer(name="q", components=[other]))
    fact = f"plugin 'guard' cannot be used, and it offers safeguards: {words}; component 'x' did not start: RuntimeError: no disk ("
    assert str(caught.value).startswith(fact)
    assert 'plugins.disabled = ["guard"]' in caught.value.hint
    assert other.closed == 1


def test_a_plugin_with_safeguards_that_requires_a_failed_one_is_an_error_too(make_kernel):
    class Needing(Offer):
        @hookimpl
        def codex_requires(self):
            return ["base"]

    base = Offer(name="base", components=[Starting("x", fail)])
    with pytest.raises(PluginError, match="plugin 'guard' cannot be used, and it offers safeguards: interceptors"):
        reports(make_kernel, base, Needing(name="guard", interceptors=[Watch()]))


def test_components_start_at_once_each_after_what_it_requires(make_kernel):
    log = []

    def logging(name, wait_s):
        async def start(kernel):
            log.append(f"{name} starts")
            await asyncio.sleep(wait_s)
            log.append(f"{name} started")
            return {A: 1} if name == "first" else {}

        return start

    components = [
        Starting("second", logging("second", 0), requires=[A]),
        Starting("first", logging("first", 0.05), provides=[A]),
        Starting("free", logging("free", 0.01)),
    ]
    registry, _ = reports(make_kernel, Offer(name="p", components=components))
    assert registry.warnings == ()
    assert log == ["first starts", "free starts", "free started", "first started", "second starts", "second started"]


def test_who_requires_what_failed_fails_with_the_whole_reason(make_kernel):
    registry, run = reports(
        make_kernel,
        Offer(name="low", components=[Starting("x", fail, provides=[A])]),
        Offer(name="high", components=[Starting("y", requires=[A], provides=[B])]),
        Offer(name="top", components=[Starting("z", requires=[B])]),
    )
    assert "component 'y' requires the service 'a': component 'x' did not start: RuntimeError: no disk (" in problem(
        registry, "high"
    )
    assert problem(registry, "top").startswith("component 'z' requires the service 'b': component 'y' requires")
    assert run.final_message == "Hello."


def test_a_service_of_a_plugin_that_is_left_out_is_gone_too(make_kernel):
    """Its provider has started; but another component of the same plugin has not."""
    registry, _ = reports(
        make_kernel,
        Offer(name="low", components=[Starting("good", provides=[A]), Starting("bad", fail)]),
        Offer(name="high", components=[Starting("y", requires=[A])]),
    )
    assert "component 'y' requires the service 'a': component 'bad' did not start" in problem(registry, "high")
    assert dict(registry.components) == {}


def test_a_service_that_nobody_provides(make_kernel):
    registry, _ = reports(make_kernel, Offer(name="p", components=[Starting("x", requires=[A])]))
    assert problem(registry, "p") == (
        "component 'x' requires the service 'a', which no plugin provides; install such a plugin"
    )


def test_a_service_that_two_provide_is_that_of_the_first(make_kernel):
    async def story():
        plugins = [Offer(name=name, components=[Starting(name, provides=[A])]) for name in ("one", "two")]
        async with make_kernel([], plugins=plugins, entry_points=()) as kernel:
            thread = await kernel.start_thread()
            return problem(kernel.registry, "two"), thread.conversation.context("one").service(A)

    told, service = play(story)
    assert service == "one"
    assert told == (
        "component 'two' provides the service 'a', which component 'one' of plugin 'one' already provides; disable one of the two "
        "plugins"
    )


def test_circles_of_requirements_are_told_and_hold_up_nobody(make_kernel):
    """Two circles, and one who waits for a circle without being a part of it."""
    registry, run = reports(
        make_kernel,
        Offer(
            name="p", components=[Starting("x", provides=[A], requires=[B]), Starting("y", provides=[B], requires=[A])]
        ),
        Offer(name="q", components=[Starting("z", provides=[C], requires=[C])]),
        Offer(name="r", components=[Starting("w", provides=[D], requires=[A])]),
        Offer(name="s", components=[Starting("free")]),
    )
    assert problem(registry, "p") == "component 'x' is part of a requirement cycle: x -> y -> x"
    assert problem(registry, "q") == "component 'z' is part of a requirement cycle: z -> z"
    assert problem(registry, "r").startswith(
        "component 'w' requires the service 'a': component 'x' is part of a requirement cycle"
    )
    assert list(registry.components) == ["free"]
    assert run.final_message == "Hello."


def test_a_required_component_that_fails_is_an_error_at_once_and_the_others_are_closed(make_kernel):
    slow = Starting("slow", hang, limit_s=30)
    started = Starting("started")
    plugins = [
        Offer(name="p", components=[Starting("x", fail, required=True)]),
        Offer(name="q", components=[slow, started]),
    ]

    async def story():
        with pytest.raises(PluginError) as caught:
            async with make_kernel([], plugins=plugins, entry_points=()):
                pass
        return caught.value

    error = play(story, within_s=5)
    assert str(error).startswith("plugin 'p': component 'x' did not start: RuntimeError: no disk (")
    assert error.hint
    assert (slow.closed, started.closed) == (1, 1)


def test_a_creation_that_is_cancelled_closes_what_has_begun_to_start(make_kernel):
    slow = Starting("slow", hang, limit_s=30)

    async def create():
        async with make_kernel([], plugins=[Offer(name="p", components=[slow])], entry_points=()):
            pass

    async def story():
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(create())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return slow.closed, asyncio.all_tasks() - before

    assert play(story, within_s=5) == (1, set())


def test_closing_is_in_reverse_order_after_all_threads_and_told_when_it_fails(make_kernel):
    log = []

    class Part(ThreadComponent):
        async def aclose(self):
            log.append("thread")

    class Closing(Starting):
        async def aclose(self):
            log.append(self.name)
            if self.name == "raises":
                raise OSError("no disk")
            if self.name == "hangs":
                await ignore_cancellation()

    components = [
        Closing("last", requires=[B]),
        Closing("hangs", provides=[B], requires=[A], part=lambda thread: Part()),
        Closing("raises", provides=[A]),
    ]

    async def story():
        async with make_kernel([], plugins=[Offer(name="p", components=components)], entry_points=()) as kernel:
            await kernel.start_thread()
        return kernel.registry.warnings

    warnings = play(story, within_s=5)
    assert log == ["thread", "last", "hangs", "raises"]
    late, failed = (text for text in warnings if "aclose" in text)
    assert f"component 'hangs' of plugin 'p': aclose() did not end within 0.3 s{place(Closing.aclose)}" in late
    assert "component 'raises' of plugin 'p': aclose() failed: OSError: no disk (" in failed


@pytest.mark.parametrize(
    ("part", "fact"),
    [
        (lambda thread: 1 / 0, "for_thread() failed: ZeroDivisionError: division by zero ("),
        (lambda thread: "part", "for_thread() failed: it returned str, not a ThreadComponent or None ("),
    ],
)
def test_a_part_that_cannot_be_made_is_told_and_the_thread_goes_on(thread_with, part, fact):
    async def story():
        async with thread_with(components=[Starting("x", part=part)]) as thread:
            result = await thread.turn("Hi!", say("Hello."))
            return result.final_message, thread.warnings

    message, warnings = play(story)
    assert message == "Hello."
    (warning,) = (text for text in warnings if "for_thread" in text)
    assert warning.startswith(f"component 'x' of plugin 'careless': {fact}")
    assert __file__ in warning
    assert "). The thread continues without it. " in warning


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"requires": [A, "b"]}, "its requires is [ServiceKey('a'), 'b'], not a list of ServiceKey"),
        ({"provides": None}, "its provides is None, not a list of ServiceKey"),
        ({"limit_s": "soon"}, "its start_timeout_s is 'soon', not a number of seconds"),
        ({"name": ""}, "its name is '', not a non-empty string"),
    ],
)
def test_a_component_with_wrong_values_is_left_out(make_kernel, changes, fact):
    registry, run = reports(make_kernel, Offer(name="p", components=[Starting(**{"name": "x", **changes})]))
    assert fact in problem(registry, "p")
    assert run.final_message == "Hello."


def test_who_looks_for_a_service_that_is_not_there_is_told_why(make_kernel):
    async def story():
        plugins = [Offer(name="p", components=[Starting("x", fail, provides=[A])])]
        async with make_kernel([], plugins=plugins, entry_points=()) as kernel:
            context = (await kernel.start_thread()).conversation.context("q")
            found = []
            for key in (A, B):
                with pytest.raises(ServiceError) as caught:
                    context.service(key)
                found.append(caught.value)
            return found

    failed, unknown = play(story)
    assert str(failed).startswith("no component provides the service 'a': component 'x' did not start: RuntimeError")
    assert str(unknown) == "no component provides the service 'b'"
    assert all(isinstance(error, CodexError) and error.hint for error in (failed, unknown))
