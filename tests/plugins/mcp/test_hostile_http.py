"""Servers over HTTP that mean harm: streams without an end, echoed secrets, compressed bombs, ways into the network."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codex_framework.toolkit.strict_json import DEEPEST
from codex_plugin_mcp.errors import ConnectionFailed, RequestTimedOut, ServerError
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.web import Web
from codex_plugin_mcp.peer import Peer
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.transports.http import HttpTransport
from codex_plugin_mcp.transports.http_client import is_internal
from codex_plugin_mcp.transports.transport import read_messages
from tests.plugins.mcp.http_server import HttpServer, McpServer, Reply, Request, event

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
TOKEN = "tok-0123456789abcdef"
SECRETS = {"env_http_headers": {"authorization": "TOKEN", "x-api-key": "KEY"}}
ENVIRON = {"TOKEN": f"Bearer {TOKEN}", "KEY": "key-0123456789"}


@contextlib.asynccontextmanager
async def connected(
    url: str, handlers: Any = None, *, faults: list[str] | None = None, **keys: Any
) -> AsyncIterator[Peer]:
    """A peer whose server was initialized."""
    server = ServerConfig(name="s", url=url, **keys)
    transport = HttpTransport(server, on_fault=(faults if faults is not None else []).append, environ=ENVIRON)
    peer = Peer(transport, handlers or {})
    try:
        await peer.start()
        result = await peer.request("initialize", INITIALIZE, timeout_s=20)
        transport.negotiated(result["protocolVersion"])
        await peer.notify("notifications/initialized")
        yield peer
    finally:
        await peer.aclose()


@pytest.mark.parametrize(
    "body",
    [
        f"the header Authorization: Bearer {TOKEN} is not valid",
        f"bad token {TOKEN}",
        json.dumps({"error": f"x-api-key key-0123456789 with {TOKEN}"}),
        "x" * 790 + TOKEN,
    ],
)
def test_a_refusal_that_repeats_a_secret_shows_it_to_nobody(body: str) -> None:
    async def run() -> ConnectionFailed:
        with pytest.raises(ConnectionFailed) as caught:
            async with connected(server.url, **SECRETS):
                raise AssertionError
        return caught.value

    with HttpServer(lambda _: Reply(403, body)) as server:
        error = asyncio.run(run())
    assert "tok-" not in str(error)
    assert "key-" not in str(error)
    assert "403" in str(error)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "piece", [": ping\n\n", event({"jsonrpc": "2.0", "method": "notifications/x"}), "data: garbage\n\n", "data: x\n"]
)
def test_a_stream_without_an_end_ends_its_call_in_time_and_no_other(piece: str) -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            if request.json["params"]["arguments"].get("endless"):
                pieces = itertools.repeat(piece.encode() * 100)
                return Reply(headers={"content-type": "text/event-stream"}, pieces=pieces)
            return super().call(request)

    async def run() -> Any:
        async with connected(server.url) as peer:
            params = {"name": "work", "arguments": {"endless": True}}
            with pytest.raises((RequestTimedOut, ServerError)):
                await peer.request("tools/call", params, timeout_s=1)
            return await peer.request("tools/call", {"name": "work", "arguments": {}}, timeout_s=20)

    with Server() as server:
        assert asyncio.run(run())["content"][0]["text"] == "done"


def test_a_compressed_answer_is_measured_when_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_plugin_mcp.transports.http.MAX_MESSAGE_BYTES", 1 << 20)

    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            return Reply(200, gzip.compress(b" " * (8 << 20) + b"{}"), {"content-encoding": "gzip"})

    async def run() -> None:
        async with connected(server.url) as peer:
            with pytest.raises(ServerError, match="larger than"):
                await peer.request("tools/call", {"name": "work", "arguments": {}}, timeout_s=20)

    with Server() as server:
        asyncio.run(run())


def test_an_answer_with_numbers_that_are_not_json_arrives() -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            number = request.json["id"]
            return Reply(200, f'{{"jsonrpc":"2.0","id":{number},"result":{{"a":NaN,"b":[1e999,-Infinity,1.5]}}}}')

    async def run() -> Any:
        async with connected(server.url) as peer:
            return await peer.request("tools/call", {"name": "work", "arguments": {}}, timeout_s=20)

    with Server() as server:
        assert asyncio.run(run()) == {"a": None, "b": [None, None, 1.5]}


def test_half_a_character_in_the_arguments_of_a_model_reaches_the_server() -> None:
    async def run() -> None:
        async with connected(server.url) as peer:
            await peer.request("tools/call", {"name": "work", "arguments": {"a": "x\ud800"}}, timeout_s=20)

    with McpServer() as server:
        asyncio.run(run())
        (sent,) = server.seen("POST", "tools/call")
        assert sent.json["params"]["arguments"] == {"a": "x\ud800"}


@pytest.mark.parametrize("nested", ["[1, {}]", '{{"a": "b", "c": {}}}'])
def test_what_is_nested_too_deeply_for_clients_becomes_null(nested: str) -> None:
    def text(depth: int, inside: str = "0") -> str:
        return text(depth - 1, nested.format(inside)) if depth else inside

    def read(depth: int) -> object:
        (message,), _ = read_messages(f'{{"params": {text(depth - 1)}, "method": "m"}}')
        return message["params"]

    assert read(DEEPEST) == json.loads(text(DEEPEST - 1))
    for depth in (DEEPEST + 1, DEEPEST + 300):
        assert read(depth) == json.loads(text(DEEPEST - 1, "null"))


INTERNAL = [
    *("10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]"),
    "localhost",
    "a.localhost",
    "LOCALHOST.",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0.0.0.0",
    "[::1]",
    "[::]",
]


@pytest.mark.parametrize("host", INTERNAL)
def test_addresses_of_the_machine_and_its_network_are_recognised(host: str) -> None:
    assert is_internal(host)


@pytest.mark.parametrize(
    "host", ["example.com", "8.8.8.8", "[2606:4700::1]", "10.example.com", "localhost.example.com"]
)
def test_other_hosts_are_not_taken_for_them(host: str) -> None:
    assert not is_internal(host)


@pytest.mark.parametrize("host", INTERNAL)
def test_a_server_elsewhere_cannot_name_an_address_of_this_network(host: str) -> None:
    async def run() -> None:
        async with Web("https://mcp.example/mcp") as web:
            with pytest.raises(LoginFailed):
                web.check(f"https://{host}/token", "the token endpoint")

    asyncio.run(run())


def test_a_server_of_this_network_may_name_another_one_of_it() -> None:
    async def run() -> None:
        async with Web("https://10.0.0.5/mcp") as web:
            assert web.check("https://10.0.0.6/token", "the token endpoint")

    asyncio.run(run())


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://x/", "javascript:alert(1)", "data:text/plain,x", "//x/"]
)
def test_metadata_cannot_name_another_kind_of_address(url: str) -> None:
    async def run() -> None:
        for server in ("https://mcp.example/mcp", "http://127.0.0.1:1/mcp"):
            async with Web(server) as web:
                with pytest.raises(LoginFailed, match="does not use https"):
                    web.check(url, "the metadata")

    asyncio.run(run())
