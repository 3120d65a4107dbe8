"""Parts of threads that are created at their first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from codex_framework import (
    Agent,
    Component,
    FunctionSpec,
    ServiceError,
    Status,
    ThreadComponent,
    Tool,
    ToolOutput,
)
from codex_framework.loader.value_checks import value_problems
from codex_framework.testing import KernelFactory, Offer, call, say
from codex_framework.testing.threads import ThreadFactory


class Counter(ThreadComponent):
    """Keeps what happens to it."""

    def __init__(self, thread: Any, log: list[str]) -> None:
        self.thread = thread
        self.log = log

    async def before_calls(self, turn: Any) -> None:
        self.log.append("before_calls")

    async def turn_ended(self, turn: Any, outcome: Any) -> None:
        self.log.append("turn_ended")

    async def aclose(self) -> None:
        self.log.append("aclose")


class Starting(Counter):
    async def start(self) -> None:
        self.log.append("start")
        await asyncio.sleep(0)
        self.log.append("started")


class Count(Tool):
    """Uses the part of the thread of the call."""

    spec = FunctionSpec("count", "Counts.", {"type": "object", "properties": {}})

    def __init__(self, kind: type[Any], log: list[str]) -> None:
        self.kind = kind
        self.log = log

    async def run(self, call: Any, context: Any) -> ToolOutput:
        part = await context.part(self.kind)
        self.log.append("used")
        part.thread.append_entry("count", {"n": 1})
        return ToolOutput("counted")


class Counting(Component):
    """Has a part at its first use."""

    name = "counting"
    part_when = "use"
    part_entries = ("count",)

    def __init__(self, kind: type[Any] = Counter, log: list[str] | None = None) -> None:
        self.kind = kind
        self.log: list[str] = [] if log is None else log
        self.created = 0
        self._tools = (Count(kind, self.log),)

    @property
    def part_class(self) -> type[ThreadComponent]:
        return self.kind

    def shared_tools(self, turn: Any) -> Sequence[Tool]:
        return self._tools

    def for_thread(self, thread: Any) -> ThreadComponent | None:
        self.created += 1
        return self.kind(thread, self.log)


def play(
    make_kernel: KernelFactory, story: Callable[[Any], Any], *components: Component, entry_points: Any = (), **more: Any
) -> Any:
    async def run() -> Any:
        plugin = Offer(name="counting", components=list(components))
        async with ThreadFactory(make_kernel)(plugin, entry_points=entry_points, **more) as thread:
            return await story(thread)

    return asyncio.run(asyncio.wait_for(run(), 30))


def of_components(thread: Any) -> list[str]:
    return [text for text in thread.warnings if text.startswith("component ")]


def test_a_thread_that_uses_nothing_gets_no_part(make_kernel: KernelFactory) -> None:
    counting = Counting()

    async def story(thread: Any) -> None:
        await thread.turn("Go!", say("done"))
        assert [spec.name for spec in thread.requests[0].tools] == ["count"]

    play(make_kernel, story, counting)
    assert (counting.created, counting.log) == (0, [])


@pytest.mark.parametrize(
    ("kind", "first"),
    [(Counter, ["before_calls", "used"]), (Starting, ["start", "started", "before_calls", "used"])],
)
def test_a_part_of_a_running_turn_starts_and_hears_of_the_turn_before_its_first_use(
    make_kernel: KernelFactory, kind: type[Counter], first: list[str]
) -> None:
    counting = Counting(kind)

    async def story(thread: Any) -> None:
        await thread.turn("Go!", call("count"), call("count"), say("done"))
        await thread.turn("Go on!", call("count"), say("done"))

    play(make_kernel, story, counting)
    further = ["before_calls", "used", "turn_ended", "aclose"]
    assert counting.log == [*first, "used", "turn_ended", *further]
    assert counting.created == 1


def test_two_uses_at_once_share_one_part(make_kernel: KernelFactory) -> None:
    counting = Counting(Starting)

    async def story(thread: Any) -> None:
        inside = thread.inside("counting")
        first, second = await asyncio.gather(inside.part(Starting), inside.part(Starting))
        assert first is second

    play(make_kernel, story, counting)
    assert counting.created == 1
    assert counting.log == ["start", "started", "aclose"]


def test_an_interrupt_cancels_the_waiting_call_and_not_the_start(make_kernel: KernelFactory) -> None:
    release = asyncio.Event()

    class Slow(Starting):
        async def start(self) -> None:
            self.log.append("start")
            await release.wait()
            self.log.append("started")

    counting = Counting(Slow)

    async def story(thread: Any) -> None:
        thread.start("Go!", call("count"))
        while "start" not in counting.log:
            await asyncio.sleep(0.01)
        await thread.client.interrupt()
        assert (await thread.client.settled()).status is Status.INTERRUPTED
        release.set()
        result = await thread.turn("Go on!", call("count"), say("done"))
        assert result.final_message == "done"

    play(make_kernel, story, counting)
    assert counting.log == ["start", "turn_ended", "started", "before_calls", "used", "turn_ended", "aclose"]


def test_a_part_that_does_not_start_fails_the_call_and_not_the_turn(make_kernel: KernelFactory) -> None:
    class Broken(Counter):
        async def start(self) -> None:
            raise OSError("no disk")

    async def story(thread: Any) -> None:
        result = await thread.turn("Go!", call("count"), say("done"))
        assert result.final_message == "done"
        assert "has not started" in thread.outputs[0]
        (warning,) = of_components(thread)
        assert "start() failed: OSError: no disk" in warning

    play(make_kernel, story, Counting(Broken))


def test_a_part_that_has_to_start_cannot_be_had_without_waiting(make_kernel: KernelFactory) -> None:
    async def story(thread: Any) -> None:
        inside = thread.inside("counting")
        with pytest.raises(ServiceError, match="is not ready yet") as caught:
            inside.component(Starting)
        assert "await thread.part(Starting)" in caught.value.hint
        assert await inside.part(Starting) is inside.component(Starting)

    play(make_kernel, story, Counting(Starting))


def test_a_part_without_a_start_can_be_had_at_once(make_kernel: KernelFactory) -> None:
    async def story(thread: Any) -> None:
        inside = thread.inside("counting")
        assert inside.component(Counter) is inside.component(Counter)
        with pytest.raises(ServiceError):
            inside.component(Starting)

    play(make_kernel, story, Counting())


def test_a_resumed_thread_with_an_entry_gets_its_part_at_once(make_kernel: KernelFactory) -> None:
    counting = Counting()

    async def story(thread: Any) -> None:
        await thread.turn("Go!", say("done"))
        again = await thread.restarted()
        assert counting.created == 0
        await again.turn("Go!", call("count"), say("done"))
        assert counting.created == 1
        await again.restarted()
        assert counting.created == 2

    play(make_kernel, story, counting, entry_points=None)


@pytest.mark.parametrize("in_children", [False, True])
def test_a_component_says_whether_children_get_their_part_at_once(
    make_kernel: KernelFactory, in_children: bool
) -> None:
    counting = Counting()
    counting.part_in_children = in_children  # type: ignore[misc]

    async def story(thread: Any) -> None:
        await thread.inside("counting").spawn(Agent(name="child"))
        assert counting.created == in_children

    play(make_kernel, story, counting)


def test_a_part_that_is_needed_earlier_is_named_and_created_with_the_thread(make_kernel: KernelFactory) -> None:
    class WithTools(Counter):
        def tools(self, turn: Any) -> Sequence[Tool]:
            return ()

    class Wrong(Counting):
        part_class = WithTools  # type: ignore[assignment]

    class Required(Counter):
        required = True

    class AlsoWrong(Counting):
        name = "also"
        part_class = Required  # type: ignore[assignment]

    wrong, also = Wrong(WithTools), AlsoWrong(Required)
    wrong._tools = also._tools = ()

    async def story(thread: Any) -> list[str]:
        await thread.turn("Go!", say("done"))
        return of_components(thread)

    warnings = play(make_kernel, story, wrong, also)
    assert (wrong.created, also.created) == (1, 1)
    assert [text.partition(": ")[2].partition(",")[0] for text in warnings[:2]] == [
        "its part WithTools has tools",
        "its part Required is required",
    ]


def test_a_part_of_another_class_than_declared_is_named(make_kernel: KernelFactory) -> None:
    class Wrong(Counting):
        part_class = Starting  # type: ignore[assignment]

    async def story(thread: Any) -> list[str]:
        await thread.turn("Go!", call("count"), say("done"))
        return of_components(thread)

    wrong = Wrong(Counter)
    wrong._tools = (Count(Starting, wrong.log),)
    (warning,) = play(make_kernel, story, wrong)
    assert "for_thread() returned Counter, but `part_class` is Starting" in warning
    assert wrong.log == []  # nobody uses it


def test_a_thread_that_ends_creates_and_starts_no_parts(make_kernel: KernelFactory) -> None:
    class Last(ThreadComponent):
        """Uses the other parts when it is closed."""

        def __init__(self, thread: Any) -> None:
            self.thread = thread
            self.told: list[str] = []

        async def aclose(self) -> None:
            for kind in (Counter, Slow):
                try:
                    await self.thread.part(kind)
                except ServiceError as error:
                    self.told.append(str(error))

    class Slow(ThreadComponent):
        starts = 0

        async def start(self) -> None:
            Slow.starts += 1
            await asyncio.sleep(60)

    class Lasts(Component):
        name = "lasts"

        def for_thread(self, thread: Any) -> ThreadComponent:
            self.part = Last(thread)
            return self.part

    class Slows(Component):
        name = "slows"

        def for_thread(self, thread: Any) -> ThreadComponent:
            return Slow()

    async def story(thread: Any) -> None:
        await asyncio.sleep(0.01)  # so that the slow part begins to start

    counting, lasts = Counting(), Lasts()
    play(make_kernel, story, lasts, counting, Slows())
    assert lasts.part.told == [
        "this thread has no component Counter",
        "the component Slow of this thread has not started",
    ]
    assert (counting.created, Slow.starts) == (0, 1)


@pytest.mark.parametrize(
    ("members", "fact"),
    [
        ({"part_when": "use"}, 'its part_when is "use", but it has no part_class'),
        ({"part_when": "use", "part_class": str}, "its part_class is <class 'str'>, not a subclass of ThreadComponent"),
        ({"part_when": "use", "part_class": Counter}, "has no for_thread"),
        ({"part_when": "later"}, 'its part_when is \'later\', not "start" or "use"'),
    ],
)
def test_a_wrong_declaration_is_refused_when_the_plugin_is_loaded(members: dict[str, Any], fact: str) -> None:
    wrong = type("Wrong", (Component,), {"name": "wrong", **members})()
    (problem,) = [text for text in value_problems("codex_components", wrong) if fact in text]
    assert problem


def test_tools_keep_the_order_of_their_components(make_kernel: KernelFactory) -> None:
    class Own(ThreadComponent):
        def tools(self, turn: Any) -> Sequence[Tool]:
            return [make_tool("second")]

    class Older(Component):
        name = "older"

        def for_thread(self, thread: Any) -> ThreadComponent:
            return Own()

    class Shares(Component):
        def __init__(self, name: str, tool: str) -> None:
            self.name = name  # type: ignore[misc]
            self._tools = (make_tool(tool),)

        def shared_tools(self, turn: Any) -> Sequence[Tool]:
            return self._tools

    def make_tool(name: str) -> Tool:
        tool = Count(Counter, [])
        tool.spec = FunctionSpec(name, "Counts.", {"type": "object", "properties": {}})
        return tool

    async def story(thread: Any) -> None:
        await thread.turn("Go!", say("done"))
        assert [spec.name for spec in thread.requests[0].tools] == ["first", "second", "third"]

    play(make_kernel, story, Shares("a", "first"), Older(), Shares("z", "third"))


def test_a_component_whose_tools_change_during_a_call(make_kernel: KernelFactory) -> None:
    counting = Counting()

    class Change(Count):
        spec = FunctionSpec("change", "Changes.", {"type": "object", "properties": {}})

        async def run(self, call: Any, context: Any) -> ToolOutput:
            counting._tools = (Count(Counter, counting.log),)
            context.turn.thread.tools_changed()
            return ToolOutput("changed")

    counting._tools = (Change(Counter, []),)  # type: ignore[assignment]

    async def story(thread: Any) -> None:
        await thread.turn("Go!", call("change"), call("count"), say("done"))
        assert [[spec.name for spec in request.tools] for request in thread.requests] == [
            ["change"],
            ["count"],
            ["count"],
        ]
        assert list(thread.outputs) == ["changed", "counted"]

    play(make_kernel, story, counting)


def test_a_component_that_did_not_start_has_no_shared_tools(make_kernel: KernelFactory) -> None:
    class Broken(Counting):
        async def start(self, kernel: Any) -> Any:
            raise RuntimeError("no server")

    async def run() -> list[Any]:
        plugin = Offer(name="counting", components=[Broken()])
        async with make_kernel([say("done")], plugins=[plugin], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go")
            return list(kernel.model.requests[0].tools)

    assert asyncio.run(run()) == []


def test_a_part_is_found_by_a_base_of_its_class(make_kernel: KernelFactory) -> None:
    class Other(Counter):
        pass

    async def story(thread: Any) -> type[Any]:
        return type(thread.inside("counting").component(Counter))

    assert play(make_kernel, story, Counting(Other)) is Other
