"""server-everything of npm, over streamable HTTP and over the older transport."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.peer import Peer
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.session import Session
from codex_plugin_mcp.transports.http import HttpTransport

FOLDER = Path(os.environ.get("CODEX_MCP_SERVERS") or "/nowhere")
EVERYTHING = FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not EVERYTHING.exists() or shutil.which("node") is None,
        reason="CODEX_MCP_SERVERS names no folder with @modelcontextprotocol/server-everything, or there is no node",
    ),
]


class Everything:
    """The server as a process."""

    def __init__(self, kind: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.kind = kind
        self.start()

    def start(self) -> None:
        env = {**os.environ, "PORT": str(self.port)}
        argv = ["node", str(EVERYTHING), self.kind]
        self.process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'mcp' if self.kind == 'streamableHttp' else 'sse'}"


@pytest.fixture(params=["streamableHttp", "sse"])
def everything(request: pytest.FixtureRequest) -> Iterator[Everything]:
    server = Everything(request.param)
    yield server
    server.kill()


class Client:
    def __init__(self, url: str) -> None:
        self.asked: list[Any] = []
        transport = HttpTransport(ServerConfig(name="e", url=url), environ={})
        self.peer = Peer(transport, {"elicitation/create": self.answer, "roots/list": self.roots})
        self.session = Session(self.peer, transport, {"elicitation": {"form": {}}, "roots": {}})

    async def answer(self, params: Any) -> Any:
        self.asked.append(params["message"])
        return {"action": "decline"}

    async def roots(self, params: Any) -> Any:
        return {"roots": [{"uri": "file:///", "name": "root"}]}

    async def __aenter__(self) -> Client:
        await self.peer.start()
        await self.session.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.peer.aclose()


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


def test_tools_progress_elicitation_and_resources(everything: Everything) -> None:
    steps: list[float] = []

    async def run() -> None:
        async with Client(everything.url) as client:
            tools, problem = await client.session.every("tools/list", "tools", timeout_s=20)
            assert not problem
            assert {"echo", "get-sum", "trigger-elicitation-request"} <= {tool["name"] for tool in tools}
            assert "42" in text(await client.session.call_tool("get-sum", {"a": 40, "b": 2}, timeout_s=20))
            arguments = {"duration": 0.4, "steps": 4}
            await client.session.call_tool(
                "trigger-long-running-operation",
                arguments,
                timeout_s=30,
                on_progress=lambda done, total, said: steps.append(done),
            )
            asked = await client.session.call_tool("trigger-elicitation-request", {}, timeout_s=30)
            assert "declined" in str(asked)
            assert len(client.asked) == 1
            resources, _ = await client.session.page("resources/list", "resources", timeout_s=20)
            read = await client.session.read_resource(resources[0]["uri"], timeout_s=20)
            assert read["contents"]

    asyncio.run(run())
    assert steps == [1, 2, 3, 4]


def test_a_server_that_is_killed_and_started_again(everything: Everything) -> None:
    async def run() -> None:
        async with Client(everything.url) as client:
            call = client.session.call_tool(
                "trigger-long-running-operation", {"duration": 30, "steps": 2}, timeout_s=60
            )
            task = asyncio.create_task(call)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(everything.kill)
            with pytest.raises(Exception, match=r"clos|lost|cannot be reached|failed"):
                await task
            await asyncio.to_thread(everything.start)
            if everything.kind == "sse":
                with pytest.raises(ConnectionFailed):
                    await client.session.call_tool("get-sum", {"a": 1, "b": 2}, timeout_s=20)
                return
            assert "3" in text(await client.session.call_tool("get-sum", {"a": 1, "b": 2}, timeout_s=20))

    asyncio.run(run())
