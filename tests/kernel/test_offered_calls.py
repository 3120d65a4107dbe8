"""The model can call what it is offered, and nothing else that happens to be loaded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import (
    FunctionSpec,
    Interceptor,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    TurnContext,
    TurnFacts,
    freeform_tool,
)
from codex_framework.contract.protocol.items import is_output
from codex_framework.testing.replies import call, custom_call, say


class Secret(Tool):
    """A tool that is not offered."""

    spec = FunctionSpec("secret", "Tells.", {"type": "object", "properties": {}})
    aliases = ("hush",)

    def __init__(self, offered: Any = False, exposure: Any = "direct") -> None:
        self._offered = offered
        self.exposure = exposure

    def offered(self, turn: TurnFacts) -> bool:
        if isinstance(self._offered, Exception):
            raise self._offered
        return bool(self._offered)

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return "told"


class Asks(Tool):
    """A tool that calls the other one."""

    spec = FunctionSpec("asks", "Asks.", {"type": "object", "properties": {}})

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return f"it {(await context.call_tool('secret', {})).content}"


class Renames(Interceptor):
    """Knows what a name means."""

    name = "renames"

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        return call.evolve(name="secret") if call.name == "old_name" else call


def outputs(make_thread: Any, tools: list[Tool], *replies: Any, **offers: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with make_thread([*replies, say("done")], tools=tools, **offers) as thread:
            await thread.run("go")
            return [item.output for item in thread.history.items if is_output(item)]

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("name", ["secret", "hush"])
@pytest.mark.parametrize("offered", [False, RuntimeError("cannot say")])
def test_a_tool_that_is_not_offered_cannot_be_called(make_thread: Any, name: str, offered: Any) -> None:
    assert outputs(make_thread, [Secret(offered)], call(name)) == [f"unsupported call: {name}"]


def test_nor_by_a_custom_call(make_thread: Any) -> None:
    assert outputs(make_thread, [Secret()], custom_call("secret", "x")) == ["unsupported custom tool call: secret"]


def test_an_alias_of_an_offered_tool_can_be_called(make_thread: Any) -> None:
    assert outputs(make_thread, [Secret(offered=True)], call("hush"), call("secret")) == ["told", "told"]


@pytest.mark.parametrize("exposure", ["deferred", "hidden"])
def test_a_tool_that_need_not_be_offered_can_be_called(make_thread: Any, exposure: str) -> None:
    assert outputs(make_thread, [Secret(exposure=exposure)], call("secret")) == ["told"]


def test_another_tool_may_call_it(make_thread: Any) -> None:
    assert outputs(make_thread, [Secret(), Asks()], call("asks")) == ["it told"]


def test_an_interceptor_may_know_what_a_name_means(make_thread: Any) -> None:
    assert outputs(make_thread, [Secret()], call("old_name"), interceptors=[Renames()]) == ["told"]
    assert outputs(make_thread, [Secret()], call("secret"), interceptors=[Renames()]) == ["unsupported call: secret"]


def test_the_other_families_of_command_tools_are_not_understood(make_kernel: Any) -> None:
    """As in Codex: a model that has exec_command gets no answer from shell."""
    command = {"command": ["touch", "here"]}
    calls = [call("shell", **command), call("container.exec", **command), call("shell_command", command="touch here")]

    async def main() -> list[Any]:
        async with make_kernel([*calls, say("done")]) as kernel:
            return list((await kernel.run_turn("go")).outputs)

    names = ("shell", "container.exec", "shell_command")
    assert asyncio.run(main()) == [f"unsupported call: {name}" for name in names]
    assert not (make_kernel.workspace / "here").exists()


@freeform_tool(grammar="start: /.+/")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


class Relays(Tool):
    """A tool that calls a freeform tool, and a function."""

    spec = FunctionSpec("relays", "Relays.", {"type": "object", "properties": {}})

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        said = [await context.call_tool("shout", given) for given in ("one", {"text": "two"})]
        for name, wrong in (("shout", {}), ("shout", {"text": 1}), ("secret", "text")):
            with pytest.raises(ToolError, match=f"{name} takes"):
                await context.call_tool(name, wrong)
        said.append(await context.call_tool("secret", {}, call_id="own"))
        return " ".join(str(output.content) for output in said)


def test_plugins_call_freeform_tools_with_text_and_choose_the_id_of_a_call(make_thread: Any) -> None:
    async def main() -> tuple[list[Any], list[str]]:
        async with make_thread([call("relays"), say("done")], tools=[Relays(), Secret(), shout]) as thread:
            events = (await thread.run("go")).events
            return [item.output for item in thread.history.items if is_output(item)], [
                event.call_id for event in events if event.type == "tool_call_end"
            ]

    found, calls = asyncio.run(asyncio.wait_for(main(), 60))
    assert found == ["ONE TWO told"]
    assert "own" in calls
