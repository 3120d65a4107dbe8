"""The modes that the configuration gives to threads: new ones, and those that read the web or called an MCP server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import CallView, ConfigError, ConfigLayer, FunctionSpec
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.roles.tools import Tool
from codex_framework.testing import Offer, call, reply, say
from codex_plugin_memory_mode import memory_mode
from codex_plugin_memory_mode.settings import memory_settings

EXTERNAL = "memories.disable_on_external_context=true"
SEARCH = UnknownItem({"type": "web_search_call", "id": "ws_1", "status": "completed"})


class OfServer(Tool):
    """A tool that a server answers."""

    spec = FunctionSpec("ask", "Asks.", {"type": "object", "properties": {}})
    seen: str | None = None

    def view(self, call: Any) -> CallView:
        return CallView(name="mcp__there__ask", arguments={}, server="there")

    async def run(self, call: Any, context: Any) -> str:
        self.seen = memory_mode(context.turn.thread.meta)
        return "It is raining."


@pytest.mark.parametrize(
    ("config", "replies", "mode"),
    [
        ([EXTERNAL], [say("done")], "enabled"),
        ([EXTERNAL], [call("update_plan", plan=[]), say("done")], "enabled"),
        ([EXTERNAL], [call("ask"), say("done")], "polluted"),
        ([EXTERNAL], [reply(SEARCH), say("done")], "polluted"),
        (["memories.no_memories_if_mcp_or_web_search=true"], [call("ask"), say("done")], "polluted"),
        (["memories.use_memories=true"], [call("ask"), reply(SEARCH), say("done")], "enabled"),
        (["memories.generate_memories=false"], [call("ask"), say("done")], "disabled"),
        (["memories.generate_memories=false", EXTERNAL], [call("ask"), say("done")], "polluted"),
    ],
)
def test_a_thread_gets_its_mode(make_kernel: Any, config: list[str], replies: list[Any], mode: str) -> None:
    async def main() -> Any:
        async with make_kernel(replies, config=config, plugins=[Offer(tools=[OfServer()])]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("Go!")
            return memory_mode(thread.meta)

    assert asyncio.run(main()) == mode


def test_it_is_marked_before_the_server_answers_and_before_the_request_after_a_search(make_kernel: Any) -> None:
    tool = OfServer()
    seen: list[str] = []

    async def main() -> None:
        def second(request: Any) -> Any:
            seen.append(memory_mode(thread.meta))
            return say("done")

        replies = [call("ask"), say("done"), reply(SEARCH) + call("update_plan", plan=[]), second]
        async with make_kernel(replies, config=[EXTERNAL], plugins=[Offer(tools=[tool])]) as kernel:
            await (await kernel.start_thread()).run("Go!")
            thread = await kernel.start_thread()
            await thread.run("Go!")

    asyncio.run(main())
    assert (tool.seen, seen) == ("polluted", ["polluted"])


def test_a_thread_whose_process_ended_before_it_was_marked_is_marked_when_it_is_resumed(make_kernel: Any) -> None:
    async def first() -> str:
        async with make_kernel([reply(SEARCH), say("done")]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("Go!")
            assert memory_mode(thread.meta) == "enabled"
            return str(thread.id)

    async def second(thread_id: str) -> str:
        async with make_kernel([say("done")], config=[EXTERNAL]) as kernel:
            thread = await kernel.resume_thread(thread_id)
            await thread.run("Go!")
            return memory_mode(thread.meta)

    assert asyncio.run(second(asyncio.run(first()))) == "polluted"


def test_what_a_sub_agent_found_marks_the_threads_above_it(make_kernel: Any) -> None:
    from codex_framework.testing import ScriptedModel

    async def main() -> Any:
        def answer(request: Any) -> Any:
            outputs = [item for item in request.prompt.items if item.type == "function_call_output"]
            if request.thread_id != thread.id:
                return say("found") if outputs else call("ask")
            return call("spawn_agent", message="Look.") if not outputs else say("done")

        model = ScriptedModel([answer] * 9)
        made = make_kernel.around(model, config=[EXTERNAL], plugins=[Offer(tools=[OfServer()])])
        async with made as kernel:
            thread = await kernel.start_thread()
            await thread.run("Go!")
            for each in list(kernel.threads.values()):
                await each.settled()
            return {memory_mode(each.meta) for each in kernel.threads.values()}

    assert asyncio.run(main()) == {"polluted"}


def test_the_file_of_a_project_can_only_let_less_be_learnt() -> None:
    def settings(**tables: dict[str, bool]) -> tuple[bool, bool]:
        layers = [ConfigLayer(name=name, path="", table={"memories": table}) for name, table in tables.items()]
        merged = {key: value for table in tables.values() for key, value in table.items()}
        return tuple(memory_settings({"memories": merged}, layers))  # type: ignore[return-value]

    strict = {"generate_memories": False, "disable_on_external_context": True}
    lax = {"generate_memories": True, "disable_on_external_context": False}
    assert settings(user=strict, project=lax) == (True, True)
    assert settings(user=lax, project=strict) == (True, True)
    assert settings(user=strict, project=lax, override=lax) == (False, False)
    assert settings(user=lax) == (False, False)


def test_a_setting_of_another_type_is_an_error(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel(config=['memories.generate_memories="no"']) as kernel:
            return [report.error for report in kernel.registry.reports if report.name == "memory_mode"]

    (error,) = asyncio.run(main())
    assert "`memories.generate_memories` must be true or false" in str(error)


def test_it_is_of_the_whole_kernel(make_kernel: Any) -> None:
    async def main() -> None:
        async with make_kernel() as kernel:
            with pytest.raises(ConfigError, match="is of the whole kernel"):
                await kernel.start_thread(config={"memories.generate_memories": False})

    asyncio.run(main())
