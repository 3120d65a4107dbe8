"""Large sets of tools, which the model finds by a search; and questions of servers in ``exec``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.testing import ResponsesServer, call, say

SERVER = Path(__file__).parent / "scripted_server.py"


def table(tmp_path, **settings):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings))
    arguments = json.dumps([str(SERVER), f"@{file}"])
    return f'mcp_servers.srv={{command={json.dumps(sys.executable)}, args={arguments}, default_tools_approval_mode="approve"}}'


def test_a_server_with_many_tools_is_searched(make_thread, tmp_path):
    tools = [{"name": f"tool_{number}", "description": f"Does thing {number}."} for number in range(120)]
    tools[77]["title"] = "Weather Forecast"
    config = [table(tmp_path, tools=tools, instructions="Everything\nabout the sky.")]

    async def main():
        async with make_thread(None, config=config) as thread, asyncio.timeout(40):
            search = call("tool_search", query="weather forecast", limit=1)
            await thread.turn("go", search, call("mcp__srv__tool_77", city="Oslo"), say("done"))
            return thread.requests, thread.outputs

    requests, (found, output) = asyncio.run(main())
    before, after = ({spec.name: spec for spec in request.tools} for request in requests[:2])
    assert not any(name.startswith("mcp__srv") for name in before)
    assert "The tools come from:\n- srv: Everything about the sky.\n" in before["tool_search"].description
    assert json.loads(found)["tools"][0]["name"] == "mcp__srv__tool_77"
    assert [name for name in after if name.startswith("mcp__srv")] == ["mcp__srv__tool_77"]
    assert 'tool_77 {\\"city\\": \\"Oslo\\"}' in str(output) or 'tool_77 {"city": "Oslo"}' in str(output)


@pytest.mark.thorough
@pytest.mark.parametrize(("policy", "action"), [("never", "decline"), ("on-request", "cancel")])
def test_a_question_in_exec_never_waits(tmp_path, workspace, codex_home, policy, action):
    form = {"message": "Who are you?", "requestedSchema": {"type": "object", "properties": {}}}
    asks = call("mcp__srv__ask", method="elicitation/create", params=form)
    with ResponsesServer([asks, say("done")]) as server:
        provider = f'model_providers.here={{name="here", base_url="{server.url}"}}'
        settings = [
            table(tmp_path, tools=[{"name": "ask"}]),
            f'approval_policy="{policy}"',
            'model="other"',
            'model_provider="here"',
            provider,
        ]
        command = [sys.executable, "-m", "codex_framework", "exec", "--skip-git-repo-check", "-C", str(workspace)]
        command += [word for setting in settings for word in ("-c", setting)]
        done = subprocess.run(
            [*command, "Go."],
            env={**os.environ, "CODEX_HOME": str(codex_home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        output = str(server.requests[1].json["input"][-1])
    assert done.returncode == 0, done.stderr
    assert f'"action": "{action}"' in output.replace("\\", "")
    assert "Who are you?" in done.stderr
