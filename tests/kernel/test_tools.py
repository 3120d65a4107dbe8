"""Tools as a base class: what is looked up when a tool is registered, and how the table of a sample is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from codex_framework import (
    CallView,
    Component,
    FunctionSpec,
    Interceptor,
    ThreadComponent,
    ThreadContext,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolSpec,
    TurnContext,
    TurnFacts,
    freeform_tool,
    hookimpl,
    tool,
)
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import is_output
from codex_framework.loader.registration import RegisteredTool, registered_tool
from codex_framework.loader.registry import load_registry
from codex_framework.testing import turn_facts
from codex_framework.testing.replies import call, say

FACTS = turn_facts()
SPEC = FunctionSpec("look", "Look.", {"type": "object", "properties": {}})


class Plain(Tool):
    spec = SPEC

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return "seen"


class Full(Plain):
    aliases = ("see",)
    parallel_safe = True
    exposure = "hidden"
    tells_clients = True
    programs = {"look": ("python3", "-m", "look")}  # noqa: RUF012

    def offered(self, turn: TurnFacts) -> bool:
        return False

    def spec_for(self, turn: TurnFacts) -> FunctionSpec:
        return SPEC

    def arrange(self, specs: Sequence[ToolSpec], turn: TurnFacts) -> Sequence[ToolSpec]:
        return specs

    def needs_approval(self, call: ToolCall, turn: TurnFacts) -> None:
        return None

    async def allow_always(self, call: ToolCall, turn: TurnContext) -> None:
        return

    def view(self, call: ToolCall) -> CallView | None:
        return None

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        return call

    def preview(self, call_id: str, text: str) -> None:
        return None


def of(item: Any) -> RegisteredTool:
    registered, problems = registered_tool("plugin", item)
    assert problems == []
    assert registered is not None
    return registered


METHODS = ("offered", "spec_for", "arrange", "needs_approval", "allow_always", "view", "with_arguments", "preview")


def test_what_a_tool_does_not_override_is_none_once_it_is_registered() -> None:
    plain = of(Plain())
    assert {method: getattr(plain, method) for method in METHODS} == dict.fromkeys(METHODS)
    assert (plain.parallel, plain.aliases, plain.programs) == (False, (), {})
    assert (plain.exposure, plain.tells_clients) == ("direct", False)


def test_what_a_tool_overrides_is_found_when_it_is_registered() -> None:
    item = Full()
    full = of(item)
    assert {method: getattr(full, method) for method in METHODS} == {m: getattr(item, m) for m in METHODS}
    assert (full.parallel, full.aliases, full.programs) == (True, ("see",), {"look": ("python3", "-m", "look")})
    assert (full.exposure, full.tells_clients) == ("hidden", True)


def test_a_class_that_only_has_the_members_is_a_tool_as_well() -> None:
    class Bare:
        spec = SPEC

        async def run(self, call: ToolCall, context: ToolContext) -> str:
            return "seen"

    class Some(Bare):
        __slots__ = ()
        parallel_safe = True

        def offered(self, facts: TurnFacts) -> bool:
            return True

    assert {method: getattr(of(Bare()), method) for method in METHODS} == dict.fromkeys(METHODS)
    some = of(Some())
    assert (some.parallel, some.aliases, some.exposure, some.view) == (True, (), "direct", None)
    assert some.offered is not None


def test_a_member_of_the_instance_counts() -> None:
    plain: Any = Plain()
    plain.offered = lambda turn: False
    plain.aliases = ["see"]
    registered = of(plain)
    assert registered.aliases == ("see",)
    assert registered.offered is not None
    assert registered.offered(FACTS) is False
    assert of(Plain()).offered is None


def test_a_member_found_by_getattr_counts() -> None:
    class Wrapper:
        def __init__(self, inner: Tool) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    assert of(Wrapper(Full())).view is not None


def _lacking(**members: Any) -> Any:
    return type("Broken", (Plain,), members)()


async def _asynchronous(self: Any, turn: Any) -> bool:
    return True


async def _without_arguments(self: Any) -> None:
    return


def _plain(self: Any, call: Any, turn: Any) -> None:
    return


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (Plain, "it is the class Plain itself: offer an instance, Plain()"),
        (Tool(), "it has no attribute spec"),
        (
            type("NoRun", (Tool,), {"spec": SPEC})(),
            "its run is inherited from Tool and does nothing: write `async def run(self, call, context)`",
        ),
        (_lacking(offered=lambda self: True), "its offered cannot be called as `def offered(self, turn)`"),
        (_lacking(offered=_asynchronous), "its offered is async, but it is called without await"),
        (_lacking(needs_approval=_asynchronous), "its needs_approval is async, but it is called without await"),
        (_lacking(offered=True), "its offered is bool, not a method: it has no def offered(self, turn)"),
        (_lacking(allow_always=_without_arguments), "cannot be called as `async def allow_always(self, call, turn)`"),
        (_lacking(allow_always=_plain), "its allow_always is not async"),
        (_lacking(with_arguments=lambda self, call: call), "`def with_arguments(self, call, arguments)`"),
        (_lacking(aliases=3), "its members cannot be read"),
        (_lacking(aliases=("no good",)), "its alias 'no good' is not allowed"),
        (_lacking(aliases=property(lambda self: 1 / 0)), "its aliases raises ZeroDivisionError: division by zero"),
        (_lacking(exposure="late"), "its exposure is 'late', not one of direct, deferred, hidden"),
        (_lacking(exposure=None), "its exposure is None, not one of direct, deferred, hidden"),
        (_lacking(programs={"a/b": ("x",)}), "its program 'a/b' must have a name without slashes"),
        (_lacking(programs=("x",)), "its members cannot be read"),
    ],
)
def test_a_tool_that_cannot_be_used_is_told_why(item: Any, problem: str) -> None:
    for _ in range(2):  # what is known of a class is kept
        registered, problems = registered_tool("plugin", item)
        assert registered is None
        assert problem in "; ".join(problems)


def test_the_same_class_is_right_or_wrong_by_its_instances() -> None:
    good, bad = Plain(), Plain()
    bad.offered = lambda: True  # type: ignore[method-assign, assignment, misc]
    assert registered_tool("plugin", good)[1] == []
    assert "its offered cannot be called" in registered_tool("plugin", bad)[1][0]
    assert registered_tool("plugin", good)[1] == []


def test_arguments_cannot_be_changed_unless_the_tool_says_how() -> None:
    with pytest.raises(ToolError, match="the arguments of look cannot be changed"):
        Plain().with_arguments(ToolCall("c", "look", "{}"), {})


# Functions


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@freeform_tool(grammar="start: /.+/")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


def test_a_function_tool_shows_its_arguments_and_takes_others() -> None:
    made = ToolCall("c", "add", '{"a": 1}')
    assert add.view(made) == CallView(name="add", arguments={"a": 1})
    assert add.with_arguments(made, {"a": 2, "b": 3}) == ToolCall("c", "add", '{"a": 2, "b": 3}')
    assert add.view(ToolCall("c", "add", "")) == CallView(name="add", arguments={})
    for broken in ("{", "[1]", "[" * 100_000):
        assert add.view(ToolCall("c", "add", broken)) is None
    with pytest.raises(ToolError, match=r"expected an integer at line 1 column 9"):
        add.with_arguments(made, {"a": "x"})
    with pytest.raises(ToolError, match="cannot be changed"):
        add.with_arguments(made, {"a": object()})


def test_a_freeform_tool_shows_its_text_and_takes_another() -> None:
    made = ToolCall("c", "shout", "hi", "custom")
    assert shout.view(made) == CallView(name="shout", arguments={"text": "hi"})
    assert shout.with_arguments(made, {"text": "ho"}) == ToolCall("c", "shout", "ho", "custom")
    for wrong in ({}, {"text": 1}, {"text": "a", "more": "b"}):
        with pytest.raises(ToolError, match="one text"):
            shout.with_arguments(made, wrong)


def test_a_function_tool_is_a_tool() -> None:
    assert isinstance(add, Tool)
    assert isinstance(shout, Tool)
    assert of(add).parallel is False


def test_a_function_tool_that_is_left_out_is_named_with_the_place_of_the_function() -> None:
    @tool
    def late() -> None:
        """Be late."""

    late.exposure = "later"  # type: ignore[assignment]

    class Plugin:
        @hookimpl
        def codex_tools(self) -> Sequence[Tool]:
            return [late]

    registry = load_registry({}, entry_points=(), extra_plugins=[Plugin()])
    (problem,) = registry.reports[0].problems
    assert problem.fact.startswith("its tool 'late' is ignored: its exposure is 'later'")
    assert (problem.path, problem.line) == (__file__, late.__wrapped__.__code__.co_firstlineno)


# The table of a sample


class Brings:
    """A plugin with components."""

    def __init__(self, *components: Component) -> None:
        self._components = components

    @hookimpl
    def codex_components(self) -> Sequence[Component]:
        return self._components


def _run(make_kernel: Any, tools: Sequence[Any], replies: Sequence[Any], plugins: Sequence[Any] = ()) -> Any:
    async def driven() -> Any:
        async with make_kernel(replies, tools=tools, plugins=plugins, entry_points=()) as kernel:
            thread = await kernel.start_thread()
            result = await thread.run("go")
            outputs = [item.output for item in thread.history.items if is_output(item)]
            warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
            warnings = [text for text in warnings if "Model metadata" not in text]
            offered = [[spec.name for spec in request.tools] for request in kernel.model.requests]
            return result, outputs, warnings, offered

    return asyncio.run(driven())


def _named(name: str, **members: Any) -> Any:
    return type(name.title(), (Plain,), {"spec": SPEC.evolve(name=name), **members})()


@pytest.mark.parametrize("exposure", ["deferred", "hidden"])
def test_a_deferred_or_hidden_tool_is_not_offered_but_can_be_called(make_kernel: Any, exposure: str) -> None:
    tools = [_named("quiet", exposure=exposure), _named("fine")]
    _, outputs, warnings, offered = _run(make_kernel, tools, [call("quiet"), say("done")])
    assert (outputs, warnings, offered[0]) == (["seen"], [], ["fine"])


def test_a_deferred_tool_is_offered_from_the_next_sample_once_its_component_says_so(make_kernel: Any) -> None:
    late = _named("late", exposure="deferred")

    class Part(ThreadComponent):
        def __init__(self, thread: ThreadContext) -> None:
            self._thread = thread

        def tools(self, turn: TurnFacts) -> Sequence[Tool]:
            @tool
            async def find() -> str:
                """Find tools."""
                late.exposure = "direct"
                self._thread.tools_changed()
                return "late"

            return [find, late]

    class Search(Component):
        name = "search"

        def for_thread(self, thread: ThreadContext) -> ThreadComponent:
            return Part(thread)

    replies = [call("find"), call("late"), say("done")]
    _, outputs, _, offered = _run(make_kernel, [], replies, [Brings(Search())])
    assert outputs == ["late", "seen"]
    assert offered == [["find"], ["find", "late"], ["find", "late"]]


def test_a_turn_shows_calls_in_the_words_of_their_tools(make_kernel: Any) -> None:
    seen: list[Any] = []

    class Spy(Interceptor):
        name = "spy"

        async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
            seen.append(turn.view(call))
            try:
                return turn.with_arguments(call, {"a": 40, "b": 2})
            except ToolError as error:
                seen.append(str(error))
                return call

    class Plugin:
        @hookimpl
        def codex_interceptors(self) -> Sequence[Interceptor]:
            return [Spy()]

    replies = [call("add", a=1), call("look"), call("nothing"), say("done")]
    _, outputs, _, _ = _run(make_kernel, [add, Plain()], replies, [Plugin()])
    assert outputs == ["42", "seen", "unsupported call: nothing"]
    assert seen == [
        CallView(name="add", arguments={"a": 1}),
        None,
        "the arguments of look cannot be changed",
        None,
        "the arguments of nothing cannot be changed",
    ]


def test_background_work_of_a_call_ends_with_it(make_kernel: Any) -> None:
    ended: list[str] = []

    async def watch() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("watch")

    class Watching(Plain):
        async def run(self, call: ToolCall, context: ToolContext) -> str:
            context.background(watch(), name="watch")
            await asyncio.sleep(0)
            return f"ended: {ended}"

    async def run() -> list[Any]:
        async with make_kernel([call("look"), say("Done.")], tools=[Watching()], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go")
            return [(item.output, list(ended)) for item in thread.history if is_output(item)]

    assert asyncio.run(run()) == [("ended: []", ["watch"])]


@pytest.mark.parametrize(("length", "whole"), [(480, True), (481, False)])
def test_a_result_may_be_a_fifth_longer_than_the_limit_of_the_model(
    make_kernel: Any, length: int, *, whole: bool
) -> None:
    class Long(Plain):
        async def run(self, call: ToolCall, context: ToolContext) -> str:
            return "x" * length

    async def run() -> list[Any]:
        config = "tool_output_token_limit = 100\n"
        async with make_kernel([call("look"), say("Done.")], tools=[Long()], config=config, entry_points=()) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go")
            return [item.output for item in thread.history if is_output(item)]

    (output,) = asyncio.run(run())
    assert (output == "x" * length) is whole
