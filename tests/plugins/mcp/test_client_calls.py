"""What clients do with servers themselves: call tools, read resources, and log in."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.testing import say
from codex_plugin_mcp.client_calls import McpAnswerEvent, McpLoginCompletedEvent, McpLoginStartedEvent
from codex_plugin_mcp.ops import CallMcpTool, LoginMcpServer, ReadMcpResource
from tests.plugins.mcp.oauth_server import AuthorizationServer, ProtectedServer, browse

SERVER = Path(__file__).parent / "answering_server.py"
ANSWERS = {"resources/read a://1": {"contents": [{"uri": "a://1", "text": "one"}]}}


def table():
    arguments = json.dumps([str(SERVER), json.dumps({"answers": ANSWERS})])
    options = 'default_tools_approval_mode="prompt", disabled_tools=["secret"]'
    return f"mcp_servers.srv={{command={json.dumps(sys.executable)}, args={arguments}, {options}}}"


def answers(make_thread, *ops):
    """Submit ops, and return the answers as JSON."""

    async def main():
        async with make_thread(None, config=[table()], attended=True) as thread, asyncio.timeout(40):
            await thread.turn("go", say("ready"))
            found = []
            for op in ops:
                await thread.client.submit(op)
                found.append(to_wire(await thread.until(McpAnswerEvent)))
            return found

    return asyncio.run(main())


def test_a_tool_is_called_without_approval(make_thread):
    called, disabled, unknown = answers(
        make_thread,
        CallMcpTool(server="srv", tool="call", arguments={"method": "ping"}),
        CallMcpTool(server="srv", tool="secret"),
        CallMcpTool(server="none", tool="call"),
    )
    assert [part["type"] for part in called["result"]["content"]] == ["text"]
    assert disabled["error"]["message"] == "tool 'secret' is disabled for MCP server 'srv'"
    assert unknown["error"]["message"] == "unknown MCP server 'none'"


def test_a_resource_is_read(make_thread):
    found, missing = answers(
        make_thread, ReadMcpResource(server="srv", uri="a://1"), ReadMcpResource(server="srv", uri="a://2")
    )
    assert found["result"]["contents"] == [{"uri": "a://1", "text": "one"}]
    assert missing["error"]["code"]


def test_a_login_tells_the_address_and_then_its_end(make_thread):
    async def main(url):
        config = ['mcp_oauth_credentials_store="file"', f'mcp_servers.web={{url="{url}", enabled=false}}']
        async with make_thread(None, config=config, attended=True) as thread, asyncio.timeout(40):
            await thread.client.submit(LoginMcpServer(server="web"))
            browse((await thread.until(McpLoginStartedEvent)).authorization_url)
            assert (await thread.until(McpLoginCompletedEvent)).error is None
            await thread.client.submit(LoginMcpServer(server="web", timeout_s=0.0))
            assert (await thread.until(McpLoginCompletedEvent)).error
            await thread.client.submit(LoginMcpServer(server="none"))
            assert (await thread.until(ErrorEvent)).message == "No MCP server named 'none' found."

    with AuthorizationServer() as authorization, ProtectedServer(authorization) as server:
        asyncio.run(main(server.url))
