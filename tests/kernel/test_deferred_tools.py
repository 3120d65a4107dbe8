"""Deferred tools: what a search sees of them, and how they are offered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from codex_framework import FunctionSpec, Tool, ToolCall, ToolContext, TurnFacts
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.items import UnknownItem, is_output
from codex_framework.loader.registration import registered_tool
from codex_framework.testing import Offer, call, reply, say


def spec(name: str) -> FunctionSpec:
    return FunctionSpec(name, f"Is {name}.", {"type": "object", "properties": {}})


class Named(Tool):
    """A tool with a name."""

    def __init__(self, name: str, exposure: Any = "deferred") -> None:
        self.spec = spec(name)
        self.exposure = exposure

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return f"ran {call.name}"


class Finder(Tool):
    """Offers the tools with the names in its argument."""

    spec = FunctionSpec("find", "Finds.", {"type": "object", "properties": {"names": {"type": "array"}}})

    def __init__(self, facts: list[Any] | None = None) -> None:
        self.facts = [] if facts is None else facts

    def offered(self, turn: TurnFacts) -> bool:
        self.facts.append([(tool.spec.name, tool.offered) for tool in turn.deferred_tools])
        return True

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        import json

        context.turn.thread.offer_tools(json.loads(call.arguments)["names"])
        return str([tool.spec.name for tool in context.turn.facts.deferred_tools])


def ran(make_kernel: Any, tools: Sequence[Tool], *replies: Any, resume: Any = None) -> Any:
    """Return the names offered in each request, the outputs, and the warnings."""

    async def main() -> Any:
        config = ['model="other"', "features.multi_agent=false"]  # no deferred tools of others
        async with make_kernel([*replies], plugins=[Offer(tools=tools)], config=config) as kernel:
            thread = await kernel.start_thread()
            result = await thread.run("go")
            if resume is not None:
                await thread.shutdown()
                thread = await kernel.resume_thread(thread.id)
                await thread.run("again")
            mine = {tool.spec.name for tool in tools}
            offered = [[spec.name for spec in request.tools if spec.name in mine] for request in kernel.model.requests]
            outputs = [item.output for item in thread.history.items if is_output(item)]
            return offered, outputs, [event.message for event in result.events if isinstance(event, WarningEvent)]

    return asyncio.run(main())


def test_a_named_tool_is_offered_from_the_next_sample_after_the_others(make_kernel: Any) -> None:
    facts: list[Any] = []
    tools = [Named("a"), Finder(facts), Named("b"), Named("c", "hidden"), Named("d", "direct")]
    offered, outputs, _ = ran(
        make_kernel, tools, call("find", names=["b"]), call("find", names=["a"]), call("b"), say("done")
    )
    assert offered == [["find", "d"], ["find", "d", "b"], ["find", "d", "b", "a"], ["find", "d", "b", "a"]]
    assert outputs == ["['a', 'b']", "['a', 'b']", "ran b"]
    assert facts == [[("a", False), ("b", False)], [("a", False), ("b", True)], [("a", True), ("b", True)]]


def test_names_that_no_deferred_tool_has_are_without_effect(make_kernel: Any) -> None:
    tools = [Finder(), Named("a"), Named("c", "hidden"), Named("d", "direct")]
    offered, _, warnings = ran(make_kernel, tools, call("find", names=["c", "d", "nothing", "a", "a"]), say("done"))
    assert offered == [["find", "d"], ["find", "d", "a"]]
    assert warnings == [text for text in warnings if "Model metadata" in text]


@pytest.mark.parametrize("names", ["a", [7], 7])
def test_what_is_no_list_of_names_is_refused(make_kernel: Any, names: Any) -> None:
    offered, outputs, _ = ran(make_kernel, [Finder(), Named("a")], call("find", names=names), say("done"))
    assert "offer_tools() takes a list of names" in outputs[0]
    assert offered == [["find"], ["find"]]


def test_a_resumed_thread_offers_the_tools_again(make_kernel: Any) -> None:
    replies = [call("find", names=["b"]), call("find", names=["a", "b"]), say("done"), say("again")]
    offered, _, _ = ran(make_kernel, [Finder(), Named("a"), Named("b")], *replies, resume=True)
    assert offered[-1] == ["find", "b", "a"]


def test_a_deferred_tool_that_is_not_offered_in_a_turn_is_not_listed(make_kernel: Any) -> None:
    class Shy(Named):
        def offered(self, turn: TurnFacts) -> bool:
            return False

    class Broken(Named):
        def offered(self, turn: TurnFacts) -> bool:
            raise ValueError("oops")

    tools = [Finder(), Shy("shy"), Broken("broken"), Named("a")]
    offered, outputs, warnings = ran(make_kernel, tools, call("find", names=["shy", "broken"]), say("done"))
    assert (offered, outputs) == ([["find"], ["find"]], ["['a']"])
    (text,) = [text for text in warnings if "oops" in text]
    assert "The tool is not offered." in text


def test_keywords_and_source_are_texts() -> None:
    odd = Named("odd")
    odd.keywords = 7  # type: ignore[assignment]
    odd.source = None  # type: ignore[assignment]
    assert registered_tool("p", odd)[1] == ["its keywords is int, not a string", "its source is NoneType, not a string"]


# The tool search of the wire


class Search(Tool):
    """Answers tool searches with a fixed text."""

    spec = FunctionSpec("tool_search", "Searches.", {"type": "object", "properties": {}})

    def __init__(self, text: str) -> None:
        self._text = text
        self.calls: list[ToolCall] = []

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        self.calls.append(call)
        return self._text


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ('{"tools": [{"type": "function", "name": "a"}]}', [{"type": "function", "name": "a"}]),
        ('{"tools": [1, {"name": "a"}]}', [{"name": "a"}]),
        ('{"tools": 7}', []),
        ("[]", []),
        ("no JSON", []),
        ("[" * 100_000, []),
    ],
)
def test_a_tool_answers_the_tool_search_of_the_wire(make_kernel: Any, text: str, tools: list[Any]) -> None:
    tool = Search(text)

    async def main() -> UnknownItem:
        raw = {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {"query": "x"}}
        async with make_kernel([reply(UnknownItem(raw)), say("done")], tools=[tool], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            assert (await thread.run("go")).final_message == "done"
            item = kernel.model.requests[-1].prompt.items[-1]
            assert isinstance(item, UnknownItem)
            return item

    item = asyncio.run(main())
    assert item.raw == {
        "type": "tool_search_output",
        "call_id": "s1",
        "status": "completed",
        "execution": "client",
        "tools": tools,
    }
    assert tool.calls == [ToolCall("s1", "tool_search", '{"query":"x"}', "tool_search")]
