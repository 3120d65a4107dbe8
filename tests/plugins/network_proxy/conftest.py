"""Gates, and real servers on loopback for them to reach. Test functions of this folder may be async; each has a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import h11
import pytest

from codex_framework import NetworkRules, ProxyPorts
from codex_plugin_network_proxy.gate import Gate
from codex_plugin_network_proxy.limits import Limits
from codex_plugin_network_proxy.proxy import RuledProxy

HOST = "127.0.0.2"
"""Where servers listen: loopback, but nothing that ``NO_PROXY`` names."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    problems: list[dict[str, Any]] = []

    async def whole() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        try:
            async with asyncio.timeout(120):
                await pyfuncitem.obj(**arguments)
        finally:
            for value in arguments.values():
                if isinstance(value, Net):
                    await value.aclose()

    asyncio.run(whole())
    assert problems == []
    return True


@attrs.define
class Seen:
    """A request as the server saw it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


@attrs.define
class Answer:
    """An answer as the client saw it."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes
    complete: bool

    @property
    def error(self) -> str | None:
        return self.headers.get("x-proxy-error")


class Origin:
    """An HTTP server. The path says what it does; the rest of the target does not matter."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self.port = 0
        self.closed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = h11.Connection(h11.SERVER)
        with contextlib.suppress(ConnectionError, h11.RemoteProtocolError):
            while await self._request(connection, reader, writer) and connection.our_state is h11.DONE:
                connection.start_next_cycle()
        self.closed += 1
        writer.close()

    async def _request(self, connection: h11.Connection, reader: asyncio.StreamReader, writer: Any) -> bool:
        seen: Seen | None = None
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    assert seen is not None
                    if seen.target == "/too-large":
                        await self._say(connection, writer, 417, b"no")
                        return False
                    writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])))
                data = await reader.read(65536)
                connection.receive_data(data)
            elif isinstance(event, h11.Request):
                headers = [(k.decode(), v.decode()) for k, v in event.headers.raw_items()]
                seen = Seen(event.method.decode(), event.target.decode(), headers)
                self.seen.append(seen)
                if seen.target == "/early":
                    await self._say(connection, writer, 413, b"too large")
                    writer.write_eof()
                    while await reader.read(65536):  # else the system resets the connection, and the answer is lost
                        pass
                    return False
            elif isinstance(event, h11.Data):
                assert seen is not None
                seen.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        assert seen is not None
        return await self._answer(connection, reader, writer, seen)

    async def _say(self, connection: h11.Connection, writer: Any, status: int, body: bytes, *extra: Any) -> None:
        headers = [("Content-Length", str(len(body))), *extra]
        writer.write(connection.send(h11.Response(status_code=status, headers=headers, reason="As Asked")))
        writer.write(connection.send(h11.Data(data=body)))
        writer.write(connection.send(h11.EndOfMessage()))
        await writer.drain()

    async def _answer(self, connection: h11.Connection, reader: Any, writer: Any, seen: Seen) -> bool:
        match seen.target.partition("?")[0].split("/")[1:]:
            case ["big", size]:
                writer.write(connection.send(h11.Response(status_code=200, headers=[("Content-Length", size)])))
                left = int(size)
                while left:
                    piece = bytes(min(left, 65536))
                    writer.write(connection.send(h11.Data(data=piece)))
                    await writer.drain()
                    left -= len(piece)
                writer.write(connection.send(h11.EndOfMessage()))
            case ["chunked"]:
                head = [("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")]
                writer.write(connection.send(h11.Response(status_code=200, headers=head)))
                for piece in (b"one,", b"two,", b"three"):
                    writer.write(connection.send(h11.Data(data=piece)))
                    await asyncio.sleep(0.01)
                writer.write(connection.send(h11.EndOfMessage(headers=[("X-Sum", "3")])))
            case ["until-close"]:
                writer.write(b"HTTP/1.1 200 OK\r\nX-Kind: old\r\n\r\nall of it")
                return False
            case ["both-lengths"]:
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
                )
                return False
            case ["breaks"]:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
                return False
            case ["resets"]:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\nonly this")
                await writer.drain()
                await asyncio.sleep(0.05)
                reset(writer)
                return False
            case ["garbage"]:
                writer.write(b"\x00\x01\x02 nonsense\r\n\r\n")
                return False
            case ["silent"]:
                await reader.read(1)
                return False
            case ["closes"]:
                return False
            case ["then-close"]:
                await self._say(connection, writer, 200, b"bye")
                return False
            case ["more-than-asked"]:
                await self._say(connection, writer, 200, b"first")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra")
            case ["switch"]:
                head = [("Upgrade", "shout"), ("Connection", "Upgrade")]
                if not seen.values("upgrade"):
                    await self._say(connection, writer, 426, b"upgrade first")
                    return True
                writer.write(connection.send(h11.InformationalResponse(status_code=101, headers=head)))
                while line := await reader.readline():
                    writer.write(line.upper())
                    await writer.drain()
                return False
            case ["hint"]:
                hint = h11.InformationalResponse(status_code=103, headers=[("Link", "</x>")])
                writer.write(connection.send(hint))
                await self._say(connection, writer, 200, b"hinted")
            case ["hops"]:
                extra = [("Connection", "x-secret"), ("X-Secret", "1"), ("Keep-Alive", "9"), ("X-Kept", "yes")]
                await self._say(connection, writer, 200, b"hops", *extra)
            case _ if seen.method == "HEAD":
                writer.write(connection.send(h11.Response(status_code=200, headers=[("Content-Length", "12345")])))
                writer.write(connection.send(h11.EndOfMessage()))
            case _:
                await self._say(connection, writer, 200, f"{seen.method} {seen.target}\n".encode() + seen.body)
        await writer.drain()
        return True


class Net:
    """Makes gates and servers, and ends them."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()

    async def gate(self, *, ask: Any = None, limits: Limits | None = None, resolve: Any = None, **rules: Any) -> Opened:
        proxy = RuledProxy(limits=limits, resolve=resolve)
        self._stack.push_async_callback(proxy.aclose)
        return await self.opened(proxy.gate(NetworkRules(**rules), ask))

    async def opened(self, gate: Gate) -> Opened:
        return Opened(gate, await gate.listen(), self)

    async def open_gate(self, **extra: Any) -> Opened:
        """A gate to the servers of the test."""
        return await self.gate(domains={HOST: "allow"}, **extra)

    async def origin(self, port: int = 0) -> Origin:
        origin = Origin()
        origin.port = await self.server(origin.serve, port=port)
        return origin

    async def server(self, handler: Callable[..., Awaitable[None]], host: str = HOST, port: int = 0) -> int:
        tasks: set[asyncio.Task[Any]] = set()
        writers: list[asyncio.StreamWriter] = []

        async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            writers.append(writer)
            with contextlib.suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
                await handler(reader, writer)

        server = await asyncio.start_server(noted, host, port, backlog=2048)

        async def end() -> None:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in writers:
                await closed(writer)

        self._stack.push_async_callback(end)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def connect(self, port: int, host: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection(host, port, limit=2**20)
        self._stack.push_async_callback(closed, writer)
        return reader, writer

    reset = staticmethod(lambda writer: reset(writer))

    async def aclose(self) -> None:
        await self._stack.aclose()


@attrs.define
class Opened:
    """A gate that listens."""

    gate: Gate
    ports: ProxyPorts
    net: Net

    async def connect(self) -> Streams:
        return await self.net.connect(self.ports.http)

    async def raw(self, data: bytes) -> bytes:
        """Everything that comes back on a new connection, until it is closed."""
        reader, writer = await self.connect()
        writer.write(data)
        return await reader.read()

    async def ask(self, method: str, url: str, *headers: tuple[str, str], body: bytes | None = None) -> Answer:
        """One request on a connection of its own."""
        reader, writer = await self.connect()
        answer = await exchange(reader, writer, method, url, *headers, body=body)
        await closed(writer)
        return answer

    async def tunnel(
        self, host: str, port: int, early: bytes = b""
    ) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode() + early)
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1]), reader, writer

    async def socks(self, host: str | bytes, port: int, *, kind: int = 3, command: int = 1) -> tuple[int, Any, Any]:
        """The reply's code, and the connection."""
        reader, writer = await self.net.connect(self.ports.socks)
        writer.write(b"\x05\x01\x00")
        assert await reader.readexactly(2) == b"\x05\x00"
        name = host.encode() if isinstance(host, str) else host
        address = {
            1: lambda: socket.inet_aton(name.decode()),
            3: lambda: bytes([len(name)]) + name,
            4: lambda: socket.inet_pton(socket.AF_INET6, name.decode()),
        }[kind]()
        writer.write(bytes([5, command, 0, kind]) + address + port.to_bytes(2))
        reply = await reader.readexactly(10)
        assert reply[0] == 5
        return reply[1], reader, writer

    @property
    def reasons(self) -> list[str]:
        return [blocked.reason for blocked in self.gate.blocked]


async def exchange(
    reader: asyncio.StreamReader,
    writer: Any,
    method: str,
    url: str,
    *headers: tuple[str, str],
    body: bytes | None = None,
) -> Answer:
    """One request and its answer on a connection."""
    connection = h11.Connection(h11.CLIENT)
    given = {name.lower() for name, _ in headers}
    named = [] if "host" in given else [("Host", url.partition("://")[2].partition("/")[0] or "proxy")]
    length = [("Content-Length", str(len(body)))] if body is not None and "transfer-encoding" not in given else []
    writer.write(connection.send(h11.Request(method=method, target=url, headers=[*named, *headers, *length])))
    if body:
        writer.write(connection.send(h11.Data(data=body)))
    writer.write(connection.send(h11.EndOfMessage()))
    answer = Answer(0, "", {}, b"", complete=False)
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Response):
                answer.status, answer.reason = event.status_code, event.reason.decode()
                answer.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                answer.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                answer.complete = True
                answer.headers |= {name.decode(): value.decode() for name, value in event.headers}
                return answer
            elif not isinstance(event, h11.InformationalResponse):
                return answer
    except (ConnectionError, h11.RemoteProtocolError):
        return answer


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side is told of a reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def host() -> str:
    return HOST
