"""Streamable HTTP against servers on loopback: sessions, streams, resumption, refusals and the fallback to the older transport."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codex_plugin_mcp.errors import ConnectionFailed, ServerError
from codex_plugin_mcp.peer import Peer
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.transports import http as http_module
from codex_plugin_mcp.transports.http import HttpTransport
from tests.plugins.mcp.http_server import HttpServer, McpServer, Reply, Request, event, events

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@contextlib.asynccontextmanager
async def connected(
    url: str, handlers: Any = None, *, faults: list[str] | None = None, environ: Any = None, **keys: Any
) -> AsyncIterator[Peer]:
    """A peer whose server was initialized."""
    transport = HttpTransport(
        ServerConfig(name="s", url=url, **keys),
        on_fault=(faults if faults is not None else []).append,
        environ=environ or {},
    )
    peer = Peer(transport, handlers or {})
    try:
        await peer.start()
        result = await peer.request("initialize", INITIALIZE, timeout_s=20)
        transport.negotiated(result["protocolVersion"])
        await peer.notify("notifications/initialized")
        yield peer
    finally:
        await peer.aclose()


async def failure(url: str, **keys: Any) -> ConnectionFailed:
    with pytest.raises(ConnectionFailed) as caught:
        async with connected(url, **keys):
            raise AssertionError
    return caught.value


def call(peer: Peer, **arguments: Any) -> Any:
    return peer.request("tools/call", {"name": "work", "arguments": arguments}, timeout_s=20)


async def until(true: Any) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("stream", [False, True])
def test_a_session_is_opened_used_and_ended(stream: bool) -> None:
    async def run() -> None:
        async with connected(server.url) as peer:
            assert (await call(peer))["content"][0]["text"] == "done"

    with McpServer(stream=stream) as server:
        asyncio.run(run())
    assert not server.sessions
    assert [(r.method, r.rpc_method) for r in server.requests if r.method != "GET"] == [
        ("POST", "initialize"),
        ("POST", "notifications/initialized"),
        ("POST", "tools/call"),
        ("DELETE", ""),
    ]
    first, *others = server.requests
    assert first.headers["accept"] == "application/json, text/event-stream"
    assert "mcp-protocol-version" not in first.headers
    assert "mcp-session-id" not in first.headers
    for request in others:
        assert request.headers["mcp-session-id"] == "session-1"
        assert request.headers["mcp-protocol-version"] == "2025-11-25"


def test_requests_overlap() -> None:
    both = threading.Barrier(2)

    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            both.wait(20)  # nobody answers until both requests are there
            return self.result(request, {"n": request.json["params"]["arguments"]["n"]})

    async def run() -> Any:
        async with connected(server.url) as peer:
            return await asyncio.gather(call(peer, n=1), call(peer, n=2))

    with Server() as server:
        assert asyncio.run(run()) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("status", [400, 404])
def test_a_forgotten_session_is_opened_anew_without_the_callers_help(status: int) -> None:
    class Forgetful(McpServer):
        def answer(self, request: Request) -> Reply:
            reply = super().answer(request)
            if reply.status == 404:
                reply.status = status
            return reply

    changed: list[Any] = []

    async def note(params: Any) -> None:
        changed.append(params)

    async def run() -> None:
        async with connected(server.url, {"notifications/tools/list_changed": note}) as peer:
            server.sessions.clear()
            answers = await asyncio.gather(call(peer), call(peer))
            assert [each["content"][0]["text"] for each in answers] == ["done", "done"]
            await until(lambda: changed)

    with Forgetful() as server:
        asyncio.run(run())
    assert server.opened == 2
    renewed = server.seen("POST", "initialize")[1]
    assert "mcp-session-id" not in renewed.headers
    assert renewed.json["params"] == INITIALIZE
    assert [r.headers["mcp-session-id"] for r in server.seen("POST", "notifications/initialized")] == [
        "session-1",
        "session-2",
    ]


def test_a_broken_stream_is_resumed_after_the_time_that_the_server_names() -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            self.number = request.json["id"]
            return events("id: a-1\nretry: 60\ndata: \n\n")

        def listen(self, request: Request) -> Reply:
            if request.headers.get("last-event-id") == "a-1":
                return events(event({"jsonrpc": "2.0", "id": self.number, "result": {"resumed": True}}, id="a-2"))
            return Reply(405)

    async def run() -> Any:
        async with connected(server.url) as peer:
            return await call(peer)

    with Server() as server:
        assert asyncio.run(run()) == {"resumed": True}


def test_a_stream_without_ids_that_ends_early_fails_its_request_only() -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            if request.json["params"]["arguments"]:
                return events(": nothing\n\n")
            return super().call(request)

    async def run() -> None:
        async with connected(server.url) as peer:
            with pytest.raises(ServerError, match="closed the connection before it answered"):
                await call(peer, cut=True)
            assert (await call(peer))["content"]

    with Server() as server:
        asyncio.run(run())


def test_the_servers_own_stream_brings_requests_and_is_reopened_after_its_last_event() -> None:
    class Server(McpServer):
        def listen(self, request: Request) -> Reply:
            last = request.headers.get("last-event-id")
            if last is None:
                return events(event({"jsonrpc": "2.0", "id": 7, "method": "ping"}, id="1", retry=50))
            return events(event({"jsonrpc": "2.0", "id": 8, "method": "ping"}, id="2"), 5.0)

    async def run() -> None:
        async with connected(server.url):
            await until(lambda: len([r for r in server.seen("POST") if "result" in r.json]) == 2)

    with Server() as server:
        asyncio.run(run())
    assert [r.headers.get("last-event-id") for r in server.seen("GET")][:2] == [None, "1"]
    assert [r.json for r in server.seen("POST") if "result" in r.json] == [
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        {"jsonrpc": "2.0", "id": 8, "result": {}},
    ]


def test_the_servers_own_stream_is_opened_again_when_the_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "_RECONNECT_S", 0.001)
    down = [True]

    class Server(McpServer):
        def listen(self, request: Request) -> Reply:
            if down[0]:
                return Reply(503)
            return events(event({"jsonrpc": "2.0", "id": 7, "method": "ping"}, id="1"), 5.0)

    async def run() -> None:
        async with connected(server.url) as peer:
            await until(lambda: len(server.seen("GET")) == 4)
            await asyncio.sleep(0.1)
            down[0] = False
            await call(peer)
            await until(lambda: [r for r in server.seen("POST") if "result" in r.json])

    with Server() as server:
        asyncio.run(run())


def test_a_notification_that_a_server_does_not_want_does_not_end_the_connection() -> None:
    class Server(McpServer):
        def allow(self, request: Request) -> None:
            if request.rpc_method == "notifications/initialized":
                raise Reply(400, b"no", {"content-type": "text/plain"})

    async def run() -> None:
        async with connected(server.url, faults=faults) as peer:
            assert (await call(peer))["content"]

    faults: list[str] = []
    with Server() as server:
        asyncio.run(run())
    assert faults == ["it refused notifications/initialized: the server answered 400 Bad Request: no"]


def test_a_session_whose_id_is_no_header_is_none() -> None:
    class Server(McpServer):
        def answer(self, request: Request) -> Reply:
            reply = super().answer(request)
            if request.rpc_method == "initialize":
                reply.headers["mcp-session-id"] = "sécret"
            return Reply(202) if reply.status == 404 else reply

    async def run() -> None:
        async with connected(server.url, faults=faults):
            pass

    faults: list[str] = []
    with Server() as server:
        asyncio.run(run())
    assert "is not a header" in faults[0]
    assert not [request for request in server.requests if "mcp-session-id" in request.headers]


def test_a_cancelled_request_is_told_to_the_server_and_its_stream_closed() -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            return events(": waiting\n\n", 30.0)

    async def run() -> None:
        async with connected(server.url) as peer:
            task = asyncio.create_task(call(peer))
            await until(lambda: server.seen("POST", "tools/call"))
            await asyncio.sleep(0.05)
            task.cancel()
            await until(lambda: server.seen("POST", "notifications/cancelled"))

    with Server() as server:
        asyncio.run(run())
    (cancelled,) = server.seen("POST", "notifications/cancelled")
    (called,) = server.seen("POST", "tools/call")
    assert cancelled.json["params"]["requestId"] == called.json["id"]


def test_initialize_is_retried_while_the_server_is_busy_and_not_more_than_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_module, "_RETRIES_S", (0.01, 0.02))
    left = [2]

    class Server(McpServer):
        def allow(self, request: Request) -> None:
            if request.rpc_method == "initialize" and left[0]:
                left[0] -= 1
                raise Reply(503, b"starting", {"content-type": "text/plain"})

    async def run() -> None:
        async with connected(server.url):
            pass

    with Server() as server:
        asyncio.run(run())
        assert len(server.seen("POST", "initialize")) == 3
        left[0] = 9
        error = asyncio.run(failure(server.url))
        assert str(error) == "the server answered 503 Service Unavailable: starting"
        assert len(server.seen("POST", "initialize")) == 6


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again_and_not_by_the_older_transport(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(http_module, "_RETRIES_S", (0.01, 0.02))

    class Server(McpServer):
        def allow(self, request: Request) -> None:
            raise Reply(status)

    with Server() as server:
        assert f"the server answered {status}" in str(asyncio.run(failure(server.url)))
        assert len(server.seen("POST", "initialize")) == 3
        assert not server.seen("GET")


def test_the_waits_before_a_retry_are_codexs() -> None:
    assert http_module._RETRIES_S == (0.25, 1.0)


def test_configured_headers_are_sent_and_secrets_come_from_the_environment() -> None:
    environ = {"TOKEN": "secret-token", "TEAM": "red"}

    async def run() -> None:
        async with connected(
            server.url,
            environ=environ,
            bearer_token_env_var="TOKEN",
            http_headers={"X-Plain": "1", "Accept": "text/html"},
            env_http_headers={"X-Team": "TEAM", "X-Absent": "ABSENT"},
        ):
            pass

    with McpServer() as server:
        asyncio.run(run())
    for request in server.requests:
        assert request.headers["authorization"] == "Bearer secret-token"
        assert (request.headers["x-plain"], request.headers["x-team"]) == ("1", "red")
        assert "x-absent" not in request.headers
        assert "text/html" not in request.headers["accept"]


@pytest.mark.parametrize(
    ("keys", "environ", "said"),
    [
        ({"bearer_token_env_var": "T"}, {}, "Environment variable T for MCP server 's' is not set"),
        ({"bearer_token_env_var": "T"}, {"T": " "}, "Environment variable T for MCP server 's' is empty"),
        (
            {"bearer_token_env_var": "T"},
            {"T": "sec\nret"},
            "the value of the HTTP header 'authorization' has characters",
        ),
        ({"http_headers": {"a b": "secret"}}, {}, "'a b' is not a valid name of an HTTP header"),
        ({"http_headers": {"a": "sécret"}}, {}, "the value of the HTTP header 'a' has characters"),
    ],
)
def test_a_wrong_header_is_refused_without_its_value(keys: Any, environ: Any, said: str) -> None:
    error = asyncio.run(failure("http://127.0.0.1:9/mcp", environ=environ, **keys))
    assert str(error).startswith(said)
    assert "ret" not in str(error).replace("characters", "") or "secret" not in str(error)
    assert error.hint


def test_a_redirect_within_the_server_is_followed() -> None:
    class Server(McpServer):
        def allow(self, request: Request) -> None:
            if request.path == "/old":
                raise Reply(307, headers={"location": "/mcp"})

    async def run() -> None:
        async with connected(f"{server.base}/old") as peer:
            assert (await call(peer))["content"]

    with Server() as server:
        asyncio.run(run())


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_drop_the_message_is_refused(status: int) -> None:
    def away(request: Request) -> Reply:
        return Reply(status, headers={"location": "/elsewhere"})

    with HttpServer(away) as server:
        assert "which is not followed" in str(asyncio.run(failure(server.url)))
        assert [request.path for request in server.requests] == ["/mcp"]


def test_redirects_in_a_circle_are_refused() -> None:
    with HttpServer(lambda _: Reply(307, headers={"location": "/mcp"})) as server:
        assert "redirects in a circle" in str(asyncio.run(failure(server.url)))
        assert len(server.requests) == 6


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_refused_and_no_secret_reaches_it(status: int) -> None:
    with McpServer() as other:

        def away(request: Request) -> Reply:
            return Reply(status, headers={"location": f"http://localhost:{other.port}/mcp?token=hidden"})

        with HttpServer(away) as server:
            error = asyncio.run(failure(server.url, environ={"T": "secret"}, bearer_token_env_var="T"))
        assert not other.requests
    assert "redirects to" in str(error)
    assert "hidden" not in str(error)
    assert error.kind == "refused"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            Reply(200, b"<html>", {"content-type": "text/html"}),
            "answered with text/html (status 200), which is not MCP",
        ),
        (Reply(202), "the server answered with nothing"),
        (Reply(200, b"{"), "is not a message of JSON-RPC"),
        (Reply(200, b"[" * 5000), "is not a message of JSON-RPC"),
        (Reply(200, b'{"jsonrpc":"2.0","id":99,"result":{}}'), "is for another request"),
    ],
)
def test_a_wrong_answer_fails_the_request_and_the_next_one_works(reply: Reply, said: str) -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            if not request.json["params"]["arguments"]:
                return super().call(request)
            if reply.status == 202:
                reply.headers["content-type"] = ""
            return reply

    async def run() -> None:
        async with connected(server.url) as peer:
            with pytest.raises(ServerError) as caught:
                await call(peer, wrong=True)
            assert said in str(caught.value)
            assert (await call(peer))["content"]

    with Server() as server:
        asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_over_the_limit_is_refused(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MAX_MESSAGE_BYTES", 10_000)

    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            size = 9_000 if not request.json["params"]["arguments"] else 20_000
            return self.result(request, {"content": "x" * size})

    async def run() -> None:
        async with connected(server.url) as peer:
            with pytest.raises(ServerError, match="larger than 10000 bytes"):
                await call(peer, huge=True)
            assert (await call(peer))["content"]

    with Server(stream=stream) as server:
        asyncio.run(run())


def test_an_error_of_json_rpc_with_an_http_status_answers_the_request() -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            return Reply(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "wrong params"}})

    async def run() -> None:
        async with connected(server.url) as peer:
            with pytest.raises(ServerError, match="wrong params") as caught:
                await call(peer)
            assert caught.value.code == -32602

    with Server() as server:
        asyncio.run(run())


def test_garbage_in_a_stream_is_skipped_and_reported() -> None:
    class Server(McpServer):
        def call(self, request: Request) -> Reply:
            answer = {"jsonrpc": "2.0", "id": request.json["id"], "result": {}}
            return events("event: noise\ndata: x\n\n", "data: not json\n\n", event(answer))

    async def run() -> None:
        async with connected(server.url, faults=faults) as peer:
            assert await call(peer) == {}

    faults: list[str] = []
    with Server() as server:
        asyncio.run(run())
    assert faults == ["it sent an event that is not a message of JSON-RPC, which is skipped"]


def test_a_server_that_cannot_be_reached_is_named_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "_RETRIES_S", ())
    with HttpServer() as gone:
        port = gone.port
    error = asyncio.run(failure(f"http://user:password@127.0.0.1:{port}/mcp?key=hidden"))
    assert str(error).startswith(f"http://127.0.0.1:{port}/mcp cannot be reached")
    assert error.kind == "missing"


def test_a_login_that_is_missing_is_named_with_what_to_do() -> None:
    class Server(McpServer):
        def allow(self, request: Request) -> None:
            raise Reply(401, headers={"www-authenticate": "Bearer"})

    with Server() as server:
        error = asyncio.run(failure(server.url))
        assert len(server.requests) == 1
    assert str(error) == "The s MCP server is not logged in. Run `codex-framework mcp login s`."
    assert error.kind == "not_logged_in"


def test_modern_messages_repeat_method_name_and_parameters_in_headers() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "wrong": {"type": "number", "x-mcp-header": "Wrong"},
        },
    }

    def answer(request: Request) -> Reply:
        result = {"tools": [{"name": "wörk", "inputSchema": schema}]} if request.rpc_method == "tools/list" else {}
        return Reply(200, {"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    async def run() -> None:
        transport = HttpTransport(ServerConfig(name="s", url=server.url))
        peer = Peer(transport, {})
        await peer.start()
        try:
            await peer.request("server/discover", {"_meta": meta}, timeout_s=20)
            transport.negotiated("2026-07-28")
            await peer.request("tools/list", {"_meta": meta}, timeout_s=20)
            arguments = {"region": " é", "deep": {"n": 3}, "wrong": 1}
            await peer.request("tools/call", {"name": "wörk", "arguments": arguments, "_meta": meta}, timeout_s=20)
        finally:
            await peer.aclose()

    with HttpServer(answer) as server:
        asyncio.run(run())
    assert [r.headers["mcp-method"] for r in server.requests] == ["server/discover", "tools/list", "tools/call"]
    assert {r.headers["mcp-protocol-version"] for r in server.requests} == {"2026-07-28"}
    headers = server.requests[-1].headers
    assert headers["mcp-name"] == "=?base64?d8O2cms=?="
    assert headers["mcp-param-region"] == "=?base64?IMOp?="
    assert headers["mcp-param-n"] == "3"
    assert "mcp-param-wrong" not in headers


def test_cancelling_a_modern_request_closes_its_stream_and_sends_nothing() -> None:
    closed = threading.Event()

    def answer(request: Request) -> Reply:
        if request.rpc_method == "server/discover":
            return Reply(200, {"jsonrpc": "2.0", "id": request.json["id"], "result": {}})

        def sent() -> Any:
            try:
                while True:
                    yield b": waiting\n\n"
                    threading.Event().wait(0.01)
            finally:
                closed.set()

        return Reply(200, headers={"content-type": "text/event-stream"}, pieces=sent())

    async def run() -> None:
        transport = HttpTransport(ServerConfig(name="s", url=server.url))
        peer = Peer(transport, {})
        await peer.start()
        try:
            await peer.request("server/discover", {}, timeout_s=20)
            transport.negotiated("2026-07-28")
            task = asyncio.create_task(peer.request("tools/call", {}))
            await until(lambda: server.seen("POST", "tools/call"))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.to_thread(closed.wait, 20)
        finally:
            await peer.aclose()

    with HttpServer(answer) as server:
        asyncio.run(run())
    assert closed.is_set()
    assert not server.seen("POST", "notifications/cancelled")


class OldServer(HttpServer):
    """A server of 2024-11-05: a stream, and an endpoint for messages that it names."""

    endpoint = "/messages?session=1"

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.more = threading.Condition()
        self.end = False

    def answer(self, request: Request) -> Reply:
        if request.method == "GET":
            return Reply(200, headers={"content-type": "text/event-stream"}, pieces=self.stream())
        if request.path != "/messages":
            return Reply(405)
        with self.more:
            if "id" in request.json:
                result = {"protocolVersion": "2024-11-05", "echo": request.rpc_method}
                self.answers.append({"jsonrpc": "2.0", "id": request.json["id"], "result": result})
            self.more.notify_all()
        return Reply(202, b"Accepted")

    def stream(self) -> Any:
        yield f"event: endpoint\ndata: {self.endpoint}\n\n".encode()
        sent = 0
        while not self.end:
            with self.more:
                self.more.wait_for(lambda known=sent: len(self.answers) > known or self.end, 60)
                new, sent = self.answers[sent:], len(self.answers)
            for answer in new:
                yield event(answer, event="message").encode()


def test_a_server_of_2024_11_05_is_used_over_its_stream() -> None:
    async def run() -> None:
        async with connected(server.url, environ={"T": "secret"}, bearer_token_env_var="T") as peer:
            assert (await call(peer))["echo"] == "tools/call"
            with server.more:
                server.end = True
                server.more.notify_all()
            await peer.ended.wait()
            with pytest.raises(ConnectionFailed, match="the server closed the connection"):
                await call(peer)

    with OldServer() as server:
        asyncio.run(run())
    assert {r.headers["authorization"] for r in server.requests} == {"Bearer secret"}
    assert [r.query for r in server.requests if r.path == "/messages"] == [{"session": "1"}] * 3


def test_an_endpoint_on_another_server_is_refused() -> None:
    with McpServer() as other:

        class Server(OldServer):
            endpoint = f"http://127.0.0.1:{other.port}/mcp"

        with Server() as server:
            error = asyncio.run(failure(server.url, environ={"T": "secret"}, bearer_token_env_var="T"))
            server.end = True
            with server.more:
                server.more.notify_all()
        assert not other.requests
    assert "405" in str(error)


def test_a_refusal_that_is_no_mcp_at_all_stays_the_first_one() -> None:
    with HttpServer(lambda _: Reply(404, b"<html>no</html>", {"content-type": "text/html"})) as server:
        error = asyncio.run(failure(server.url))
        assert [r.method for r in server.requests] == ["POST", "GET"]
    assert str(error) == "the server answered 404 Not Found"
    assert error.kind == "missing"


def test_closing_does_not_wait_for_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "_END_S", 0.1)
    release = threading.Event()

    class Server(McpServer):
        def answer(self, request: Request) -> Reply:
            if request.method == "DELETE":
                release.wait(20)
            return super().answer(request)

    async def run() -> None:
        async with asyncio.timeout(60):
            async with connected(server.url):
                pass

    with Server() as server:
        asyncio.run(run())
        release.set()


def test_a_secret_in_the_body_of_a_refusal_is_cut_and_pages_are_left_out() -> None:
    body = json.dumps({"error": "x" * 500}).encode()
    with HttpServer(lambda _: Reply(403, body)) as server:
        error = asyncio.run(failure(server.url))
    assert len(str(error)) < 300
