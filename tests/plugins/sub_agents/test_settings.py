"""The plugin's settings, and what a project may change of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from codex_framework import ConfigLayer
from codex_plugin_sub_agents.component import AgentsPart
from codex_plugin_sub_agents.names import nickname
from codex_plugin_sub_agents.settings import Settings, most_deep, most_threads, without_shorter_wait
from codex_plugin_sub_agents.tree import Member, Tree
from codex_plugin_sub_agents.versions import team_settings


def test_each_agent_gets_the_next_name_that_no_open_agent_has() -> None:
    tree = Tree(9)
    names = [tree.new_name() for _ in range(3)]
    assert names == [nickname(number, ()) for number in range(3)]
    client: Any = SimpleNamespace(id="x")
    tree.members["x"] = Member(client, nickname(3, ()), None, "")
    assert tree.new_name() == nickname(4, ())


def layer(name: str, wait_ms: Any) -> ConfigLayer:
    table = {"framework": {"plugins": {"sub_agents": {"shortest_wait_ms": wait_ms}}}}
    return ConfigLayer(name=name, path="x", table=table)


@pytest.mark.parametrize(
    ("layers", "wait_ms", "kept"),
    [
        ([], 10_000, 10_000),
        ([("project", 50)], 50, 10_000),
        ([("project", 20_000)], 20_000, 20_000),
        ([("user", 500), ("project", 50)], 50, 500),
        ([("user", 500), ("project", 1000)], 1000, 1000),
        ([("user", 500), ("project", 100), ("project", 50)], 50, 500),
        ([("project", 50), ("override", 40)], 40, 40),
        ([("project", 50), ("override", 50)], 50, 50),
        ([("project", 50)], 70, 70),  # set by a program for its thread
    ],
)
def test_a_project_can_only_lengthen_the_shortest_wait(layers: Any, wait_ms: int, kept: int) -> None:
    found = without_shorter_wait(Settings(shortest_wait_ms=wait_ms), [layer(*one) for one in layers])
    assert found.shortest_wait_ms == kept


def test_the_shortest_wait_of_a_trusted_project_does_not_reach_its_threads(make_kernel: Any, workspace: Any) -> None:
    (workspace / ".codex").mkdir()
    (workspace / ".codex" / "config.toml").write_text("[framework.plugins.sub_agents]\nshortest_wait_ms = 1\n")

    async def main() -> int:
        trusted = f'projects."{workspace}".trust_level="trusted"'
        async with make_kernel([], config=[trusted]) as kernel:
            thread = await kernel.start_thread()
            return int(thread.conversation.context("sub_agents").component(AgentsPart).family().shortest_wait_ms)

    assert asyncio.run(main()) == 10_000


def test_a_limit_that_is_no_number_has_no_effect() -> None:
    config = {"agents": {"max_threads": True, "max_depth": "3"}}
    assert (most_threads(config), most_deep(config)) == (6, 1)


@pytest.mark.parametrize(
    ("layers", "wait_ms", "kept"),
    [
        ([("project", 50)], 50, 10_000),
        ([("project", 20_000)], 20_000, 20_000),
        ([("user", 500), ("project", 50)], 50, 500),
        ([("user", 500)], 500, 500),
        ([("project", 50), ("override", 40)], 40, 40),
    ],
)
def test_a_project_can_only_lengthen_the_waits_of_a_team(layers: Any, wait_ms: int, kept: int) -> None:
    found = [ConfigLayer(name=name, path=name, table=in_team(value)) for name, value in layers]
    assert team_settings(in_team(wait_ms), Settings(), found).shortest_ms == kept


def in_team(wait_ms: int) -> dict[str, Any]:
    return {"features": {"multi_agent_v2": {"min_wait_timeout_ms": wait_ms}}}
