"""Schedules of messages that go wrong, generated from a seed, and what must hold after each of them.

A storm has clients over all transports that send broken, late, repeated and reordered messages, read slowly, answer what nobody has
asked them, leave in the middle of a message, and come back. An observer follows all threads meanwhile. In the end a judge joins every
thread, answers the questions that are open, and runs a turn.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import os
import random
import re
import struct
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from codex_framework import Tool, hookimpl, tool
from codex_framework.contract.protocol.items import Message, message_text
from codex_framework.testing import ScriptedModel
from codex_framework.testing.replies import call, reply, say
from codex_plugin_app_server.server import Server
from codex_plugin_app_server.stdio import StdioTransport

LIMIT_S = float(os.environ.get("APP_SERVER_LIMIT_S", "60"))
Json = dict[str, Any]

EXEC = "item/commandExecution/requestApproval"
TOOL = "mcpServer/elicitation/request"
HELLO = {"clientInfo": {"name": "storm", "version": "1"}, "capabilities": {"experimentalApi": True}}


# The model and its tools


def answer_of_model(request: Any) -> Any:
    """Do what the user's newest message says, once."""
    last = request.prompt.items[-1]
    text = message_text(last) if isinstance(last, Message) and last.role == "user" else ""
    match text.split():
        case ["mark", *names]:
            return reply(*(call("mark", name=name, call_id=f"call-{name}").items[0] for name in names))
        case ["exec", name]:
            command = f"echo {name} >> ran"
            settings = {"sandbox_permissions": "require_escalated", "justification": "storm", "login": False}
            return call("exec_command", cmd=command, call_id=f"call-{name}", **settings)
        case ["say", count]:
            return say("".join(f"<{number}>" for number in range(int(count)))).evolve(deltas=int(count))
        case ["slow", count]:
            return say("x" * int(count)).evolve(deltas=int(count), delta_delay_s=0.001)
        case ["big", size]:
            return say("y" * int(size))
        case _:
            return say("done")


class Plugin:
    """The model, and a tool that needs an approval.

    Attributes:
        ran: The names of the calls that ran.
    """

    def __init__(self) -> None:
        self.model = ScriptedModel([answer_of_model], repeat_last=True)
        self.ran: list[str] = []

    @hookimpl
    def codex_model_providers(self) -> list[Any]:
        return [self.model]

    @hookimpl
    def codex_tools(self) -> list[Tool]:
        @tool(needs_approval=True)
        async def mark(name: str) -> str:
            """Mark a name."""
            self.ran.append(name)
            return "marked"

        return [mark]


# Wires: the client's side of a transport


class Wire:
    """The client's side of a connection.

    Attributes:
        ended: Set when the server has closed the connection, or the client has left.
    """

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self.receive = receive
        self.ended = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()

    def write(self, message: bytes, *, whole: bool = True) -> None:
        """Send a message, or only the first half of its bytes."""
        raise NotImplementedError

    def finish(self) -> None:
        """Say that nothing more comes, but read on."""
        self.leave()

    def leave(self) -> None:
        """End the connection at once."""
        raise NotImplementedError


class MemoryWire(Wire):
    """Both sides in one object, without bytes in between."""

    def __init__(self, receive: Callable[[bytes], None], server: Server) -> None:
        super().__init__(receive)
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._dead = False
        self.serving = asyncio.ensure_future(server.serve(Side(self)))

    def write(self, message: bytes, *, whole: bool = True) -> None:
        self._sent.put_nowait(message if whole else message[: len(message) // 2])

    def finish(self) -> None:
        self._sent.put_nowait(None)

    def leave(self) -> None:
        self._dead = True
        self.reads.set()
        self.finish()

    async def take(self) -> bytes | None:
        return await self._sent.get()

    async def bring(self, messages: list[bytes]) -> None:
        await self.reads.wait()
        if self._dead:
            raise BrokenPipeError
        for message in messages:
            self.receive(message)


class Side:
    """The server's side of a wire in memory."""

    def __init__(self, wire: MemoryWire) -> None:
        self._wire = wire

    async def receive(self) -> bytes | None:
        return await self._wire.take()

    async def send(self, messages: list[bytes]) -> None:
        await self._wire.bring(messages)

    async def aclose(self) -> None:
        self._wire.ended.set()


class StreamWire(Wire):
    """A connection with bytes."""

    def __init__(
        self, receive: Callable[[bytes], None], reader: asyncio.StreamReader, writer: Any, serving: Any = None
    ) -> None:
        super().__init__(receive)
        self._reader, self._writer = reader, writer
        self.serving = serving
        self._left = False
        self._reading = asyncio.ensure_future(self._read())

    def leave(self) -> None:
        self._reading.cancel()
        self.reads.set()
        self.ended.set()
        if not self._left:
            self._left = True
            self._abort()

    def _abort(self) -> None:
        self._writer.transport.abort()

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async for message in self._messages():
                self.receive(message)
        self.ended.set()

    def _messages(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def _put(self, data: bytes, *, whole: bool) -> None:
        self._writer.write(data if whole else data[: len(data) // 2])


class PipeWire(StreamWire):
    """Stdin and stdout of the server."""

    _output: asyncio.ReadTransport

    @classmethod
    async def open(cls, receive: Callable[[bytes], None], server: Server) -> PipeWire:
        loop = asyncio.get_running_loop()
        (source, there), (here, sink) = os.pipe(), os.pipe()
        serving = asyncio.ensure_future(server.serve(await StdioTransport.open(source, sink)))
        reader = asyncio.StreamReader(limit=1 << 26)
        output, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(here, "rb", buffering=0)
        )
        writer, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(there, "wb", buffering=0))
        wire = cls(receive, reader, writer, serving)
        wire._output = output
        return wire

    def write(self, message: bytes, *, whole: bool = True) -> None:
        self._put(message + b"\n", whole=whole)

    def finish(self) -> None:
        self._writer.close()

    def _abort(self) -> None:
        if not self._writer.is_closing():
            self._writer.abort()
        self._output.close()

    async def _messages(self) -> AsyncIterator[bytes]:
        while True:
            await self.reads.wait()
            line = await self._reader.readline()
            if not line:
                return
            yield line


class SocketWire(StreamWire):
    """A WebSocket, frame by frame."""

    @classmethod
    async def open(cls, receive: Callable[[bytes], None], url: str) -> SocketWire:
        if url.startswith("unix://"):
            reader, writer = await asyncio.open_unix_connection(url.removeprefix("unix://"), limit=1 << 26)
        else:
            host, _, port = url.removeprefix("ws://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 26)
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
        writer.write(f"GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        return cls(receive, reader, writer)

    def write(self, message: bytes, *, whole: bool = True) -> None:
        self._put(frame(message), whole=whole)

    def write_frame(self, data: bytes) -> None:
        """Send the bytes of a frame as they are."""
        self._writer.write(data)

    async def _messages(self) -> AsyncIterator[bytes]:
        while True:
            await self.reads.wait()
            first, length = await self._reader.readexactly(2)
            if length == 126:
                (length,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", await self._reader.readexactly(8))
            data = await self._reader.readexactly(length)
            if first & 15 == 8:
                return
            if first & 15 == 1:
                yield data


def frame(data: bytes, kind: int = 0x81) -> bytes:
    """Return a WebSocket frame of a client. The mask of zeros changes nothing."""
    if len(data) < 126:
        head = bytes([kind, 0x80 | len(data)])
    elif len(data) < 1 << 16:
        head = bytes([kind, 0x80 | 126]) + struct.pack(">H", len(data))
    else:
        head = bytes([kind, 0x80 | 127]) + struct.pack(">Q", len(data))
    return head + bytes(4) + data


# Clients


class StormClient:
    """A client and what it has sent and seen.

    Attributes:
        answers: How often each id was answered; ``due`` has how often it must have been.
        questions: The questions that it was asked, by their id.
    """

    def __init__(self, storm: Storm) -> None:
        self.storm = storm
        self.wire: Any = None
        self.due: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.results: dict[str, Json] = {}
        self.questions: dict[Any, Json] = {}
        self.notes: list[Json] = []
        self.sent: list[bytes] = []
        self.arrived = asyncio.Event()
        self.spoiled = False  # the server may close the connection
        self._serial = 0
        self.random = random.Random(f"{storm.seed} {len(storm.clients)}")

    def receive(self, text: bytes) -> None:
        message = json.loads(text)
        if "method" not in message:
            key = json.dumps(message["id"])
            self.answers[key] += 1
            self.results[key] = message
            result = message.get("result", {})
            for kind, known in (("thread", self.storm.threads), ("turn", self.storm.turns)):
                if isinstance(result.get(kind), dict) and result[kind]["id"] not in known:
                    known.append(result[kind]["id"])
        elif "id" in message:
            self.questions[message["id"]] = message
            self.storm.asked[message["id"]] = message
        else:
            self.notes.append(message)
        self.arrived.set()

    def send(self, message: object) -> None:
        """Send a message, and take note of the answer that is due."""
        raw = message if isinstance(message, bytes) else json.dumps(message).encode("utf-8", "surrogatepass")
        if not self.wire.ended.is_set():
            self.sent.append(raw)
            self.wire.write(raw)
            if (number := answered_id(raw)) is not None:
                self.due[number] += 1
            self._note_answer(raw)

    def _note_answer(self, raw: bytes) -> None:
        """Take note of an answer that the client gives, whether it was asked or not."""
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(raw)
            number = message.get("id") if isinstance(message, dict) else None
            if type(number) is int and "method" not in message and ("result" in message or "error" in message):
                result = message.get("result")
                accepts = isinstance(result, dict) and "accept" in (result.get("action"), result.get("decision"))
                self.storm.decisions[number].append((self, number in self.questions, accepts))

    def request(self, method: str, **params: Any) -> str:
        self._serial += 1
        self.send({"id": self._serial, "method": method, "params": params})
        return json.dumps(self._serial)

    async def until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition on what has come. Return False if the connection has ended first."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                if self.wire.ended.is_set():
                    return condition()
                self.arrived.clear()
                waiting = [asyncio.ensure_future(each.wait()) for each in (self.arrived, self.wire.ended)]
                try:
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in waiting:
                        each.cancel()
        return True

    async def call(self, method: str, **params: Any) -> Json:
        number = self.request(method, **params)
        assert await self.until(lambda: number in self.results), f"the connection ended before {method} was answered"
        return self.results[number]

    def answer(self, number: object, kind: str) -> None:
        """Answer a question, which somebody else may have been asked."""
        question = self.storm.asked.get(number)
        is_tool = question is not None and question["method"] == TOOL
        accepted, refused = ("accept", "decline")
        words = {"accept": accepted, "decline": refused, "cancel": "cancel"}
        if kind in words:
            result: Any = {"action": words[kind], "content": {}} if is_tool else {"decision": words[kind]}
            message: Json = {"id": number, "result": result}
        elif kind == "error":
            message = {"id": number, "error": {"code": -32601, "message": "no"}}
        else:
            message = {"id": number, "result": [None, {}, "accept", {"decision": {}}, {"action": 5}][len(kind) % 5]}
        self.send(message)


def answered_id(raw: bytes) -> str | None:
    """Return the id of the answer that a message must get, as JSON. None if it gets none."""

    def finite(word: str) -> float:
        if not math.isfinite(float(word)):
            raise ValueError(word)
        return float(word)

    try:
        message = json.loads(raw.decode(), parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError):
        return None
    if raw.startswith(b"\xef\xbb\xbf") or raw.count(b"[") > 100 or not isinstance(message, dict):
        return None
    number = message.get("id")
    if not isinstance(message.get("method"), str) or "id" not in message:
        return None
    if isinstance(number, str):
        return None if "\\ud8" in json.dumps(number) else json.dumps(number)
    if isinstance(number, int) and not isinstance(number, bool) and -(1 << 63) <= number < 1 << 63:
        return json.dumps(number)
    return None


BROKEN: Sequence[bytes] = (
    b"",
    b" ",
    b"{",
    b'{"id":1',
    b"[]",
    b'[{"id":1,"method":"model/list"}]',
    b"null",
    b"7",
    b'"x"',
    b"[" * 100_000,
    b"\x00" * 9,
    b"\xef\xbb\xbf{}",
    b'{"id":70,"method":"model/list","params":{"x":' + b"[" * 300 + b"]" * 300 + b"}}",
    b'{"id":71,"method":"thread/list","params":{"limit":NaN}}',
    b'{"id":72,"method":"thread/list","params":{"limit":1e999}}',
    b'{"id":73,"method":"thread/list","params":{"limit":' + b"9" * 5000 + b"}}",
    b'{"id":1.5,"method":"model/list","params":{}}',
    b'{"id":null,"method":"model/list","params":{}}',
    b'{"id":true,"method":"model/list","params":{}}',
    b'{"id":{},"method":"model/list","params":{}}',
    b'{"id":[1],"method":"model/list","params":{}}',
    b'{"id":99999999999999999999,"method":"model/list","params":{}}',
    b'{"id":9223372036854775807,"method":"model/list","params":{}}',
    b'{"id":"","method":"model/list","params":{}}',
    b'{"id":"\\ud800","method":"model/list","params":{}}',
    b'{"id":"\\u0000","method":"model/list","params":{}}',
    b'{"id":74,"method":"no/such","params":{}}',
    b'{"id":75,"method":""}',
    b'{"id":76,"method":7}',
    b'{"id":77,"method":"model/list","params":[]}',
    b'{"id":78,"method":"model/list","params":"x"}',
    b'{"id":79,"method":"thread/read","params":{"threadId":5}}',
    b'{"id":80,"method":"thread/read","params":{"threadId":"../../x"}}',
    b'{"id":81,"method":"thread/read","params":{"threadId":"01890000-0000-7000-8000-000000000000","more":{"a":[1]}}}',
    b'{"id":82,"method":"turn/start","params":{"threadId":"01890000-0000-7000-8000-000000000000","input":[]}}',
    b'{"id":83,"method":"item/tool/call","params":{}}',
    b'{"id":84,"method":"marketplace/add","params":{"source":"x"}}',
    b'{"id":85,"method":"fs/readFile","params":{"path":"/no/such\\u0000"}}',
    b'{"id":86,"method":"thread/list","params":{"cursor":"x","limit":4294967295}}',
    b'{"id":87,"method":"model/list","params":{"x":"\xff"}}',
    b'{"method":"initialized"}',
    b'{"method":"no/such","params":7}',
    b'{"id":99}',
    b'{"result":{}}',
    b'{"id":99,"result":{}}',
    b'{"id":"x","error":{"code":1,"message":"no"}}',
    b'{"id":0,"error":7}',
    b'{"id":{},"result":{}}',
    b"{}",
    b'{"id":88,"method":"model/list","params":{},"jsonrpc":7,"foo":{}}',
)
"""Messages that are wrong in one way or another."""

FRAMES: Sequence[bytes] = (
    frame(b"\xff\xfe"),
    frame(b"{}", 0x82),
    frame(b"\xff", 0x82),
    frame(b"ping", 0x89),
    frame(b"pong", 0x8A),
    frame(b"", 0x88),
    frame(b'{"id":', 0x01) + frame(b'"f"}', 0x80),
    frame(b"x", 0x80),
    frame(b"x", 0x83),
    frame(b"x", 0xC1),
    b"\x81\x02{}",
    b"\x81\xff" + struct.pack(">Q", 1 << 40),
    b"\x00" * 64,
)
"""Frames of WebSockets: several of them end the connection."""


ACTS = {
    "turn": 10,
    "answer": 12,
    "interrupt": 3,
    "steer": 2,
    "read": 6,
    "broken": 8,
    "frame": 2,
    "repeat": 4,
    "stop": 2,
    "start": 1,
    "second": 1,
    "follow": 4,
    "burst": 2,
    "exec": 0.3,
    "id": 1,
}
"""What a client does next, and how likely it is."""


class Storm:
    """One schedule.

    Attributes:
        asked: All questions, by id.
        decisions: The answers of clients, by question: whether the client had seen the question, and whether it accepts.
        threads: The ids of the threads.
    """

    def __init__(self, server: Server, plugin: Plugin, urls: Sequence[str], folder: Path, seed: int) -> None:
        self.server, self.plugin, self.urls, self.folder = server, plugin, urls, folder
        self.seed = seed
        self.random = random.Random(seed)
        self.asked: dict[Any, Json] = {}
        self.decisions: dict[Any, list[tuple[StormClient, bool, bool]]] = defaultdict(list)
        self.threads: list[str] = []
        self.turns: list[str] = []
        self.names: list[str] = []
        self.clients: list[StormClient] = []
        self._serving: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Let the storm pass, and check what must hold afterwards."""
        observer = await self.connect("memory")
        await observer.call("initialize", **HELLO)
        for _ in range(self.random.randint(1, 2)):
            await self._start_thread(observer)
        watched = list(self.threads)
        if self.random.random() < 0.15:  # at times, nobody is there to answer
            for thread_id in watched:
                await observer.call("thread/unsubscribe", threadId=thread_id)
            watched = []
        await asyncio.gather(*(self._storm_client() for _ in range(self.random.randint(1, 4))))
        await self._settle()
        await self._judge()
        self._check_commands()
        self._check_answers()
        self._check_order(observer, watched)
        await self._end()

    async def connect(self, kind: str) -> StormClient:
        client = StormClient(self)
        match kind:
            case "memory":
                client.wire = MemoryWire(client.receive, self.server)
            case "pipe":
                client.wire = await PipeWire.open(client.receive, self.server)
            case url:
                client.wire = await SocketWire.open(client.receive, url)
        self.clients.append(client)
        if getattr(client.wire, "serving", None) is not None:
            self._serving.append(client.wire.serving)
        return client

    async def _start_thread(self, client: StormClient) -> None:
        settings = {"cwd": str(self.folder), "approvalPolicy": "on-request", "sandbox": "read-only"}
        found = await client.call("thread/start", approvalsReviewer="user", **settings)
        assert found["result"]["thread"]["id"] in self.threads, found

    def text(self, client: StormClient) -> str:
        """Return an input that makes the model do something."""
        name = f"{self.seed}-{len(self.names)}"
        self.names.append(name)
        kind = client.random.choices(["mark", "both", "exec", "say", "slow", "big", "\ud800"], [8, 2, 1, 5, 2, 1, 1])[0]
        match kind:
            case "both":
                self.names.append(f"{name}b")
                return f"mark {name} {name}b"
            case "mark" | "exec":
                return f"{kind} {name}"
            case "say" | "slow":
                return f"{kind} {client.random.choice([1, 5, 30])}"
            case "big":
                return "big 300000"
            case _:
                return kind

    # What clients do

    async def _storm_client(self) -> None:
        kind = self.random.choice(["memory", "memory", "pipe", *self.urls])
        for _ in range(self.random.randint(1, 2)):
            client = await self.connect(kind)
            if client.random.random() < 0.1:
                client.send(client.random.choice(BROKEN))
            if client.random.random() < 0.95:
                client.request("initialize", **HELLO)
                for thread_id in client.random.sample(self.threads, client.random.randint(0, len(self.threads))):
                    client.request("thread/resume", threadId=thread_id, excludeTurns=True)
            for _ in range(client.random.randint(3, 14)):
                if client.wire.ended.is_set():
                    break
                self._act(client)
                await self._pause(client)
            if client.random.random() < 0.6:
                await self._leave(client)
            else:
                client.wire.reads.set()

    def _act(self, client: StormClient) -> None:
        thread_id = client.random.choice(self.threads)
        match client.random.choices(list(ACTS), list(ACTS.values()))[0]:
            case "turn":
                client.request("turn/start", threadId=thread_id, input=[{"type": "text", "text": self.text(client)}])
            case "answer":
                self._answer(client)
            case "interrupt":
                turn_id = client.random.choice([*self.turns[-2:], "wrong", ""])
                client.request("turn/interrupt", threadId=thread_id, turnId=turn_id)
            case "steer":
                turn_id = client.random.choice([*self.turns[-2:], "wrong"])
                text = [{"type": "text", "text": self.text(client)}]
                client.request("turn/steer", threadId=thread_id, expectedTurnId=turn_id, input=text)
            case "read":
                reads: Sequence[tuple[str, Json]] = (
                    ("thread/read", {"threadId": thread_id, "includeTurns": True}),
                    ("thread/turns/list", {"threadId": thread_id}),
                    ("thread/loaded/list", {}),
                    ("thread/list", {}),
                    ("model/list", {}),
                    ("config/read", {}),
                )
                method, params = client.random.choice(reads)
                client.request(method, **params)
            case "broken":
                self._send_broken(client)
            case "frame" if isinstance(client.wire, SocketWire):
                client.spoiled = True
                client.wire.write_frame(client.random.choice(FRAMES))
            case "repeat" if client.sent:
                client.send(client.random.choice(client.sent))
            case "stop":
                client.wire.reads.clear()
            case "start":
                client.request("thread/start", cwd=str(self.folder), ephemeral=client.random.random() < 0.5)
            case "second":
                client.request("initialize", **HELLO)
            case "follow":
                method = client.random.choice(["thread/resume", "thread/resume", "thread/unsubscribe"])
                client.request(method, threadId=thread_id, **({"excludeTurns": True} if "resume" in method else {}))
            case "burst":
                for _ in range(client.random.choice([5, 150])):
                    client.request("thread/loaded/list")
            case "exec":
                client.request("command/exec", command=["sleep", "1000"], processId=f"p{len(client.sent)}")
            case _:
                client.send({"id": client.random.choice(["s", 0, -1, 10**18]), "method": "model/list", "params": {}})

    def _send_broken(self, client: StormClient) -> None:
        raw = client.random.choice(BROKEN)
        if client.sent and client.random.random() < 0.3:  # half of something that was right
            whole = client.random.choice(client.sent)
            raw = whole[: client.random.randrange(len(whole) + 1)]
        if client.random.random() < 0.05:
            raw = b'{"id":"huge","method":"model/list","params":{"x":"' + b"z" * (1 << 20) + b'"}}'
        try:
            raw.decode()
        except ValueError:
            client.spoiled = client.spoiled or isinstance(client.wire, SocketWire)
        client.send(raw)

    def _answer(self, client: StormClient) -> None:
        own = list(client.questions) or list(self.asked)
        numbers = own if client.random.random() < 0.8 else list(self.asked)
        number = client.random.choice(numbers) if numbers else client.random.choice([0, 5, "0", None, 10**9])
        if client.random.random() < 0.05:
            number = client.random.choice(
                [str(number), True, float(number) if isinstance(number, int) else 1.5, None, -1]
            )
        kind = client.random.choices(
            ["accept", "decline", "cancel", "error", "g", "ga", "gar", "garb"], [8, 4, 1, 1, 1, 1, 1, 1]
        )[0]
        client.answer(number, kind)
        if client.random.random() < 0.2:
            client.answer(number, client.random.choice(["accept", "decline"]))

    async def _pause(self, client: StormClient) -> None:
        match client.random.randrange(4):
            case 0:
                return
            case 1:
                await asyncio.sleep(0)
            case 2:
                await asyncio.sleep(0.001)
            case _:
                if client.wire.reads.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.02):
                            seen = len(client.questions)
                            await client.until(lambda: len(client.questions) > seen)

    async def _leave(self, client: StormClient) -> None:
        match client.random.randrange(3):
            case 0:
                client.wire.write(b'{"id":1,"method":"turn/start"', whole=False)
            case 1:
                client.wire.finish()
                await self._pause(client)
            case _:
                pass
        client.wire.leave()

    # What must hold

    async def _settle(self) -> None:
        """Wait until the server has read everything, and every client that is still there has its answers."""
        for client in self.clients:
            client.wire.reads.set()
            if client.spoiled:
                client.wire.leave()
            else:
                await client.until(partial(self._is_answered, client))
        async with asyncio.timeout(LIMIT_S):
            while len(self.server._connections) > sum(not client.wire.ended.is_set() for client in self.clients):
                await asyncio.sleep(0.001)

    async def _judge(self) -> None:
        """Join every thread, refuse what is still asked, and run a turn in each."""
        judge = await self.connect("memory")
        await judge.call("initialize", **HELLO)
        for thread_id in (await judge.call("thread/loaded/list"))["result"]["data"]:
            resumed = await judge.call("thread/resume", threadId=thread_id, excludeTurns=True)
            assert "result" in resumed, resumed
            for _ in range(2):  # the first may join a turn that is running
                await self._run_turn(judge, thread_id)

    async def _run_turn(self, judge: StormClient, thread_id: str) -> None:
        started = await judge.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "end"}])
        turn_id = started["result"]["turn"]["id"]
        refused: set[object] = set()

        def has_ended() -> bool:
            for number in judge.questions.keys() - refused:
                refused.add(number)
                judge.answer(number, "decline")
            return any(
                note["method"] == "turn/completed" and note["params"]["turn"]["id"] == turn_id for note in judge.notes
            )

        try:
            assert await judge.until(has_ended)
        except TimeoutError:
            raise AssertionError(f"the turn {turn_id} does not end: {judge.notes[-5:]}") from None

    def _check_commands(self) -> None:
        """Check that only approved commands ran, each once."""
        ran = [name for name in self.plugin.ran if name.startswith(f"{self.seed}-")]
        file = self.folder / "ran"
        if file.exists():
            ran += file.read_text().split()
            file.unlink()
        approved: Counter[str] = Counter()
        for number, question in self.asked.items():
            approved[self._name_in(question)] += self._may_be_approved(number)
        for name, count in Counter(ran).items():
            numbers = [number for number, question in self.asked.items() if self._name_in(question) == name]
            answers = [
                (self.clients.index(each), *rest) for number in numbers for each, *rest in self.decisions[number]
            ]
            assert count <= approved[name], f"{name} ran {count} times; questions {numbers}, answers {answers}"

    def _may_be_approved(self, number: object) -> bool:
        """Return whether the answer that came first can be an approval. Of several clients, each may have been the first."""
        for client in self.clients:
            if number not in client.questions and not self._may_follow(
                client, self.asked[number]["params"]["threadId"]
            ):
                continue
            answers = [(asked, accepts) for each, asked, accepts in self.decisions[number] if each is client]
            early = [accepts for asked, accepts in answers if not asked]  # the question may have been on its way
            late = [accepts for asked, accepts in answers if asked]
            if any(early) or late[:1] == [True]:
                return True
        return False

    @staticmethod
    def _may_follow(client: StormClient, thread_id: str) -> bool:
        """Return whether a client may have been asked without having read it."""
        joined = (b'"thread/start"', b'"thread/resume"')
        return any(
            word in raw and (thread_id.encode() in raw or word == joined[0]) for raw in client.sent for word in joined
        )

    def _name_in(self, question: Json) -> str:
        shown = question["params"]["command" if question["method"] == EXEC else "message"]
        found = re.search(rf"\b{self.seed}-\d+b?\b", shown)
        assert found is not None, shown
        return found[0]

    def _check_answers(self) -> None:
        """Check that no request has two answers. That each has one was waited for."""
        for client in self.clients:
            for number, count in client.answers.items():
                assert count <= client.due[number], f"{number} was answered {count} times, sent {client.due[number]}"

    @staticmethod
    def _is_answered(client: StormClient) -> bool:
        commands = [raw for raw in client.sent if b'"command/exec"' in raw]  # those do not end by themselves
        waits = [each for each in client.due if not any(f'"id": {each},'.encode() in raw for raw in commands)]
        return all(client.answers[each] >= client.due[each] for each in waits)

    def _check_order(self, observer: StormClient, watched: Sequence[str]) -> None:
        """Check that the observer has seen whole turns, one after another, and every question resolved once."""
        drops = any(b"big " in raw for client in self.clients for raw in client.sent)  # then deltas may be left out
        for thread_id in watched:
            turn, items = "", dict[str, str]()
            for note in observer.notes:
                params = note["params"]
                if params.get("threadId") != thread_id:
                    continue
                match note["method"]:
                    case "turn/started":
                        assert not turn, f"{params['turn']['id']} started before {turn} ended"
                        turn, items = params["turn"]["id"], {}
                    case "turn/completed":
                        assert params["turn"]["id"] == turn, f"{params['turn']['id']} ended instead of {turn}"
                        turn = ""
                    case "item/started":
                        items[params["item"]["id"]] = ""
                    case "item/agentMessage/delta":
                        assert params["turnId"] == turn, f"a delta of {params['turnId']} came in {turn}"
                        items[params["itemId"]] += params["delta"]
                    case "item/completed" if params["item"]["type"] == "agentMessage":
                        text = params["item"]["text"]
                        streamed = items[params["item"]["id"]]
                        assert streamed == text or drops, f"{streamed!r} was streamed, and is {text!r}"
            assert not turn, f"{turn} did not end"
            resolved = Counter(
                note["params"]["requestId"]
                for note in observer.notes
                if note["method"] == "serverRequest/resolved" and note["params"]["threadId"] == thread_id
            )
            asked = [number for number, each in observer.questions.items() if each["params"]["threadId"] == thread_id]
            assert resolved == Counter(asked), f"asked {asked}, resolved {resolved}"

    async def _end(self) -> None:
        """Let everybody leave, end the threads, and wait until nothing is left."""
        for client in self.clients:
            client.wire.leave()
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*self._serving)
            await self.server.aclose()
            while self.server.threads or self.server._connections:
                await asyncio.sleep(0.001)
