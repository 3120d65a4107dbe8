"""Tools in groups: how a call finds them, and what a group may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import FunctionSpec, Tool, ToolCall, ToolContext, ToolNamespace
from codex_framework.contract.protocol.items import FunctionCall, is_output
from codex_framework.contract.roles.tool_specs import spec_problems
from codex_framework.testing import Reply, call, say

SEA = ToolNamespace("sea", "At sea.")


class Listen(Tool):
    """A tool in a group."""

    spec = FunctionSpec("sea__listen", "Listens.", {"type": "object"}, namespace=SEA, local_name="listen")

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return f"{call.name} {call.item_id if call.item_id == 'fc_1' else ''}".strip()


def outputs(make_thread: Any, *replies: Reply) -> list[Any]:
    async def driven() -> list[Any]:
        async with make_thread([*replies, say("done")], tools=[Listen()]) as thread:
            await thread.run("go")
            return [item.output for item in thread.history.items if is_output(item)]

    return asyncio.run(driven())


def test_a_tool_is_called_by_its_group_and_its_name_in_it_or_by_its_whole_name(make_thread: Any) -> None:
    grouped = Reply(items=(FunctionCall("listen", "{}", "one", "sea", "fc_1"),))
    assert outputs(make_thread, grouped, call("sea__listen")) == ["sealisten fc_1", "sea__listen"]


def test_the_name_in_the_group_alone_is_no_name(make_thread: Any) -> None:
    assert outputs(make_thread, call("listen")) == ["unsupported call: listen"]


@pytest.mark.parametrize(
    ("group", "local"),
    [
        (ToolNamespace("", "x"), "a"),
        (ToolNamespace("a b", "x"), "a"),
        (ToolNamespace("a", "x"), ""),
        (ToolNamespace("a", "x"), "a/b"),
        (ToolNamespace("a" * 40, "x"), "b" * 25),
        (ToolNamespace("a", None), "b"),  # type: ignore[arg-type]
        ("sea", "b"),
    ],
)
def test_a_group_that_cannot_be_sent_is_a_problem_of_the_tool(group: Any, local: str) -> None:
    (problem,) = spec_problems(FunctionSpec("x", "X.", {"type": "object"}, namespace=group, local_name=local))
    assert problem.startswith("its namespace")
