"""A server that others wrote: aimock of npm, in the folder ``CODEX_MODEL_SERVERS`` (``npm install @copilotkit/aimock``)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CODEX_MODEL_SERVERS") or "/nowhere")
PROGRAM = FOLDER / "node_modules/@copilotkit/aimock/dist/cli.js"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists() or shutil.which("node") is None,
    reason="CODEX_MODEL_SERVERS names no folder with @copilotkit/aimock, or there is no node",
)


def call(name, call_id, **arguments):
    return {"id": call_id, "name": name, "arguments": json.dumps(arguments)}


def prompted(turn, response):
    return {"match": {"userMessage": f"step {turn}", "hasToolResult": False}, "response": response}


def told(call_id, response):
    return {"match": {"toolCallId": call_id}, "response": response}


TWO = [call("exec_command", "call_b", cmd="echo two >> log"), call("exec_command", "call_c", cmd="cat log")]
THREE = [call("exec_command", "call_d", cmd="echo three >> log")]
FIXTURES = [
    prompted(1, {"reasoning": "One.", "toolCalls": [call("exec_command", "call_a", cmd="echo one >> log")]}),
    told("call_a", {"reasoning": "Two.", "toolCalls": TWO}),
    told("call_c", {"content": "Two lines."}),
    prompted(2, {"reasoning": "Three.", "content": "Now three.", "toolCalls": THREE}),
    told("call_d", {"content": "Three lines."}),
]


@pytest.fixture
def aimock(tmp_path):
    """The URL of a running server. It refuses a loop of tools whose thoughts or signatures are missing (``--strict``)."""
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
    command = ["node", str(PROGRAM), "-p", "0", "-f", str(fixtures), "--log-level", "info", "--strict"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        seen = ""
        try:
            for line in server.stdout:
                seen += line
                if found := re.search(r"http://[\w.:\[\]]+:(\d+)", line):
                    yield f"http://127.0.0.1:{found[1]}"
                    break
            else:
                pytest.fail(f"aimock did not start: {seen}")
        finally:
            server.terminate()


def test_a_tool_loop_of_several_turns_completes(make_kernel, workspace, aimock):
    config = (
        'model = "claude-sonnet-4-5"\nmodel_provider = "real"\nsandbox_mode = "danger-full-access"\n'
        f'approval_policy = "never"\n[model_providers.real]\nbase_url = "{aimock}/v1"\nwire_api = "messages"\n'
        'experimental_bearer_token = "any"\n'
    )

    async def run():
        async with make_kernel(config=config) as kernel:
            thread = await kernel.start_thread()
            return [await thread.run(f"step {number}") for number in (1, 2)]

    results = asyncio.run(run())
    assert [(result.final_message, result.error) for result in results] == [
        ("Two lines.", None),
        ("Three lines.", None),
    ]
    assert sorted((workspace / "log").read_text().split()) == ["one", "three", "two"]
