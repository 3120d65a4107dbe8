"""A server that others wrote: aimock of npm, in the folder ``CODEX_MODEL_SERVERS`` (``npm install @copilotkit/aimock``)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("CODEX_MODEL_SERVERS") or "/nowhere")
PROGRAM = FOLDER / "node_modules/@copilotkit/aimock/dist/cli.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PROGRAM.exists() or shutil.which("node") is None,
        reason="CODEX_MODEL_SERVERS names no folder with @copilotkit/aimock, or there is no node",
    ),
]


def prompted(turn: int, response: dict[str, Any]) -> dict[str, Any]:
    """Answer the prompt of a turn."""
    return {"match": {"userMessage": f"step {turn}", "hasToolResult": False}, "response": response}


def told(call_id: str, response: dict[str, Any]) -> dict[str, Any]:
    """Answer the output of a call."""
    return {"match": {"toolCallId": call_id}, "response": response}


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": json.dumps(arguments)}


TWO = {
    "toolCalls": [call("exec_command", "call_b", cmd="echo two >> log"), call("exec_command", "call_c", cmd="cat log")]
}
THREE = {"content": "Now three.", "toolCalls": [call("exec_command", "call_d", cmd="echo three >> log")]}
FIXTURES = {
    "fixtures": [
        prompted(1, {"reasoning": "One.", "toolCalls": [call("exec_command", "call_a", cmd="echo one >> log")]}),
        told("call_a", TWO),
        told("call_c", {"content": "Two lines."}),
        prompted(2, THREE),
        told("call_d", {"content": "Three lines."}),
    ]
}


@pytest.fixture
def aimock(tmp_path: Path) -> Iterator[str]:
    """The URL of a running server."""
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    with subprocess.Popen(
        ["node", str(PROGRAM), "-p", "0", "-f", str(fixtures), "--log-level", "info"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        assert server.stdout is not None
        seen = ""
        try:
            for line in server.stdout:
                seen += line
                if found := re.search(r"http://[\w.:\[\]]+:(\d+)", line):
                    yield f"http://127.0.0.1:{found[1]}/v1"
                    break
            else:
                pytest.fail(f"aimock did not start: {seen}")
        finally:
            server.terminate()


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_tool_loop_of_several_turns_completes(
    make_kernel: Any, workspace: Path, codex_home: Path, aimock: str, wire: str
) -> None:
    import asyncio

    config = (
        'model = "gpt-5.4"\nmodel_provider = "real"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[model_providers.real]\nbase_url = "{aimock}"\nwire_api = "{wire}"\n'
    )

    async def run() -> list[Any]:
        async with make_kernel(config=config) as kernel:
            thread = await kernel.start_thread()
            return [await thread.run(f"step {number}") for number in (1, 2)]

    results = asyncio.run(run())
    assert [(result.final_message, result.error) for result in results] == [
        ("Two lines.", None),
        ("Three lines.", None),
    ]
    assert sorted((workspace / "log").read_text().split()) == ["one", "three", "two"]
