"""The revision 2026-07-28: a server of the official SDK, and servers on loopback that know nothing else, or not this one."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from codex_plugin_mcp.errors import McpError, ServerError
from codex_plugin_mcp.peer import Peer
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.session import Session
from codex_plugin_mcp.transports import http as http_module
from codex_plugin_mcp.transports import revisions as revisions_module
from codex_plugin_mcp.transports.http import HttpTransport
from codex_plugin_mcp.transports.revisions import NegotiatingTransport
from tests.plugins.mcp.http_server import HttpServer, McpServer, Reply, Request, event, events

META = "io.modelcontextprotocol/"


class Client:
    def __init__(self, url: str, *, modern_first: bool = False) -> None:
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.changed = 0
        inner = HttpTransport(ServerConfig(name="s", url=url), on_fault=self.faults.append, environ={})
        transport = NegotiatingTransport(inner, modern_first=modern_first, on_fault=self.faults.append)
        handlers = {"elicitation/create": self.answer, "notifications/tools/list_changed": self.note}
        self.peer = Peer(transport, handlers, on_fault=self.faults.append)
        self.session = Session(self.peer, transport, {"elicitation": {"form": {}}})

    async def answer(self, params: Any) -> Any:
        self.asked.append(params["message"])
        return {"action": "accept", "content": {"name": "Bo"}}

    async def note(self, params: Any) -> None:
        self.changed += 1

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.session.call_tool(tool, arguments, timeout_s=20)

    async def until(self, changed: int) -> None:
        async with asyncio.timeout(20):
            while self.changed < changed:
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def connected(url: str, *, modern_first: bool = False) -> AsyncIterator[Client]:
    client = Client(url, modern_first=modern_first)
    try:
        await client.peer.start()
        async with asyncio.timeout(20):
            await client.session.initialize()
        yield client
    finally:
        await client.peer.aclose()


# The official SDK


@pytest.fixture(scope="module")
def sdk() -> Iterator[str]:
    if importlib.util.find_spec("mcp") is None:
        pytest.skip("the package mcp is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, str(Path(__file__).with_name("modern_server.py")), "http", str(port)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    with contextlib.ExitStack() as stack:
        stack.callback(process.wait)
        stack.callback(process.kill)
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("modern_first", [True, False])
def test_a_server_of_the_sdk(sdk: str, modern_first: bool) -> None:
    async def run() -> None:
        async with connected(sdk, modern_first=modern_first) as client:
            session = client.session
            assert session.revision == ("2026-07-28" if modern_first else "2025-11-25")
            assert (session.server_info["name"], session.instructions) == ("modern", "be brief")
            tools, _ = await session.every("tools/list", "tools", timeout_s=20)
            assert {"add", "greet"} <= {tool["name"] for tool in tools}
            assert (await client.call("add", a=1, b=2))["structuredContent"] == {"result": 3}
            assert (await client.call("greet"))["structuredContent"] == {"result": "hello Bo"}
            assert client.asked == ["who are you?"]
            steps: list[float] = []
            await session.call_tool("slow", {}, timeout_s=20, on_progress=lambda done, total, said: steps.append(done))
            assert steps == [1, 2, 3]
            await session.ping(timeout_s=20)
            if modern_first:
                await client.call("learn")
                await client.until(changed=1)
            assert not client.faults

    asyncio.run(run())


# Servers that know only the new revision, or not


class Modern(HttpServer):
    """A server of 2026-07-28 alone."""

    refusal: ClassVar[Any] = {"code": -32022, "message": "unsupported", "data": {"supported": ["2026-07-28"]}}
    supported = ("2026-07-28",)
    capabilities: ClassVar[Any] = {"tools": {}}

    def answer(self, request: Request) -> Reply:
        if request.method != "POST":
            return Reply(405)
        number = request.json["id"]
        if request.rpc_method == "initialize":
            return Reply(400, {"jsonrpc": "2.0", "id": number, "error": self.refusal})
        if request.rpc_method == "server/discover":
            described = {"supportedVersions": list(self.supported), "capabilities": self.capabilities}
            return self.result(request, {**described, "_meta": {f"{META}serverInfo": {"name": "m", "version": "1"}}})
        return self.more(request)

    def result(self, request: Request, result: Any) -> Reply:
        return Reply(200, {"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    def more(self, request: Request) -> Reply:
        return self.result(request, {"content": []})


@pytest.mark.parametrize("refusal", [Modern.refusal, {"code": -32601, "message": "no such method"}])
def test_a_server_that_knows_only_the_new_revision(refusal: Any) -> None:
    async def run() -> None:
        async with connected(server.url) as client:
            assert client.session.revision == "2026-07-28"
            assert client.session.server_info == {"name": "m", "version": "1"}
            await client.session.set_log_level("warning", timeout_s=20)
            await client.call("work")

    class Refusing(Modern):
        pass

    Refusing.refusal = refusal
    with Refusing() as server:
        asyncio.run(run())
    methods = [r.rpc_method for r in server.requests]
    assert methods == ["initialize", "server/discover", "server/discover", "tools/call"]
    meta = server.requests[-1].json["params"]["_meta"]
    assert meta[f"{META}protocolVersion"] == "2026-07-28"
    assert meta[f"{META}clientInfo"]["name"] == "codex-mcp-client"
    assert meta[f"{META}clientCapabilities"] == {"elicitation": {"form": {}}}
    assert meta[f"{META}logLevel"] == "warning"
    assert server.requests[-1].headers["mcp-name"] == "work"


def test_a_server_that_knows_only_later_revisions_is_named() -> None:
    class Later(Modern):
        refusal: ClassVar[Any] = {"code": -32022, "message": "only 2099", "data": {"supported": ["2099-01-01"]}}

    async def run() -> None:
        async with connected(server.url):
            raise AssertionError

    with Later() as server:
        with pytest.raises(ServerError, match="only 2099"):
            asyncio.run(run())
        Later.refusal = {"code": -32601, "message": "no such method"}
        server.supported = ("2099-01-01",)
        with pytest.raises(ServerError, match="no such method"):
            asyncio.run(run())


def test_an_older_server_is_initialized_though_the_new_revision_comes_first() -> None:
    async def run() -> None:
        async with connected(server.url, modern_first=True) as client:
            assert client.session.revision == "2025-11-25"
            assert (await client.call("work"))["content"]

    with McpServer() as server:
        asyncio.run(run())
    assert [r.rpc_method for r in server.seen("POST")][:2] == ["server/discover", "initialize"]
    assert "_meta" not in server.seen("POST", "tools/call")[0].json["params"]


def test_questions_are_answered_and_the_state_is_returned() -> None:
    class Asking(Modern):
        def more(self, request: Request) -> Reply:
            params = request.json["params"]
            if "requestState" not in params:
                asked = {
                    key: {"method": "elicitation/create", "params": {"message": key, "requestedSchema": {}}}
                    for key in ("a", "b")
                }
                return self.result(
                    request, {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"}
                )
            if params["requestState"] == "s1":
                return self.result(request, {"resultType": "input_required", "requestState": "s2"})
            return self.result(request, {"content": []})

    async def run() -> None:
        async with connected(server.url) as client:
            assert await client.call("work", x=1) == {"content": []}
            assert sorted(client.asked) == ["a", "b"]

    with Asking() as server:
        asyncio.run(run())
    first, second, third = server.seen("POST", "tools/call")
    assert len({r.json["id"] for r in (first, second, third)}) == 3
    answer = {"action": "accept", "content": {"name": "Bo"}}
    assert second.json["params"]["inputResponses"] == {"a": answer, "b": answer}
    assert (second.json["params"]["requestState"], third.json["params"]["requestState"]) == ("s1", "s2")
    assert {r.json["params"]["arguments"]["x"] for r in (first, second, third)} == {1}


def test_a_server_that_asks_forever_is_stopped() -> None:
    class Forever(Modern):
        def more(self, request: Request) -> Reply:
            return self.result(request, {"resultType": "input_required", "requestState": "again"})

    async def run() -> None:
        async with connected(server.url) as client:
            with pytest.raises(ServerError, match="has asked more than 20 times"):
                await client.call("work")

    with Forever() as server:
        asyncio.run(run())
    assert len(server.seen("POST", "tools/call")) == 21


def test_a_request_that_asked_back_can_be_cancelled() -> None:
    closed = threading.Event()

    def waiting() -> Iterator[bytes]:
        try:
            while True:
                yield b": waiting\n\n"
                time.sleep(0.01)
        finally:
            closed.set()

    class Hanging(Modern):
        def more(self, request: Request) -> Reply:
            if "requestState" in request.json["params"]:
                return Reply(200, headers={"content-type": "text/event-stream"}, pieces=waiting())
            return self.result(request, {"resultType": "input_required", "requestState": "s"})

    async def run() -> None:
        async with connected(server.url) as client:
            task = asyncio.create_task(client.call("work"))
            async with asyncio.timeout(20):
                while len(server.seen("POST", "tools/call")) < 2:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            assert await asyncio.to_thread(closed.wait, 10)
            with contextlib.suppress(asyncio.CancelledError):
                await task

    with Hanging() as server:
        asyncio.run(run())
    assert not server.seen("POST", "notifications/cancelled")


def test_changes_of_lists_arrive_on_a_stream_that_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions_module, "_LISTEN_AGAIN_S", (0.01, 0.01))

    class Listening(Modern):
        capabilities: ClassVar[Any] = {"tools": {"listChanged": True}, "prompts": {}}

        def more(self, request: Request) -> Reply:
            acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}}
            changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            return events(event(acknowledged), event(changed))

    async def run() -> None:
        async with connected(server.url) as client:
            await client.until(changed=5)  # three on streams, and two because a stream was lost
            await asyncio.sleep(0.1)
            assert client.changed == 5

    with Listening() as server:
        asyncio.run(run())
    listened = server.seen("POST", "subscriptions/listen")
    assert len(listened) == 3
    assert listened[0].json["params"]["notifications"] == {"toolsListChanged": True}


def test_a_server_that_goes_away_while_it_is_asked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "_RETRIES_S", (0.01,))

    class Vanishing(Modern):
        def answer(self, request: Request) -> Reply:
            if request.rpc_method == "server/discover":
                return Reply(500, b"gone", {"content-type": "text/plain"})
            return super().answer(request)

    async def run() -> None:
        async with connected(server.url):
            raise AssertionError

    with Vanishing() as server, pytest.raises(McpError, match="500"):
        asyncio.run(run())
