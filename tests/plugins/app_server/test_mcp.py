"""MCP servers, for clients."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.mcp.oauth_server import AuthorizationServer, ProtectedServer, browse

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


WORKING_SERVER = """
import json, pathlib, sys, time

def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        info = {"name": "s", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}}, "serverInfo": info}
    if method == "tools/list":
        names = ("sing", "ask", "fail", "break", "die", "wait", "secret")
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        return {"tools": [{**tool, "annotations": {"destructiveHint": True}} for tool in tools]}
    if method == "resources/read" and params["uri"] == "mem://a":
        return {"contents": [{"uri": "mem://a", "text": "A", "_meta": params.get("_meta", {})}]}
    if method == "resources/read":
        raise LookupError({"code": -32002, "message": "Resource not found", "data": {"uri": params["uri"]}})
    name = params["name"]
    if name == "wait":
        folder = pathlib.Path(params["arguments"]["folder"])
        (folder / "begun").touch()
        while not (folder / "end").exists():
            time.sleep(0.005)
    if name == "die":
        sys.exit(3)
    if name == "break":
        raise LookupError({"code": -32011, "message": "broken"})
    if name == "fail":
        return {"content": [{"type": "text", "text": "no"}], "isError": True}
    if name == "ask":
        schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
        question = {"message": "Which?", "requestedSchema": schema}
        print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": question}), flush=True)
        params["arguments"] = json.loads(sys.stdin.readline())["result"]
    text = json.dumps([params["arguments"], params["_meta"]])
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"ok": True}, "_meta": {"m": 1}}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        try:
            said = {"result": answer(message)}
        except LookupError as error:
            said = {"error": error.args[0]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
"""


@pytest.fixture
def choir(home: Any, tmp_path: Path) -> Any:
    """A home with a server that does all that clients can want, and one that does not start."""
    script = tmp_path / "server.py"
    script.write_text(WORKING_SERVER)
    home.serve(more='approval_policy = "on-request"')
    with (home.path / "config.toml").open("a") as file:
        for name, options in (("choir", [str(script)]), ("dead", ["-c", "exit(3)"])):
            argv = json.dumps(options)
            file.write(f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\nargs = {argv}\n')
            file.write('default_tools_approval_mode = "prompt"\ndisabled_tools = ["secret"]\n')
        file.write('[mcp_servers.off]\ncommand = "nothing"\nenabled = false\n')
    return home


def test_a_client_calls_tools_without_approval(choir: Any, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]

            async def call(tool: str, **params: Any) -> dict[str, Any]:
                result: dict[str, Any] = await client.call(
                    "mcpServer/tool/call", threadId=thread_id, server="choir", tool=tool, **params
                )
                return result

            result = await call("sing", arguments={"n": 1}, _meta={"mine": 2})
            text = json.dumps([{"n": 1}, {"mine": 2, "threadId": thread_id}])
            assert result == {
                "content": [{"type": "text", "text": text}],
                "structuredContent": {"ok": True},
                "_meta": {"m": 1},
            }
            assert json.loads((await call("sing"))["content"][0]["text"]) == [{}, {"threadId": thread_id}]
            assert await call("fail") == {"content": [{"type": "text", "text": "no"}], "isError": True}
            number = client.start("mcpServer/tool/call", threadId=thread_id, server="choir", tool="ask")
            question = await client.question("mcpServer/elicitation/request")
            assert (question["params"]["turnId"], question["params"]["message"]) == (None, "Which?")
            client.answer(question, action="accept", content={"id": 7})
            asked = (await client.response(number))["result"]["content"][0]["text"]
            assert json.loads(asked)[0] == {"action": "accept", "content": {"id": 7}}
            assert not [method for method in client.methods() if method.startswith("item/")]

    asyncio.run(run())


def test_a_thread_stays_loaded_while_a_tool_runs(choir: Any, connected: Callable[..., Any], tmp_path: Path) -> None:
    async def run() -> None:
        async with connected("thread_unload_delay_secs=0") as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            asked = {"server": "choir", "tool": "wait", "arguments": {"folder": str(tmp_path)}}
            number = client.start("mcpServer/tool/call", threadId=thread_id, **asked)
            while not (tmp_path / "begun").exists():  # another process makes it
                await asyncio.sleep(0.005)
            await client.call("thread/unsubscribe", threadId=thread_id)
            assert (await client.call("thread/loaded/list"))["data"] == [thread_id]
            (tmp_path / "end").touch()
            assert (await client.response(number))["result"]["structuredContent"] == {"ok": True}
            await client.until(lambda message: message.get("method") == "thread/closed")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"server": "none", "tool": "sing"}, {"code": -32603, "message": "unknown MCP server 'none'"}),
        ({"server": "off", "tool": "sing"}, {"code": -32603, "message": "unknown MCP server 'off'"}),
        (
            {"server": "choir", "tool": "secret"},
            {"code": -32603, "message": "tool 'secret' is disabled for MCP server 'choir'"},
        ),
        (
            {"server": "choir", "tool": "sing", "arguments": [1]},
            {
                "code": -32603,
                "message": "tool call failed for `choir/sing`: MCP tool arguments must be a JSON object, got [1]",
            },
        ),
        ({"server": "choir", "tool": "break"}, {"code": -32011, "message": "broken"}),
    ],
)
def test_refused_calls_have_the_errors_of_codex(
    params: dict[str, Any], error: dict[str, Any], choir: Any, connected: Callable[..., Any]
) -> None:
    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            assert await client.fail("mcpServer/tool/call", threadId=thread_id, **params) == error

    asyncio.run(run())


def test_dead_servers_are_errors_and_the_others_go_on(choir: Any, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            error = await client.fail("mcpServer/tool/call", threadId=thread_id, server="dead", tool="sing")
            assert error["code"] == -32603
            assert error["message"].startswith("failed to get client: ")
            error = await client.fail("mcpServer/tool/call", threadId=thread_id, server="choir", tool="die")
            assert error["message"].startswith("tool call failed for `choir/die`: ")
            await client.call("mcpServer/tool/call", threadId=thread_id, server="choir", tool="sing")  # started again

    asyncio.run(run())


def test_resources_are_read_with_and_without_a_thread(choir: Any, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            for params, meta in (({"threadId": thread_id, "_meta": {"k": 1}}, {"k": 1}), ({}, {})):
                result = await client.call("mcpServer/resource/read", server="choir", uri="mem://a", **params)
                content = {"uri": "mem://a", "text": "A", "_meta": meta}
                assert result == {"contents": [content], "originCallId": None}
                error = await client.fail("mcpServer/resource/read", server="choir", uri="mem://b", **params)
                assert error == {"code": -32002, "message": "Resource not found", "data": {"uri": "mem://b"}}
                error = await client.fail("mcpServer/resource/read", server="none", uri="mem://b", **params)
                assert error == {"code": -32603, "message": "unknown MCP server 'none'"}

    asyncio.run(run())


def test_reading_a_resource_without_a_thread_starts_no_other_server(
    choir: Any, connected: Callable[..., Any], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    argv = json.dumps(["-c", f"open({str(started)!r}, 'w')"])

    async def run() -> None:
        async with connected(f"mcp_servers.dead.args={argv}") as client:
            await client.call("mcpServer/resource/read", server="choir", uri="mem://a")
            assert not started.exists()
            await client.call("mcpServerStatus/list")
            assert started.exists()

    asyncio.run(run())


def test_a_login_tells_the_address_and_the_end(choir: Any, connected: Callable[..., Any]) -> None:
    async def run(url: str) -> None:
        async with connected('mcp_oauth_credentials_store="file"', f'mcp_servers.web.url="{url}"') as client:
            began = await client.call("mcpServer/oauth/login", name="web")
            browse(began["authorizationUrl"])
            ended = await client.notification("mcpServer/oauthLogin/completed")
            login_id = began["loginId"]
            assert ended == {"name": "web", "success": True, "error": None, "loginId": login_id, "threadId": None}
            assert "web" in (choir.path / ".credentials.json").read_text()
            authorization.redirect = {"error": "access_denied"}
            began = await client.call("mcpServer/oauth/login", name="web")
            browse(began["authorizationUrl"])
            ended = await client.notification("mcpServer/oauthLogin/completed")
            assert (ended["success"], "access_denied" in ended["error"]) == (False, True)
            error = await client.fail("mcpServer/oauth/login", name="none")
            assert error == {"code": -32600, "message": "No MCP server named 'none' found."}
            error = await client.fail("mcpServer/oauth/login", name="choir")
            fact = "OAuth login is only supported for streamable HTTP servers."
            assert error == {"code": -32600, "message": fact}
            waits = await client.call("mcpServer/oauth/login", name="web", timeoutSecs=0)
            ended = await client.notification("mcpServer/oauthLogin/completed")
            assert (ended["success"], ended["loginId"]) == (False, waits["loginId"])
            server.metadata = None
            server.names_metadata = False
            authorization.metadata = {"authorization_endpoint": None}
            error = await client.fail("mcpServer/oauth/login", name="web")
            assert error["message"].startswith("failed to login to MCP server 'web': ")

    with AuthorizationServer() as authorization, ProtectedServer(authorization) as server:
        asyncio.run(run(server.url))
