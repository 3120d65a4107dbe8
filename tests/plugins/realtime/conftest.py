"""A real realtime server on loopback, in the event loop of the test, which does what the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from codex_framework import EventMsg
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.testing.threads import ScriptedThread
from codex_plugin_realtime import (
    RealtimeConversationClosedEvent,
    RealtimeConversationRealtimeEvent,
    RealtimeConversationStart,
    RealtimeConversationStartedEvent,
    WebrtcTransport,
)

KEY = "sk-canary-0123456789"


class RealtimeServer:
    """Accepts WebSockets and keeps what comes.

    Attributes:
        requests: The paths and headers of the requests for WebSockets.
        refusals: What the next of them are answered with.
        posted: The requests that were posted: path, headers and body.
        answers: What the next of them are answered with: status, headers and body.
    """

    def __init__(self) -> None:
        self.port = self.calls_port = 0
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.refusals: list[Response] = []
        self.posted: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.connections: list[ServerConnection] = []
        self.greets = True
        self.check_later: Callable[[ServerConnection, Request], Awaitable[None]] | None = None
        self._received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def connection(self) -> ServerConnection:
        return self.connections[-1]

    async def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.check_later is not None:
            await self.check_later(connection, request)
        return self.check(connection, request)

    def check(self, _: ServerConnection, request: Request) -> Response | None:
        self.requests.append((request.path, {name.lower(): value for name, value in request.headers.raw_items()}))
        return self.refusals.pop(0) if self.refusals else None

    async def handle(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        try:
            async for text in connection:
                message = json.loads(text)
                self._received.put_nowait(message)
                if message["type"] == "session.update" and self.greets:
                    await self.send({"type": "session.updated", "session": {"id": "sess_1"}})
        except ConnectionClosed:
            pass

    async def next(self, kind: str = "") -> dict[str, Any]:
        """Return the next message that was received, which must be of this type."""
        async with asyncio.timeout(60):
            message = await self._received.get()
        assert not kind or message["type"] == kind, message
        return message

    async def items(self, count: int) -> list[Any]:
        """Return the next messages in short: the texts of items, the outputs of calls, and the types of others."""
        return [short(await self.next()) for _ in range(count)]

    def nothing_more(self) -> bool:
        return self._received.empty()

    async def send(self, *messages: dict[str, Any] | str | bytes) -> None:
        for message in messages:
            with suppress(ConnectionClosed):  # which the client may do before it has the whole message
                await self.connection.send(json.dumps(message) if isinstance(message, dict) else message)

    async def leave(self) -> None:
        """End all connections, whether or not the client reads and writes."""
        for connection in self.connections:
            connection.transport.abort()
            await connection.wait_closed()

    async def post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request that was posted."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.posted.append((first.split()[1], headers, body))
        status, answer, content = self.answers.pop(0)
        answer = {"content-length": str(len(content)), **answer}
        writer.write(f"HTTP/1.1 {status} X\r\n".encode())
        writer.write("".join(f"{name}: {value}\r\n" for name, value in answer.items()).encode() + b"\r\n" + content)
        await writer.drain()
        writer.close()


def short(message: dict[str, Any]) -> Any:
    match message:
        case {
            "type": "conversation.item.create",
            "item": {"type": "message", "role": role, "content": [{"text": text}]},
        }:
            return f"{role}: {text}"
        case {
            "type": "conversation.item.create",
            "item": {"type": "function_call_output", "call_id": call, "output": out},
        }:
            return f"{call} = {out}"
        case {"type": "conversation.handoff.append", "handoff_id": handoff, "output_text": text}:
            return f"{handoff} = {text}"
        case {"type": kind}:
            return kind
    raise AssertionError(message)


@pytest.fixture
def server() -> Callable[[], AbstractAsyncContextManager[RealtimeServer]]:
    @asynccontextmanager
    async def running() -> AsyncIterator[RealtimeServer]:
        made = RealtimeServer()
        async with serve(made.handle, "127.0.0.1", 0, process_request=made.admit, max_size=None) as listening:
            made.port = next(iter(listening.sockets)).getsockname()[1]
            async with await asyncio.start_server(made.post, "127.0.0.1", 0) as posting:
                made.calls_port = posting.sockets[0].getsockname()[1]
                yield made

    return running


class Talk:
    """A thread with a conversation."""

    key = KEY
    """The key with which the thread asks the server."""

    def __init__(self, thread: ScriptedThread, server: RealtimeServer) -> None:
        self.thread = thread
        self.server = server
        self.seen_errors = 0

    async def submit(self, op: Any, **more: Any) -> str:
        return await self.thread.client.submit(op, **more)

    async def start(self, **fields: Any) -> dict[str, Any]:
        """Start a conversation. Return how its session is set up."""
        await self.submit(RealtimeConversationStart(**{"output_modality": "audio", **fields}), id="start")
        await self.thread.until(RealtimeConversationStartedEvent)
        session: dict[str, Any] = (await self.server.next("session.update"))["session"]
        await self.payload("SessionUpdated")
        return session

    async def offer(self, sdp: str = "v=offer", **fields: Any) -> None:
        """Start a conversation over WebRTC."""
        transport = WebrtcTransport(sdp)
        await self.submit(RealtimeConversationStart("audio", transport=transport, **fields), id="start")

    async def failed_start(self, **fields: Any) -> str:
        """Start a conversation that does not come about. Return the error."""
        await self.submit(RealtimeConversationStart(**{"output_modality": "audio", **fields}), id="start")
        error: str = await self.payload("Error")
        assert self.of(RealtimeConversationStartedEvent) == []
        return error

    async def error(self, op: Any) -> str:
        """Submit an op that is refused. Return the error."""
        await self.submit(op)
        return (await self.thread.until(ErrorEvent, within_s=10)).message

    async def submit_wrong_voice(self) -> None:
        await self.submit(RealtimeConversationStart("audio", voice="nobody"))
        assert "supported voices: alloy" in await self.payload("Error")

    async def payload(self, kind: str) -> Any:
        """Wait for the next payload of a kind."""
        while True:
            event = await self.thread.until(RealtimeConversationRealtimeEvent, within_s=10)
            if kind in event.payload:
                return event.payload[kind]

    async def closed(self) -> str | None:
        return (await self.thread.until(RealtimeConversationClosedEvent, within_s=10)).reason

    def of(self, kind: type[EventMsg]) -> list[Any]:
        return [event for event in self.thread.events if isinstance(event, kind)]

    async def hand_off(self, text: str, call_id: str = "call_1", *, version: str = "v2") -> None:
        if version == "v1":
            message = {"handoff_id": call_id, "item_id": f"item_{call_id}", "input_transcript": text}
            await self.server.send({"type": "conversation.handoff.requested", **message})
            return
        arguments = json.dumps({"prompt": text})
        item = {"type": "function_call", "name": "background_agent", "call_id": call_id, "arguments": arguments}
        await self.server.send({"type": "conversation.item.done", "item": {"id": f"item_{call_id}", **item}})


@pytest.fixture
def talk(make_thread: Any, server: Any) -> Callable[..., AbstractAsyncContextManager[Talk]]:
    """``async with talk(replies, config=...) as here``: a thread whose realtime server runs here."""

    @asynccontextmanager
    async def made(
        *replies: Any,
        config: Any = (),
        context: str | None = "",
        calls: str = "/v1",
        access: str = 'env_key="RT_KEY"',
        **more: Any,
    ) -> AsyncIterator[Talk]:
        async with server() as running:
            settings = [
                f'experimental_realtime_ws_base_url="{running.url}"',
                f'experimental_realtime_webrtc_call_base_url="http://127.0.0.1:{running.calls_port}{calls}"',
                f'model_providers.scripted={{name="Scripted", wire_api="scripted", {access}}}',
                *([] if context is None else [f'experimental_realtime_ws_startup_context="{context}"']),
                *config,
            ]
            env = {"RT_KEY": KEY, **more.pop("env", {})}
            async with make_thread(config=settings, env=env, replies=replies, **more) as thread:
                yield Talk(thread, running)
                await running.leave()

    return made


@pytest.fixture
def play() -> Callable[[Any], Any]:
    """Run a coroutine to its end, within 30 s."""

    def run(story: Any) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(30):
                return await story()

        return asyncio.run(limited())

    return run
