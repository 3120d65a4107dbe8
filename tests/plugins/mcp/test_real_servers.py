"""Servers from npm and PyPI in the folder ``CODEX_MCP_SERVERS``: ``node_modules``, and ``py``, a virtual environment."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from codex_framework.testing import call, say

FOLDER = Path(os.environ.get("CODEX_MCP_SERVERS", "/nowhere"))
MODULES = FOLDER / "node_modules/@modelcontextprotocol"


def outputs(make_thread, program, arguments, *calls):
    if not Path(arguments[0] if program == "node" else program).exists():
        pytest.skip(f"CODEX_MCP_SERVERS has no {Path(arguments[0] if program == 'node' else program).name}")
    table = f"{{command={json.dumps(program)}, args={json.dumps(arguments)}, default_tools_approval_mode='approve'}}"

    async def main():
        config = [f"mcp_servers.real={table}"]
        async with make_thread(None, config=config, env=dict(os.environ)) as thread, asyncio.timeout(60):
            await thread.turn("go", *calls, say("done"))
            return [str(output) for output in thread.outputs]

    return asyncio.run(main())


def test_everything(make_thread):
    program = ["node", [str(MODULES / "server-everything/dist/index.js"), "stdio"]]
    echo, tiny = call("mcp__real__echo", message="hi"), call("mcp__real__get_tiny_image")
    first, second = outputs(make_thread, *program, echo, tiny)
    assert "Echo: hi" in first
    assert "MCP logo" in second


def test_filesystem(make_thread, tmp_path):
    (tmp_path / "a.txt").write_text("the content")
    program = ["node", [str(MODULES / "server-filesystem/dist/index.js"), str(tmp_path)]]
    inside = call("mcp__real__read_text_file", path=str(tmp_path / "a.txt"))
    outside = call("mcp__real__read_text_file", path="/etc/hostname")
    first, second = outputs(make_thread, *program, inside, outside)
    assert "the content" in first
    assert "Access denied" in second


def test_time(make_thread):
    now = call("mcp__real__get_current_time", timezone="Europe/Oslo")
    (output,) = outputs(make_thread, str(FOLDER / "py/bin/mcp-server-time"), [], now)
    assert "Europe/Oslo" in output


def test_git(make_thread, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    status = call("mcp__real__git_status", repo_path=str(tmp_path))
    (output,) = outputs(make_thread, str(FOLDER / "py/bin/mcp-server-git"), [], status)
    assert "new.txt" in output
