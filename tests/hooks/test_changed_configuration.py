"""A running thread and its components get a changed configuration before the next turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Component, ConfigError, Task, ThreadComponent, ToolContext, tool
from codex_framework.contract.protocol.events import ErrorEvent, WarningEvent
from codex_framework.contract.protocol.ops import ReloadUserConfig
from codex_framework.testing import Offer, call, say

HELLO = say("Hello.")


class Part(ThreadComponent):
    """A part that lives as long as ``review_model`` is the same, and has a tool of that name."""

    def __init__(self, thread, log):
        self.thread, self.log = thread, log
        self.model = thread.config["review_model"]

    async def start(self):
        self.log.append(f"start {self.model}")

    def reconfigured(self):
        return self.thread.config.get("review_model") == self.model

    def tools(self, turn):
        @tool(name=f"tool_{self.model}")
        def here() -> str:
            """Answer."""
            return turn.config["review_model"]

        return [here]

    async def aclose(self):
        self.log.append(f"close {self.model}")


class Whole(Component):
    name = "whole"

    def __init__(self, make):
        self.make = make

    def for_thread(self, thread):
        return self.make(thread) if thread.config.get("review_model") else None


@pytest.fixture
def play(make_thread):
    """Run a story in a thread with a component."""

    def run(story, make=None, **more):
        log: list[str] = []

        async def main():
            offer = Offer(components=[Whole(make or (lambda thread: Part(thread, log)))])
            async with make_thread(offer, entry_points=(), **more) as thread, asyncio.timeout(30):
                await story(thread)

        asyncio.run(main())
        return log

    return run


def write(thread, text):
    path = Path(thread.turn.codex_home) / "config.toml"
    path.write_text(text, encoding="utf-8")


def offered(thread):
    return [spec.name for spec in thread.requests[-1].tools]


def test_a_reloaded_file_applies_to_the_next_turn_and_not_to_the_running_one(play):
    @tool
    async def late(context: ToolContext) -> str:
        """Reload in the middle of a turn."""
        write(context.turn.thread, 'review_model = "b"\nmodel = "other"\n')
        await context.turn.thread.submit(ReloadUserConfig())
        return str(context.turn.thread.config.get("review_model"))

    async def story(thread):
        await thread.turn("One", call("late"), HELLO)
        assert thread.outputs == ["None"]
        assert offered(thread) == ["late"]
        told = [event.message for event in thread.events if isinstance(event, WarningEvent)]
        assert [text for text in told if "`model`" in text and "Start another session" in text]
        assert "review_model" not in "".join(told)
        await thread.turn("Two", HELLO)
        assert offered(thread) == ["late", "tool_b"]
        assert thread.client.settings.model != "other"

    assert play(story, tools=[late]) == ["start b", "close b"]


def test_a_part_that_cannot_go_on_is_replaced_and_one_that_is_no_longer_wanted_closed(play):
    async def story(thread):
        await thread.turn("One", HELLO)
        thread.inside("test").reconfigure({"review_model": "b"})
        assert offered(thread) == ["tool_a"]
        await thread.turn("Two", HELLO)
        assert offered(thread) == ["tool_b"]
        thread.inside("test").reconfigure({"compact_prompt": "same part"})
        await thread.turn("Three", HELLO)
        thread.inside("test").reconfigure({"review_model": None})
        await thread.turn("Four", HELLO)
        assert offered(thread) == []

    log = play(story, config=['review_model="a"', 'model_provider="scripted"'])
    assert log == ["start a", "close a", "start b", "close b"] or log == ["start a", "start b", "close a", "close b"]


def test_a_mistake_leaves_the_configuration_and_the_thread_as_they_are(play):
    async def story(thread):
        (Path(thread.kernel.config.codex_home) / "config.toml").write_text("review_model = 7\n", encoding="utf-8")
        await thread.client.submit(ReloadUserConfig(), id="op")
        error = await thread.until(ErrorEvent)
        assert "config.toml" in error.message
        assert "review_model" in error.message
        with pytest.raises(ConfigError, match="cannot change in a running thread"):
            thread.inside("test").reconfigure({"sandbox_mode": "danger-full-access"})
        await thread.turn("One", HELLO)
        assert offered(thread) == ["tool_a"]

    assert play(story, config=['review_model="a"', 'model_provider="scripted"']) == ["start a", "close a"]


def test_a_task_begins_with_the_changed_configuration_too(play):
    class Look(Task):
        kind = "look"

        async def run(self, turn, input):  # noqa: A002  # the role's name
            seen.append(turn.facts.config.get("review_model"))
            return

    async def story(thread):
        thread.inside("test").reconfigure({"review_model": "b"})
        thread.inside("test").start_task(Look())
        await thread.client.settled()

    seen: list[Any] = []
    assert play(story) == ["start b", "close b"]
    assert seen == ["b"]


def test_what_any_configuration_has_named_as_secret_stays_hidden_from_commands(play):
    @tool
    async def look(context: ToolContext) -> str:
        """Show some variables."""
        return (await context.run(["sh", "-c", "echo [$OPEN_ONE] [$ONE] [$TWO]"])).output

    async def story(thread):
        await thread.turn("One", call("look"), HELLO)
        thread.inside("test").reconfigure({"mcp_servers": server("TWO")})
        await thread.turn("Two", call("look"), HELLO)
        thread.inside("test").reconfigure({"mcp_servers": None})
        await thread.turn("Three", call("look"), HELLO)
        assert thread.outputs == ["[1] [] [2]\n", "[1] [] []\n", "[1] [] []\n"]

    def server(name):
        return {"docs": {"url": "http://127.0.0.1:9/", "bearer_token_env_var": name}}

    config = "[mcp_servers.docs]\nurl = 'http://127.0.0.1:9/'\nbearer_token_env_var = 'ONE'\n"
    config += "[shell_environment_policy]\nignore_default_excludes = true\n"
    play(story, tools=[look], config=config, env={"ONE": "1" * 20, "TWO": "2", "OPEN_ONE": "1"})


def test_a_thread_ends_only_after_the_parts_that_were_replaced(play):
    class Slow(Part):
        async def aclose(self):
            await asyncio.sleep(0.1 if self.model == "a" else 0)
            await super().aclose()

    async def story(thread):
        thread.inside("test").reconfigure({"review_model": "b"})
        await thread.turn("One", HELLO)
        await thread.client.shutdown()
        assert "close a" in log

    log: list[str] = []
    play(story, lambda thread: Slow(thread, log), config=['review_model="a"', 'model_provider="scripted"'])


@pytest.mark.parametrize("wrong", ["raises", "no bool"])
def test_a_part_stays_if_it_or_its_component_fails(play, wrong):
    class Odd(Part):
        def reconfigured(self):
            if wrong == "raises":
                raise RuntimeError("boom")
            return

    async def story(thread):
        await thread.turn("One", HELLO)
        thread.inside("test").reconfigure({"review_model": "b"})
        await thread.turn("Two", HELLO)
        assert offered(thread) == ["tool_a"]
        assert [text for text in thread.warnings if "reconfigured" in text and "The part stays." in text]

    log = []
    play(story, lambda thread: Odd(thread, log), config=['review_model="a"', 'model_provider="scripted"'])
    assert log == ["start a", "close a"]


def test_a_part_stays_if_no_other_can_be_made(play):
    made = []

    def make(thread):
        if made:
            raise RuntimeError("boom")
        made.append(Part(thread, log))
        return made[0]

    async def story(thread):
        thread.inside("test").reconfigure({"review_model": "b"})
        await thread.turn("One", HELLO)
        assert offered(thread) == ["tool_a"]
        assert [text for text in thread.warnings if "boom" in text and "The earlier part stays." in text]

    log = []
    play(story, make, config=['review_model="a"', 'model_provider="scripted"'])
    assert log == ["start a", "close a"]
