"""How long the first sample waits for servers, and what happens with the later ones."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from codex_framework import Status
from codex_framework.testing import call, say
from codex_plugin_mcp.connections import Connections
from codex_plugin_mcp.events import McpStartupCompleteEvent

SERVER = Path(__file__).parent / "scripted_server.py"
HANGS = {"silent": ["initialize"]}
PATIENT = "framework.plugins.mcp.startup_patience_s=40"


@pytest.fixture
def table(tmp_path):
    """Return the setting for a scripted server with the tool ``plain``."""

    def make(name, *, keys="", **settings):
        file = tmp_path / f"{name}.json"
        given = {"tools": [{"name": "plain"}], "log": str(tmp_path / f"{name}.log"), **settings}
        file.write_text(json.dumps(given))
        command, arguments = json.dumps(sys.executable), json.dumps([str(SERVER), f"@{file}"])
        extra = f", {keys}" if keys else ""
        return (
            f"mcp_servers.{name}={{command={command}, args={arguments}, default_tools_approval_mode='approve'{extra}}}"
        )

    return make


def offered(thread, sample):
    return [spec.name for spec in thread.requests[sample].tools if spec.name.startswith("mcp__")]


def connection(thread, name):
    return thread.inside("mcp").component(Connections).pool.connections[name]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_a_server_that_hangs_does_not_hold_up_the_first_sample(play, table):
    async def story(thread):
        began = time.monotonic()
        await thread.turn("go", say("done"))
        return time.monotonic() - began, connection(thread, "hangs").state

    patience = "framework.plugins.mcp.startup_patience_s=0.2"
    taken, state = play(story, table("hangs", keys="startup_timeout_sec=50", **HANGS), patience)
    assert state == "starting"
    assert taken < 25  # not the limit of the server


def test_the_tools_of_a_server_that_is_ready_later_join_the_next_sample_of_the_turn(play, table):
    async def story(thread):
        thread.start("go", call("mcp__good__slow", pause_s=1.0), call("mcp__late__plain", k=1), say("done"))
        await until(lambda: connection(thread, "good").caller is not None)
        (Path(connection(thread, "late").server.args[1][1:])).with_suffix(".go").touch()
        await until(lambda: connection(thread, "late").session is not None)
        outcome = await thread.client.settled()
        assert outcome.status is Status.COMPLETED
        return offered(thread, 0), offered(thread, 1), thread.outputs[1][1].text

    good = table("good", tools=[{"name": "slow"}], keys="required=true")
    late = table("late", waits=True, keys="startup_timeout_sec=50")
    first, second, output = play(story, good, late, "framework.plugins.mcp.startup_patience_s=0.1")
    assert first == ["mcp__good__slow"]
    assert second == ["mcp__good__slow", "mcp__late__plain"]
    assert output == 'plain {"k": 1}'


def test_a_required_server_is_waited_for_and_another_one_that_hangs_is_not(play, table):
    async def story(thread):
        await thread.turn("go", say("done"))
        return offered(thread, 0), connection(thread, "hangs").state

    needed = table("needed", delay_s=0.7, keys="required=true")
    hangs = table("hangs", keys="startup_timeout_sec=50", **HANGS)
    assert play(story, needed, hangs, "framework.plugins.mcp.startup_patience_s=0.05") == (
        ["mcp__needed__plain"],
        "starting",
    )


def test_a_required_server_that_fails_ends_the_turn_though_another_one_hangs(play, table, tmp_path):
    async def story(thread):
        first = await thread.turn("go", say("not sent at first"))
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps({"tools": [{"name": "plain"}]}))
        return first, await thread.turn("go"), offered(thread, 0), connection(thread, "hangs").state

    hangs = table("hangs", keys="startup_timeout_sec=50", **HANGS)
    first, second, names, state = play(
        story, table("broken", exit=1, keys="required=true"), hangs, "framework.plugins.mcp.startup_patience_s=0.05"
    )
    assert first.status is Status.FAILED
    assert "MCP client for `broken` failed to start" in first.error
    assert second.status is Status.COMPLETED
    assert names == ["mcp__broken__plain"]
    assert state == "starting"


@pytest.mark.thorough
def test_clients_are_told_once_when_all_servers_have_started_or_failed(play, table):
    async def story(thread):
        await thread.turn("go", say("done"))
        assert not [event for event in thread.events if isinstance(event, McpStartupCompleteEvent)]
        complete = await thread.until(McpStartupCompleteEvent)
        await thread.turn("go", say("done"))
        warnings = [text for text in thread.warnings if "MCP client for `hangs` timed out" in text]
        return complete, len(warnings)

    good, hangs = table("good", keys="required=true"), table("hangs", keys="startup_timeout_sec=3", **HANGS)
    complete, warnings = play(story, good, hangs, "framework.plugins.mcp.startup_patience_s=0.05")
    assert (complete.ready, [failure.server for failure in complete.failed], warnings) == (("good",), ["hangs"], 1)


@pytest.mark.thorough
def test_the_wait_can_be_made_longer(play, table):
    async def story(thread):
        await thread.turn("go", say("done"))
        return offered(thread, 0)

    assert play(story, table("late", delay_s=1.5), PATIENT) == ["mcp__late__plain"]


@pytest.mark.parametrize(("grace_ms", "names"), [(50, []), (0, ["mcp__late__plain"])])
def test_codexs_key_sets_the_wait_and_0_waits_until_the_server_has_started(play, table, grace_ms, names):
    async def story(thread):
        await thread.turn("go", say("done"))
        return offered(thread, 0)

    assert play(story, table("late", delay_s=1.5), f"mcp_optional_startup_grace_ms={grace_ms}") == names
