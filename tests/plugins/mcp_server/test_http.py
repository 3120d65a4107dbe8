"""The server over streamable HTTP: who may reach it, sessions, and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from codex_framework import CodexError
from codex_framework.testing import call, say

TOKEN = "a-token-of-enough-characters"


@pytest.fixture
def served(home: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Serve HTTP in this process: ``async with served(token=...) as url``."""

    @asynccontextmanager
    async def opened(host: str = "127.0.0.1", **options: Any) -> AsyncIterator[str]:
        from codex_plugin_mcp_server.http import PATH, listen, serve_http
        from codex_plugin_mcp_server.options import Address, Options
        from codex_plugin_mcp_server.server import make_server
        from codex_plugin_mcp_server.serving import serving

        monkeypatch.chdir(home.work)
        given = Options(address=Address(host, 0), **options)
        with listen(given.address) as listener:
            running = asyncio.ensure_future(
                serving(given, home.env, lambda service: serve_http(make_server(service), given, listener))
            )
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}"
            finally:
                running.cancel()
                await asyncio.wait({running})

    return opened


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def status(url: str, **headers: str) -> int:
    """Return the status of the answer to an initialize request."""
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(trust_env=False) as client:
        sent = [*accept.items(), *headers.items()]  # a header may be there twice
        return (await client.post(url, json=INITIALIZE, headers=sent)).status_code


def test_web_pages_and_foreign_names_are_refused(home, play, served, capfd) -> None:
    home.serve()

    async def story() -> None:
        async with served(hosts=("box.example",), origins=("https://ide.example/",)) as url:
            port = httpx.URL(url).port
            assert await status(url) == 200
            assert await status(url, host=f"localhost:{port}") == 200
            assert await status(url, host="evil.example") == 421
            assert await status(url, host=f"127.0.0.1.evil.example:{port}") == 421
            assert await status(url, host="box.example") == 200
            assert await status(url, origin=f"http://localhost:{port}") == 200
            assert await status(url, origin="https://ide.example") == 200
            assert await status(url, origin="https://evil.example") == 403
            assert await status(url, origin=f"http://localhost:{port + 1}") == 403
            assert await status(url, origin="null") == 403

    play(story())
    assert "every user of this machine can connect" in capfd.readouterr().err


def test_the_token_is_required_and_no_command_gets_it(home, play, served, capfd) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    home.serve(more="[shell_environment_policy]\nignore_default_excludes = true")
    home.env["OWN_TOKEN"] = TOKEN

    async def story() -> None:
        async with served(token=TOKEN, token_var="OWN_TOKEN", tools=("exec_command",)) as url:
            assert await status(url) == 401
            assert await status(url, authorization="Bearer wrong") == 401
            assert await status(url, authorization=f"Basic {TOKEN}") == 401
            assert await status(url, authorization=f"bearer  {TOKEN}") == 200
            assert await status(url, authorization=f"Bearer {TOKEN}", host="evil.example") == 421
            assert await status(url, Authorization=f"Bearer {TOKEN}", authorization="Bearer other") == 401
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(url)).status_code == 401
            http = httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"})
            async with http, Client(streamable_http_client(url, http_client=http)) as session:
                variables = await session.call_tool("exec_command", {"cmd": "env"})
                assert "PATH=" in variables.content[0].text
                assert "OWN_TOKEN" not in variables.content[0].text

    play(story())
    captured = capfd.readouterr()
    assert TOKEN not in captured.err + captured.out
    assert "warning" not in captured.err


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_whole_turn_and_a_tool_over_http(home, play, served, mode) -> None:
    from mcp import Client, types

    home.serve(call("exec_command", cmd="touch made"), say("done"), more='approval_policy = "untrusted"')
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "approved"})

    async def story() -> None:
        async with served(tools=("exec_command",), config={"sandbox_mode": "workspace-write"}) as url:
            async with Client(url, mode=mode, elicitation_callback=elicit) as client:
                turn, direct = await asyncio.gather(
                    client.call_tool("codex", {"prompt": "go", "sandbox": "workspace-write"}),
                    client.call_tool("exec_command", {"cmd": "touch too"}),
                )
            assert turn.structured_content["content"] == "done"
            assert direct.is_error is False

    play(story())
    assert len(asked) == 2
    assert (home.work / "made").exists()
    assert (home.work / "too").exists()


def test_a_client_that_leaves_ends_its_turn(home, play, served) -> None:
    """In the later revisions a client cancels a request by closing the connection."""
    home.serve(call("exec_command", cmd="sleep 60"))
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    arguments = {"prompt": "go", "sandbox": "workspace-write"}
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "codex", "arguments": arguments, "_meta": meta},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "codex",
    }

    async def story() -> None:
        async with served() as url:
            async with (
                httpx.AsyncClient(trust_env=False) as client,
                client.stream("POST", url, json=body, headers=headers) as answer,
            ):
                async for line in answer.aiter_lines():
                    if "exec_command_begin" in line:
                        break
            while "turn_aborted" not in "".join(path.read_text() for path in home.rollouts):
                await asyncio.sleep(0.02)

    play(story())


def test_a_port_in_use_is_a_clear_error(home) -> None:
    from codex_plugin_mcp_server.http import listen
    from codex_plugin_mcp_server.options import Address

    with listen(Address("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CodexError, match=f"cannot listen on 127.0.0.1:{port}: "):
            listen(Address("127.0.0.1", port))
    with pytest.raises(CodexError, match=r"cannot listen on no\.such\.host\.invalid:1: "):
        listen(Address("no.such.host.invalid", 1))


def test_sessions_do_not_share_what_was_allowed(home, play, served, tmp_path) -> None:
    plugin = tmp_path / "own.py"
    plugin.write_text(
        "from codex_framework import hookimpl, tool\n\n"
        "@tool(needs_approval=True)\ndef guarded() -> str:\n    'Guarded.'\n    return 'done'\n\n"
        "@hookimpl\ndef codex_tools():\n    return [guarded]\n"
    )
    home.serve(more='approval_policy = "on-request"')
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> Any:
        from mcp import types

        asked.append(params.message)
        choices = params.requested_schema["properties"]["decision"]["enum"]
        wanted = "approved_for_session" if "approved_for_session" in choices else "approved"
        return types.ElicitResult(action="accept", content={"decision": wanted})

    async def story() -> list[int]:
        from mcp import Client

        counts = []
        async with served(tools=("guarded",), plugin_files=(plugin,)) as url:
            for _ in range(2):
                async with Client(url, mode="legacy", elicitation_callback=elicit) as client:
                    for _ in range(2):
                        assert (await client.call_tool("guarded", {})).is_error is False
                    counts.append(len(asked))
        return counts

    first, second = play(story())
    assert second == 2 * first, json.dumps(asked)
