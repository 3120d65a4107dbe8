"""A tool through which the model calls others: what the model sees, what a program gets, and where it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from codex_framework import (
    Agent,
    FunctionSpec,
    Interceptor,
    Limits,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    ToolSpec,
    TurnContext,
    TurnFacts,
    tool,
)
from codex_framework.contract.protocol.items import FunctionCall, is_output
from codex_framework.testing import Offer, call, reply, say
from codex_framework.testing.threads import ThreadFactory

OTHER = FunctionSpec("other", "Unknown.", {"type": "object"})


class Deal(Tool):
    """Answers with a result for programs."""

    spec = FunctionSpec("deal", "Deals.", {"type": "object"})

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        return ToolOutput("a secret for the model", result={"text": "a secret"})


class Holds(Tool):
    """Shows itself alone, and calls the other tool until it is refused."""

    spec = FunctionSpec("holds", "Holds.", {"type": "object"})

    def __init__(self, arranged: Any = None) -> None:
        self.arranged = arranged
        self.got: list[tuple[str, Any]] = []

    def arrange(self, specs: Sequence[ToolSpec], turn: TurnFacts) -> Any:
        return [spec for spec in specs if spec.name == "holds"] if self.arranged is None else self.arranged(specs)

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        for _ in range(2):
            output = await context.call_tool("deal", {})
            self.got.append((str(output.content), output.result))
        return "held"


class Censors(Interceptor):
    name = "censors"

    async def after_tool(self, call: ToolCall, output: ToolOutput, turn: TurnContext) -> ToolOutput:
        return output.evolve(content="nothing") if call.name == "deal" else output


def driven(make_kernel: Any, *replies: Any, **more: Any) -> tuple[list[Any], list[str], Any]:
    async def story() -> tuple[list[Any], list[str], Any]:
        factory = ThreadFactory(make_kernel)
        async with factory(Offer(name="careless", **more), replies=[*replies, say("done")], entry_points=()) as thread:
            await thread.turn("go")
            shown = [spec.name for spec in thread.requests[0].tools]
            return [item.output for item in thread.history if is_output(item)], shown, thread.warnings

    return asyncio.run(asyncio.wait_for(story(), 20))


def test_the_model_sees_what_a_tool_arranges_and_may_call_the_rest(make_kernel: Any) -> None:
    grouped = reply(FunctionCall("deal", "{}", "one", "functions", "fc_1"))
    outputs, shown, _ = driven(make_kernel, grouped, tools=[Deal(), Holds()])
    assert (outputs, shown) == (["a secret for the model"], ["holds"])


@pytest.mark.parametrize(
    ("arranged", "fact"),
    [
        (lambda specs: 1 / 0, "ZeroDivisionError: division by zero ("),
        (lambda specs: "deal", "it returned str, not a list of specs ("),
        (lambda specs: ["deal"], "its list has str, not the spec of a tool ("),
        (lambda specs: [OTHER], "its list has a tool 'other', which is not offered ("),
    ],
)
def test_tools_that_cannot_be_arranged_are_offered_as_they_are(make_kernel: Any, arranged: Any, fact: str) -> None:
    _, shown, warnings = driven(make_kernel, tools=[Deal(), Holds(arranged)])
    assert shown == ["deal", "holds"]
    (warning,) = [text for text in warnings if "'holds'" in text]
    assert f"arrange() failed: {fact}" in warning
    assert "The tools are offered unchanged." in warning


def test_a_program_gets_the_result_unless_an_interceptor_has_replaced_the_content(make_kernel: Any) -> None:
    plain, censored = Holds(), Holds()
    driven(make_kernel, call("holds"), tools=[Deal(), plain])
    driven(make_kernel, call("holds"), tools=[Deal(), censored], interceptors=[Censors()])
    assert plain.got[0] == ("a secret for the model", {"text": "a secret"})
    assert censored.got[0] == ("nothing", None)


def test_calls_of_a_tool_end_at_a_limit(make_kernel: Any) -> None:
    holds = Holds()

    @tool
    async def deal() -> str:
        """Deal."""
        return "dealt"

    async def main() -> Any:
        async with make_kernel([call("holds"), say("done")], entry_points=()) as kernel:
            agent = Agent[Any](name="a", tools=(deal, holds), limits=Limits(tool_calls=2))
            return await kernel.run(agent, "go")

    asyncio.run(asyncio.wait_for(main(), 20))
    assert [content for content, _ in holds.got] == ["dealt", "the limit of 2 tool calls is reached"]
