"""A loopback HTTP server that tests program, and an MCP server over streamable HTTP on top of it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs


@attrs.frozen
class Request:
    """One request that the server received."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}

    @property
    def rpc_method(self) -> str:
        try:
            return str(self.json.get("method", ""))
        except (ValueError, AttributeError):
            return ""


class Reply(Exception):
    """What the server answers: a whole body, or pieces with pauses."""

    def __init__(
        self, status: int = 200, body: Any = b"", headers: Mapping[str, str] | None = None, pieces: Any = None
    ) -> None:
        self.status = status
        self.headers = {"content-type": "application/json", **(headers or {})}
        self.body = (
            body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        self.pieces: Iterator[bytes] | None = pieces


def events(*pieces: str | float, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A stream of events: texts are sent, numbers are pauses in seconds."""

    def sent() -> Iterator[bytes]:
        for piece in pieces:
            if isinstance(piece, str):
                yield piece.encode()
            else:
                time.sleep(piece)

    return Reply(status, headers={"content-type": "text/event-stream", **(headers or {})}, pieces=sent())


def event(message: Any, **fields: Any) -> str:
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{head}data: {json.dumps(message) if not isinstance(message, str) else message}\n\n"


class HttpServer:
    """Answers what ``answer`` says. Use it as a context manager."""

    def __init__(self, answer: Callable[[Request], Reply] | None = None) -> None:
        self.requests: list[Request] = []
        if answer is not None:
            self.answer = answer  # type: ignore[method-assign]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def respond(self) -> None:
                outer._respond(self)

            do_GET = do_POST = do_DELETE = respond

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> Reply:
        return Reply(404)

    def seen(self, method: str, rpc_method: str | None = None) -> list[Request]:
        """The requests with a method of HTTP, and one of JSON-RPC."""
        return [r for r in self.requests if r.method == method and rpc_method in (None, r.rpc_method)]

    def _respond(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, parts.path, query, headers, body)
        self.requests.append(request)
        try:
            reply = self.answer(request)
        except Reply as raised:
            reply = raised
        with contextlib.suppress(OSError):
            self._write(handler, reply)

    def _write(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if reply.pieces is None:
            handler.send_header("content-length", str(len(reply.body)))
            handler.end_headers()
            handler.wfile.write(reply.body)
            return
        handler.send_header("connection", "close")
        handler.close_connection = True
        handler.end_headers()
        for piece in reply.pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()


class McpServer(HttpServer):
    """A server with sessions and one tool. Override ``call`` to answer calls of the tool, ``allow`` to refuse requests.

    Attributes:
        sessions: The ids of the open sessions.
        version: The protocol revision that it answers.
        stream: Whether it answers with streams of events.
    """

    def __init__(self, *, stream: bool = False, version: str = "2025-11-25") -> None:
        super().__init__()
        self.sessions: set[str] = set()
        self.opened = 0
        self.stream = stream
        self.version = version

    def allow(self, request: Request) -> None:
        """Raise a reply to refuse a request."""

    def call(self, request: Request) -> Reply:
        return self.result(request, {"content": [{"type": "text", "text": "done"}]})

    def listen(self, request: Request) -> Reply:
        return Reply(405)

    def result(self, request: Request, result: Any, headers: Mapping[str, str] | None = None) -> Reply:
        message = {"jsonrpc": "2.0", "id": request.json["id"], "result": result}
        return events(event(message), headers=headers) if self.stream else Reply(200, message, headers)

    def answer(self, request: Request) -> Reply:
        self.allow(request)
        if request.path != "/mcp":
            return Reply(404)
        if request.method == "DELETE":
            self.sessions.discard(request.headers.get("mcp-session-id", ""))
            return Reply(204)
        if request.rpc_method == "initialize":
            return self._initialize(request)
        if request.headers.get("mcp-session-id") not in self.sessions:
            return Reply(404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "no session"}})
        if request.method == "GET":
            return self.listen(request)
        if "id" not in request.json or "method" not in request.json:
            return Reply(202)
        return self._answer(request)

    def _initialize(self, request: Request) -> Reply:
        self.opened += 1
        session = f"session-{self.opened}"
        self.sessions.add(session)
        info = {"name": "loopback", "version": "1"}
        result = {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": info}
        return self.result(request, result, {"mcp-session-id": session})

    def _answer(self, request: Request) -> Reply:
        if request.rpc_method == "tools/list":
            return self.result(request, {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
        if request.rpc_method == "tools/call":
            return self.call(request)
        if request.rpc_method == "ping":
            return self.result(request, {})
        error = {"code": -32601, "message": "no such method"}
        return Reply(200, {"jsonrpc": "2.0", "id": request.json["id"], "error": error})
