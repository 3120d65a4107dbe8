"""MCP servers, for clients."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "sing", "description": "Sings.", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_mcp_servers_are_listed_with_their_tools(home: Any, connected: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    argv = json.dumps([str(script)])
    home.serve()
    with (home.path / "config.toml").open("a") as file:
        file.write(f'[mcp_servers.choir]\ncommand = "{sys.executable}"\nargs = {argv}\n')

    async def run() -> None:
        async with connected() as client:
            listed = (await client.call("mcpServerStatus/list"))["data"]
            assert [(each["name"], list(each["tools"]), each["authStatus"]) for each in listed] == [
                ("choir", ["sing"], "unsupported")
            ]
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            of_thread = await client.call("mcpServerStatus/list", threadId=thread_id, serverName="choir")
            assert [list(each["tools"]) for each in of_thread["data"]] == [["sing"]]
            assert (await client.call("mcpServerStatus/list", serverName="other"))["data"] == []
            await client.call("config/mcpServer/reload")

    asyncio.run(run())
