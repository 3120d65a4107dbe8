"""Servers that end again and again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.testing import call, say
from codex_plugin_mcp import connection as connections
from codex_plugin_mcp.events import McpStartupUpdateEvent

SERVER = Path(__file__).parent / "scripted_server.py"
READS = {"annotations": {"readOnlyHint": True}}
T = {"name": "t", **READS}


def table(name, settings, *, argv=None, **keys):
    argv = argv or [sys.executable, str(SERVER), json.dumps(settings)]
    rows = {"command": argv[0], "args": argv[1:], **keys}
    return "\n".join([f"[mcp_servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in rows.items()), ""])


def run(make_thread, config, story, **settings):
    async def main():
        async with make_thread(None, config=config, **settings) as thread:
            async with asyncio.timeout(60):
                return await story(thread)

    return asyncio.run(main())


async def turn(thread, *calls):
    result = await thread.turn("go", *calls, say("done"))
    return result, thread.requests[-1]


def offered(request):
    return [spec.name for spec in request.tools if spec.name.startswith("mcp__")]


def warned(thread):
    return [text for text in thread.warnings if "MCP" in text]


def dead(pid):
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True


def ready(thread):
    return sum(event.status["state"] == "ready" for event in thread.events if isinstance(event, McpStartupUpdateEvent))


def test_a_server_that_has_run_for_a_while_may_end_any_number_of_times(make_thread, monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "_BACKOFF_S", (0.01,) * 2)
    monkeypatch.setattr(connections, "_STABLE_S", 0.2)
    log = tmp_path / "log"

    async def story(thread):
        await turn(thread)
        for number in range(1, 6):
            while ready(thread) < number:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            os.kill(json.loads([line for line in log.read_text().splitlines() if '"pid"' in line][-1])["pid"], 9)
        while ready(thread) < 6:
            await asyncio.sleep(0.01)
        _, request = await turn(thread, call("mcp__srv__t"))
        return offered(request), warned(thread)

    tools, warnings = run(make_thread, table("srv", {"tools": [T], "log": str(log)}), story)
    assert tools == ["mcp__srv__t"]
    assert not any("is not started again" in warning for warning in warnings)


def test_a_killed_server_is_started_again_and_one_that_ends_too_often_is_given_up(make_thread, monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "_BACKOFF_S", (0.01,) * 2)
    log = tmp_path / "log"
    config = table("srv", {"tools": [T], "log": str(log)})

    def pids():
        return [json.loads(line)["pid"] for line in log.read_text().splitlines() if '"pid"' in line]

    async def story(thread):
        await turn(thread)
        for number in range(1, 4):
            while len(pids()) < number:
                await asyncio.sleep(0.01)
            while (
                thread.until
                and sum(
                    event.status["state"] == "ready"
                    for event in thread.events
                    if isinstance(event, McpStartupUpdateEvent)
                )
                < number
            ):
                await asyncio.sleep(0.01)
            os.kill(pids()[-1], signal.SIGKILL)
        while not any("is not started again" in text for text in warned(thread)):
            await thread.until(WarningEvent)
        _, request = await turn(thread, call("mcp__srv__t"))
        return offered(request), str(thread.outputs[0]), warned(thread)

    tools, output, warnings = run(make_thread, config, story)
    assert tools == []
    assert "unsupported call: mcp__srv__t" in output
    assert sum("was ended by SIGKILL" in warning for warning in warnings) >= 3
    assert all(dead(pid) for pid in pids())
