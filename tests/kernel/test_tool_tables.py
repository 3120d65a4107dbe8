"""Tools are checked once per object and kernel, and threads with the same tools share a table."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

from codex_framework import Agent, Component, FunctionSpec, ThreadComponent, Tool, ToolOutput, hookimpl
from codex_framework.testing.replies import call, say


class Counted(Tool):
    """Counts how often its spec is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.description = "Does something."
        self.read = 0

    @property
    def spec(self) -> FunctionSpec:
        self.read += 1
        return FunctionSpec(self.name, self.description, {"type": "object", "properties": {}})

    async def run(self, call: Any, context: Any) -> ToolOutput:
        return ToolOutput(self.description)


class Part(ThreadComponent):
    def __init__(self, thread: Any, tools: Sequence[Tool]) -> None:
        self.thread = thread
        self.offered = tools

    def tools(self, turn: Any) -> Sequence[Tool]:
        return list(self.offered)


class Brings(Component):
    name = "brings"

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self.parts: list[Part] = []

    def for_thread(self, thread: Any) -> Part:
        self.parts.append(Part(thread, self._tools))
        return self.parts[-1]

    @hookimpl
    def codex_components(self) -> list[Component]:
        return [self]


def offered(request: Any) -> dict[str, str]:
    return {spec.name: spec.description for spec in request.tools}


def test_a_tool_is_read_once_for_all_threads_and_turns(make_kernel: Any) -> None:
    tool = Counted("one")

    async def run() -> int:
        async with make_kernel([say("done")] * 4, plugins=[Brings([tool])], entry_points=()) as kernel:
            first = await kernel.start_thread()
            await first.run("go")
            read = tool.read
            second = await kernel.start_thread()
            await second.run("go")
            await first.run("go on")
            assert first.conversation.find_tools(None) is second.conversation.find_tools(None)
            return tool.read - read

    assert asyncio.run(run()) == 0


def test_a_changed_tool_is_read_again_when_its_plugin_says_so(make_kernel: Any) -> None:
    tool = Counted("one")

    async def run() -> list[dict[str, str]]:
        brings = Brings([tool])
        async with make_kernel([say("done")] * 3, plugins=[brings], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go")
            brings.parts[0].offered = [tool, Counted("two")]
            await thread.run("go")
            tool.description = "Does something else."
            brings.parts[0].thread.tools_changed()
            await thread.run("go")
            return [offered(request) for request in kernel.model.requests]

    assert asyncio.run(run()) == [
        {"one": "Does something."},
        {"one": "Does something.", "two": "Does something."},
        {"one": "Does something else.", "two": "Does something."},
    ]


def test_tools_that_change_during_a_call_hold_from_the_next_sample(make_kernel: Any) -> None:
    class Adds(Counted):
        async def run(self, call: Any, context: Any) -> ToolOutput:
            brings.parts[0].offered = [Counted("two")]
            context.turn.thread.tools_changed()
            return ToolOutput("changed")

    brings = Brings([Adds("one")])

    async def run() -> list[list[str]]:
        async with make_kernel([call("one"), call("two"), say("done")], plugins=[brings], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            result = await thread.run("go")
            assert not result.error
            return [list(offered(request)) for request in kernel.model.requests]

    assert asyncio.run(run()) == [["one"], ["two"], ["two"]]


def test_the_table_of_an_ended_thread_is_forgotten(make_kernel: Any) -> None:
    async def run() -> None:
        brings = Brings([Counted("one")])
        async with make_kernel([say("done")] * 2, plugins=[brings], entry_points=()) as kernel:
            first = await kernel.start_thread()
            await first.run("go")
            await first.shutdown()
            tables = first.conversation.host.tool_tables
            del first
            brings.parts.clear()
            brings._tools = [Counted("other")]
            second = await kernel.start_thread()
            await second.run("go")
            gc.collect()
            assert len(tables._tables) == 1

    asyncio.run(run())


def test_lists_of_an_agent_that_a_program_changes_hold_from_the_next_turn(make_kernel: Any) -> None:
    tools, allowed, disallowed = [Counted("one"), Counted("two")], ["one", "two", "three"], ["four"]
    agent = Agent(name="lists", tools=tools, allowed_tools=allowed, disallowed_tools=disallowed)

    async def run() -> list[list[str]]:
        async with make_kernel([say("done")] * 4, entry_points=()) as kernel:
            thread = await kernel.start_thread(agent=agent)
            await thread.run("go")
            allowed.remove("two")
            await thread.run("go")
            tools[:] = [Counted("three"), Counted("one")]
            await thread.run("go")
            disallowed.append("o*")
            await thread.run("go")
            return [list(offered(request)) for request in kernel.model.requests]

    assert asyncio.run(run()) == [["one", "two"], ["one"], ["three", "one"], ["three"]]


def test_no_thread_gets_the_table_of_another_agent_or_of_other_ancestors(make_kernel: Any) -> None:
    def named(name: str, text: str, **limits: Any) -> Agent[str]:
        own = Counted("own")
        own.description = text
        return Agent(name=name, tools=(own,), **limits)

    one, two = named("a", "first"), named("a", "second")
    narrow = Agent(name="narrow", allowed_tools=("o*",), disallowed_tools=("other",))
    offers = [("brings", Counted("other")), ("brings", Counted("third"))]

    async def run() -> list[dict[str, str]]:
        async with make_kernel(entry_points=()) as kernel:
            host = (await kernel.start_thread()).conversation.host
            asked = [(one, []), (two, []), (one, [narrow]), (None, [narrow]), (None, [])]
            tables = [host.tool_tables.table(host.registry, agent, above, offers) for agent, above in asked]
            return [{name: each.spec.description for name, each in table.by_name.items()} for table in tables]

    brought = {"other": "Does something.", "third": "Does something."}
    assert asyncio.run(run()) == [
        {"own": "first", **brought},
        {"own": "second", **brought},
        {"own": "first"},
        {},
        brought,
    ]


def test_an_alias_of_a_tool_that_an_agent_may_not_use_finds_nothing(make_kernel: Any) -> None:
    class Aliased(Counted):
        aliases = ("other_name",)

    class Plugin:
        @hookimpl
        def codex_tools(self) -> list[Tool]:
            return [Aliased("one"), Counted("two")]

    async def run() -> list[list[str]]:
        async with make_kernel(plugins=[Plugin()], entry_points=()) as kernel:
            host = (await kernel.start_thread()).conversation.host
            agents = (Agent(name="all"), Agent(name="limited", disallowed_tools=("one",)))
            return [sorted(host.tool_tables.table(host.registry, agent).by_call) for agent in agents]

    assert asyncio.run(run()) == [["one", "other_name", "two"], ["two"]]
