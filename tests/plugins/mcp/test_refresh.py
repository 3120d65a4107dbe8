"""The servers of a running thread are replaced, with an op or with a changed ``config.toml``, before its next turn."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from codex_framework import Agent
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.ops import ReloadUserConfig
from codex_framework.testing import call, say
from codex_plugin_mcp.connections import Connections
from codex_plugin_mcp.events import McpStartupCompleteEvent, McpToolCallEndEvent

SERVER = Path(__file__).parent / "scripted_server.py"
HELLO = say("Hello.")


@pytest.fixture
def server(tmp_path):
    """Return the table of a scripted server with one tool."""

    def make(name):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"log": str(tmp_path / f"{name}.log"), "tools": [{"name": f"of_{name}"}]}))
        return {"command": sys.executable, "args": [str(SERVER), f"@{file}"], "env": None, "enabled": True}

    return make


def offered(thread):
    return [spec.name for spec in thread.requests[-1].tools if "mcp__" in spec.name]


async def refresh(thread, **tables):
    config = {"mcp_servers": tables, "mcp_oauth_credentials_store_mode": "file"}
    await thread.client.submit(thread.kernel.op("refresh_mcp_servers", config=config))


def test_servers_are_replaced_before_the_next_turn_and_the_old_ones_end(make_thread, server):
    async def main():
        async with make_thread() as thread, asyncio.timeout(40):
            await thread.turn("One", HELLO)
            assert offered(thread) == []
            await refresh(thread, a=server("a"))
            await asyncio.sleep(0)
            assert not [event for event in thread.events if event.type.startswith("mcp_startup")]
            await thread.turn("Two", HELLO)
            assert offered(thread) == ["mcp__a__of_a"]
            assert (await thread.until(McpStartupCompleteEvent)).ready == ("a",)
            pool = thread.inside("mcp").component(Connections).pool
            await refresh(thread, a=server("a"))
            await thread.turn("Three", HELLO)
            assert thread.inside("mcp").component(Connections).pool is pool
            thread.inside("mcp").reconfigure({"mcp_oauth_credentials_store": "auto"})
            await thread.turn("Logins elsewhere", HELLO)
            assert thread.inside("mcp").component(Connections).pool is not pool
            await refresh(thread, b=server("b"))
            await thread.turn("Four", HELLO)
            assert offered(thread) == ["mcp__b__of_b"]
            while pool.connections["a"].state != "closed":
                await asyncio.sleep(0.01)
            # a file read again does not bring back what the op has replaced
            file = Path(thread.kernel.config.codex_home) / "config.toml"
            file.write_text('[mcp_servers.c]\ncommand = "no-such-program"\n', encoding="utf-8")
            await thread.client.submit(ReloadUserConfig())
            await thread.turn("Five", HELLO)
            assert offered(thread) == ["mcp__b__of_b"]
            await refresh(thread)
            await thread.turn("Six", HELLO)
            assert offered(thread) == []

    asyncio.run(main())


def test_a_child_keeps_the_servers_that_it_shares_with_its_parent(make_thread, server):
    table = {name: value for name, value in server("a").items() if value is not None}

    async def main():
        async with make_thread() as thread, asyncio.timeout(40):
            await refresh(thread, a=table)
            await thread.turn("One", HELLO)
            child = await thread.inside("mcp").spawn(Agent(name="child"))
            await refresh(thread)
            await thread.turn("Two", HELLO)
            thread.kernel.model.add(call("mcp__a__of_a"), HELLO)
            result = await child.run("Three")
            ends = [event for event in result.events if isinstance(event, McpToolCallEndEvent)]
            assert [end.invocation.tool for end in ends] == ["of_a"]
            assert "ended" not in str(ends[0].result)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"a": {"command": 7}}, "command"),
        ({"a": {}}, "'a'"),
        ({"a": {"command": "x", "bearer_token": "s3cret"}}, "bearer_token"),
        ({"a": "text"}, "'a'"),
        ({"a b": {"command": "x"}}, "a b"),
    ],
)
def test_a_mistake_is_refused_and_changes_nothing(make_thread, tables, told):
    async def main():
        async with make_thread() as thread, asyncio.timeout(40):
            before = thread.inside("mcp").config
            await thread.client.submit(thread.kernel.op("refresh_mcp_servers", config={"mcp_servers": tables}), id="op")
            error = await thread.until(ErrorEvent)
            assert told in error.message
            assert "s3cret" not in error.message
            await thread.turn("One", HELLO)
            assert thread.inside("mcp").config is before

    asyncio.run(main())
