"""Conversations over a network that delays, cuts, garbles and resets: nothing is lost, nothing comes twice, nothing hangs.

A server has items to say, some of them calls. It sees from each request what has arrived, and sends the rest, the first times over a
wire with faults. The same schedules run over three APIs, with and without TLS, and over WebSockets: those that requests wait for, and
those that are only used when they are open.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket as sockets
import ssl
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

import codex_plugin_chat
import codex_plugin_openai
from codex_framework import Kernel, tool
from codex_framework.config import load_config
from codex_framework.contract.protocol.items import FunctionCall, FunctionCallOutput, Message, message_text
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing import Offer
from codex_plugin_openai.client import ResponsesClient
from codex_plugin_openai.provider import ResponsesProvider

from .wire_apis import APIS, ERROR, Responses, item_of, name_of
from .wire_frames import CLOSE_CODES, DAMAGES, FRAMINGS, UPGRADES, closed, damaged, framed, refusal

PER_TRANSPORT = {20: 30, 200: 250}.get(settings().max_examples, 2_500)
"""Schedules for each API and transport: 2,500 with ``--depth deep``, so 5,000 for each API."""

IDLE_MS = 120
CLEAR = re.compile(
    "stream disconnected before completion: (Transport error: |stream closed before |idle timeout |the model server sent |It broke)"
    "|Connection failed: error sending request for url .*: .+|unexpected status \\d{3} |exceeded retry limit"
    "|We.re currently experiencing high demand|the model server failed: |rate limit exceeded: "
    "|the server of the model provider .* answered with "
)

NOISE = [
    b": a comment\n\n",
    b'event: ping\ndata: {"type":"ping"}\n\n',
    b'data: {"type":"response.in_progress","response":{}}\n\n',
    b"data: keep-alive\n\n",
    b"\r\n\r\n",
    b'data: {"type":"response.output_text.delta","delta":7}\n\n',
    b'data: {"choices":[]}\n\n',
]
GARBAGE = [
    b'data: {"type":"response.output_item.done","item":{\n\n',
    b'\xff\xfe{"\0\n\n',
    b'data: {"type":"response.output_item.done"}\n\n',
    b'data: {"type":"response.output_item.done","item":{}}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":7}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":"x"}]}}]}\n\n',
    b'data: {"type":"content_block_delta","index":0,"delta":7}\n\n',
    b'data: {"type":"content_block_start","index":"x","content_block":{}}\n\n',
]


@attrs.frozen
class Schedule:
    """What the wire does to one response.

    Attributes:
        framing: How the end of the body is told.
        cuts: Where the bytes are cut into pieces, as parts of the whole.
        pause_ms: The time between two pieces.
        noise: What is sent between events that means nothing.
        fault: What goes wrong, at which part of the whole.
        frames, damage, code: How messages of a WebSocket are sent, which damaged frame is between them, and the code of a close.
    """

    framing: str
    cuts: tuple[float, ...]
    pause_ms: int
    noise: tuple[tuple[float, bytes], ...]
    fault: str
    place: float
    garbage: bytes
    frames: str = "whole"
    damage: str = ""
    code: int | None = None


CLEAN = Schedule("chunked", (), 0, (), "none", 0.0, b"")
LATE_END = Schedule("chunked", (0.875,), 20, (), "twice", 0.99, b"")
"""The end of a response comes a second time when the next request is already sent, as it can be over a WebSocket."""
FAULTS = [
    *("none", "fin", "reset", "silence", "drip", "garbage", "cut event", "torn event"),
    *("bad chunk", "no head", "half head", "not http", "status", "no end"),
    *("twice", "wrong type", "bytes", "500", "429", "page", "error body", "error event"),
    *("bad frame", "bad frame", "close frame"),
]
PAGE = b"<!doctype html><html><body>Sign in</body></html>"

parts = st.floats(0, 1, exclude_max=True)
schedules = st.builds(
    Schedule,
    framing=st.sampled_from(["chunked", "length", "close"]),
    cuts=st.lists(parts, max_size=8).map(tuple),
    pause_ms=st.sampled_from([0, 0, 0, 1]),
    noise=st.lists(st.tuples(parts, st.sampled_from(NOISE)), max_size=3).map(tuple),
    fault=st.sampled_from(FAULTS),
    place=parts,
    garbage=st.sampled_from(GARBAGE),
    frames=st.sampled_from(FRAMINGS),
    damage=st.sampled_from(list(DAMAGES)),
    code=st.sampled_from(CLOSE_CODES),
)


class Server:
    """Says its items, each under its schedule, until the client has them all."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.schedules: list[Schedule] = []
        self.upgrades: list[str] = []
        self.problems: list[str] = []
        self.ran: list[str] = []
        self._answered = 0

    def begin(self, kinds: Sequence[str], schedules: Sequence[Schedule], upgrades: Sequence[str]) -> None:
        self.upgrades = list(upgrades)
        self.items = [item_of(kind, number) for number, kind in enumerate(kinds)]
        self.schedules = list(schedules)
        self.problems, self.ran = [], []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                path, body, upgrade = await _request(reader)
                if upgrade:
                    if await self._serve_websocket(upgrade, reader, writer):
                        continue
                    break
                wire = APIS[path.partition("/v1/")[2]]
                left = self._left(wire.names(json.loads(body)))
                schedule = self.schedules.pop(0) if self.schedules else CLEAN
                if not await _send(writer, wire.events(left), schedule, wire):
                    break
        except (OSError, EOFError):  # the client has gone
            pass
        finally:
            writer.close()

    async def _serve_websocket(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve a WebSocket, or refuse it. Return whether the connection can be used for other requests."""
        protocol = ServerProtocol(max_size=None)
        protocol.receive_data(head)
        (request,) = protocol.events_received()
        assert isinstance(request, Request)
        protocol.send_response(protocol.accept(request))
        accepted = b"".join(protocol.data_to_send())
        kind = self.upgrades.pop(0) if self.upgrades else "yes"
        if kind != "yes":
            writer.write(refusal(kind, accepted))
            if kind == "silence":
                await asyncio.sleep(IDLE_MS * 2 / 1000)
            if kind == "reset":
                reset(writer)
            return kind.isdigit()
        writer.write(accepted)
        has: dict[str, list[str]] = {}
        while data := await reader.read(65_536):
            protocol.receive_data(data)
            for frame in protocol.events_received():
                if not isinstance(frame, Frame) or frame.opcode is Opcode.CLOSE:
                    return False
                if frame.opcode is not Opcode.TEXT:
                    continue
                message = json.loads(bytes(frame.data))
                earlier = has[message["previous_response_id"]] if "previous_response_id" in message else []
                names = [*earlier, *Responses.names(message)]
                left = self._left(names)
                schedule = self.schedules.pop(0) if self.schedules else CLEAN
                self._answered += 1
                response = f"r{self._answered}"
                has = {response: [*names, *(name_of(item) for item in left)]}
                events = [
                    event.replace(b'"id":"r"', b'"id":"%b"' % response.encode()) for event in Responses.events(left)
                ]
                assert response.encode() in events[-1]
                if not await _send(writer, events, schedule, Responses, websocket=True):
                    return False
        return False

    def _left(self, names: list[str]) -> list[dict[str, Any]]:
        """Return what to say now, up to the next call, and note what is wrong with the request."""
        mine = [name for name in names if name.startswith("item")]
        expected = [name_of(item) for item in self.items]
        if mine != expected[: len(mine)]:
            self.problems.append(f"the request has {mine} of {expected}")
        calls = [name for name in mine if name.endswith("call")]
        outputs = [name for name in names if name.startswith("output of ")]
        if outputs != [f"output of {name}" for name in calls]:
            self.problems.append(f"calls {calls} have {outputs}")
        left = self.items[len(mine) :]
        ends = [place for place, item in enumerate(left) if item["type"] == "function_call"]
        return left[: ends[0] + 1] if ends else left


async def _request(reader: asyncio.StreamReader) -> tuple[str, bytes, bytes]:
    """Return the path and the body of a request, and its head if it asks for a WebSocket."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"upgrade: websocket" in head.lower():
        return head.split(b" ")[1].decode(), b"", head
    found = re.search(rb"content-length: (\d+)", head.lower())
    assert found
    return head.split(b" ")[1].decode(), await reader.readexactly(int(found[1])), b""


async def _send(
    writer: asyncio.StreamWriter,
    events: list[bytes],
    schedule: Schedule,
    api: Any,
    *,
    websocket: bool = False,
) -> bool:
    """Send a response, over a WebSocket if there is one. Return whether the connection can be used again."""
    fault = schedule.fault
    if fault == "no end":
        events = events[: -api.end]
    for place, noise in schedule.noise:
        events.insert(int(place * (len(events) + 1)), noise)
    at = int(schedule.place * len(events))
    if fault in ("garbage", "error event"):
        events.insert(at, schedule.garbage if fault == "garbage" else api.error)
    elif fault == "twice":
        repeatable = [place for place, event in enumerate(events) if any(mark in event for mark in api.repeatable)]
        place = repeatable[int(schedule.place * len(repeatable))]
        events.insert(place, events[place])
    elif fault in ("cut event", "torn event"):
        at = next(
            number for number in range(at, len(events) * 2) if _is_vital(events[number % len(events)], api)
        ) % len(events)
        middle = len(events[at]) * 2 // 3
        torn = events[at][:middle] + b'{"' + events[at][middle:]
        events[at] = torn if fault == "torn event" else events[at][:middle] + b"\n\n"
    body = _frames(events, schedule) if websocket else b"".join(events)
    wire = _pieces(body, schedule) if websocket else _framed(_pieces(body, schedule), schedule)
    if websocket and fault in _HTTP_ONLY:
        pass
    elif fault == "wrong type":
        wire[0] = wire[0].replace(b"text/event-stream", b"application/json")
    elif fault == "bytes":
        joined = b"".join(wire)
        wire = [joined[start : start + 3] for start in range(0, len(joined), 3)]
    elif fault in _ANSWERS:
        status, body = _ANSWERS[fault]
        head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\nretry-after: 0\r\n\r\n"
        wire = [head % (status, len(body)) + body]
    elif fault == "not http":
        wire = [b"SSH-2.0-OpenSSH\r\n\r\n"]
    elif fault == "no head":
        wire = []
    elif fault == "half head":
        wire = [wire[0][: int(schedule.place * len(wire[0]))]]
    elif fault == "bad chunk" and schedule.framing == "chunked":
        wire.insert(max(1, int(schedule.place * len(wire))), b"zz;{\r\n")
    elif fault in ("fin", "reset", "silence", "drip"):
        wire = wire[: int(schedule.place * len(wire)) + 1]
    for piece in wire:
        writer.write(piece)
        await writer.drain()
        if schedule.pause_ms and fault != "bytes":
            await asyncio.sleep(schedule.pause_ms / 1000)
    if fault in ("silence", "half head", "no head") and schedule.place < 0.5:
        await asyncio.sleep(IDLE_MS * 2 / 1000)
    if fault == "drip":
        comment = b": drip\n\n" if schedule.framing != "chunked" else b"8\r\n: drip\n\n\r\n"
        comment = b"\x89\x00" if websocket else comment  # a ping
        for _ in range(30):
            writer.write(comment)
            await writer.drain()
            await asyncio.sleep(IDLE_MS / 10_000)
    if fault == "reset":
        reset(writer)
        return False
    if websocket:
        return fault in _LASTING or fault in _HTTP_ONLY
    return fault in _ANSWERS or (schedule.framing != "close" and fault in _LASTING)


_ANSWERS = {
    "status": (b"503 Busy", b"busy"),
    "500": (b"500 Internal Server Error", ERROR),
    "429": (b"429 Too Many Requests", ERROR),
    "page": (b"200 OK", PAGE),
    "error body": (b"200 OK", ERROR),
}
_LASTING = ("none", "garbage", "cut event", "torn event", "no end", "twice", "wrong type", "bytes", "error event")
_LASTING += ("bad frame", "close frame")


_HTTP_ONLY = ("wrong type", "page", "error body", *_ANSWERS)


def _frames(events: list[bytes], schedule: Schedule) -> bytes:
    """Return the events as messages of a WebSocket."""
    fault = schedule.fault
    if fault in ("status", "500", "429"):
        status, _ = _ANSWERS[fault]
        details = {
            "type": "error",
            "status": int(status[:3]),
            "headers": {"retry-after": "0"},
            "error": {"message": "busy"},
        }
        events = [b"data: %b" % json.dumps(details).encode()]
    elif fault in ("page", "error body"):
        events = [b"data: " + _ANSWERS[fault][1]]
    frames = framed(events, schedule.frames)
    if fault == "bad frame":
        frames = damaged(frames, schedule.damage, schedule.place)
    elif fault == "close frame":
        frames = closed(frames, schedule.code, schedule.place)
    return b"".join(frames)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with a reset."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _is_vital(event: bytes, api: Any) -> bool:
    return any(mark in event for mark in api.vital)


def _pieces(body: bytes, schedule: Schedule) -> list[bytes]:
    places = [0, *sorted(int(cut * len(body)) for cut in schedule.cuts), len(body)]
    return [body[start:stop] for start, stop in itertools.pairwise(places) if stop > start]


def _framed(pieces: list[bytes], schedule: Schedule) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    if schedule.framing == "chunked":
        chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        return [head + b"transfer-encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n"]
    if schedule.framing == "length":
        return [head + b"content-length: %d\r\n\r\n" % sum(map(len, pieces)), *pieces]
    return [head + b"connection: close\r\n\r\n", *pieces]


@attrs.frozen
class World:
    loop: asyncio.AbstractEventLoop
    server: Server
    kernel: Kernel
    api: str
    provider: str | None

    def ask_for_websockets_again(self) -> None:
        """Forget that the server has refused WebSockets."""
        for _, client in self.kernel._host.models._clients:
            if isinstance(client, ResponsesClient) and client._sockets is not None:
                client._sockets._refused = False


WORLDS = [
    "responses-http",
    "responses-https",
    "responses-ws",
    "responses-tried",
    "chat-http",
    "chat-https",
    "messages-http",
    "messages-https",
]
CONTRIB = Path(__file__).parents[2] / "contrib" / "codex_contrib_anthropic" / "src"


@pytest.fixture(params=WORLDS)
def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    certificate: tuple[Path, Path],
) -> Iterator[World]:
    """A kernel and its server, in one event loop."""
    monkeypatch.setattr("codex_framework.threads.turn.machine.BACKOFF_BASE_S", 0.0005)
    loop, server = asyncio.new_event_loop(), Server()
    api, _, scheme = request.param.partition("-")
    context = None
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    more_options = f", supports_websockets=true, websocket_connect_timeout_ms={IDLE_MS}" if scheme == "ws" else ""
    plugins: list[Any] = [codex_plugin_openai, codex_plugin_chat]
    if api == "messages":
        monkeypatch.syspath_prepend(str(CONTRIB))
        plugins.append(pytest.importorskip("codex_contrib_anthropic"))
    if scheme == "tried":
        limits = {"request_max_retries": 0, "stream_max_retries": 2, "stream_idle_timeout_ms": IDLE_MS}
        options = {"websocket_connect_timeout_ms": IDLE_MS}
        builtin = ResponsesProvider.builtin["openai"].evolve(**limits, response_timeout_ms=IDLE_MS, options=options)
        monkeypatch.setattr(ResponsesProvider, "builtin", {"openai": builtin})
    is_tried = scheme == "tried"
    scheme = "http" if scheme in ("ws", "tried") else scheme

    @tool
    async def note(text: str) -> str:
        """Note a text."""
        server.ran.append(text)
        return f"noted {text}"

    async def begin() -> tuple[asyncio.Server, Kernel]:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
        url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        limits = f"request_max_retries=0, stream_idle_timeout_ms={IDLE_MS}, response_timeout_ms={IDLE_MS}{more_options}"
        more = f'wire_api="{api}", base_url="{url}", {limits}'
        overrides = (
            *('model="m"', 'model_provider="patient"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"'),
            f"model_providers.patient={{{more}, stream_max_retries=100}}",
            f"model_providers.once={{{more}, stream_max_retries=0}}",
            f'openai_base_url="{url}"',
        )
        (tmp_path / "home").mkdir()
        home = str(tmp_path / "home")
        environ = {
            "CODEX_HOME": home,
            "PATH": "/usr/bin:/bin",
            "SSL_CERT_FILE": str(certificate[0]),
            "OPENAI_API_KEY": "k",
        }
        config = load_config(cwd=tmp_path, environ=environ, overrides=overrides)
        offers = [*plugins, Offer(tools=[note])]
        return listening, await Kernel.create(config, environ=environ, plugins=offers, entry_points=())

    listening, kernel = loop.run_until_complete(begin())
    yield World(loop, server, kernel, api, "openai" if is_tried else None)
    loop.run_until_complete(kernel.aclose())
    listening.close()
    loop.run_until_complete(end_tasks())
    loop.close()


async def end_tasks() -> None:
    """End what still serves connections, so that nothing of it is reported in a later test."""
    serving = asyncio.all_tasks() - {asyncio.current_task()}
    for task in serving:
        task.cancel()
    await asyncio.gather(asyncio.sleep(0.01), *serving, return_exceptions=True)


async def converse(world: World, kinds: Sequence[str], provider: str) -> None:
    """Have the conversation, and check it."""
    server = world.server
    provider = world.provider or provider
    thread = await world.kernel.start_thread(config={"model_provider": provider}, ephemeral=True)
    try:
        ended = await thread.run("go")
        while ended.status is not Status.COMPLETED:
            assert ended.status is Status.FAILED
            assert CLEAR.match(ended.error or ""), ended.error
            is_final = "answered with" in (ended.error or "")
            assert provider != "patient" or is_final, f"given up after 100 retries: {ended.error}"
            ended = await thread.run("go on")
        assert server.problems == []
        said = [
            message_text(item) if isinstance(item, Message) else item.call_id
            for item in thread.history.items
            if (isinstance(item, Message) and item.role == "assistant") or isinstance(item, FunctionCall)
        ]
        said = [name for name in said if name]
        assert said == [name_of(item) for item in server.items], "lost, twice, or out of order"
        calls = [item["call_id"] for item in server.items if item["type"] == "function_call"]
        outputs = [item for item in thread.history.items if isinstance(item, FunctionCallOutput)]
        assert [item.call_id for item in outputs] == calls
        assert len(server.ran) == len(calls), "a call ran twice, or never"
    finally:
        await thread.shutdown()


@settings(
    max_examples=PER_TRANSPORT,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.sampled_from(["message", "call"]), min_size=1, max_size=5),
    st.lists(schedules, max_size=4),
    st.sampled_from(["patient", "once"]),
    st.lists(st.sampled_from(UPGRADES), max_size=3),
)
@example(kinds=["call", "message"], schedules=[LATE_END], provider="patient", upgrades=[])
def test_nothing_is_lost_or_doubled_whatever_the_wire_does(
    world: World, kinds: list[str], schedules: list[Schedule], provider: str, upgrades: list[str]
) -> None:
    if world.api == "chat":
        kinds = [
            kind for kind, before in zip(kinds, ["", *kinds], strict=False) if (kind, before) != ("message", "message")
        ]
    world.server.begin(kinds, schedules, upgrades)
    world.ask_for_websockets_again()

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await converse(world, kinds, provider)

    world.loop.run_until_complete(bounded())
