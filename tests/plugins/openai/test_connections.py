"""What a connection makes of the bytes that come, however the network cuts them up, and when it is kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_lib_model_client import http_transport
from codex_lib_model_client.connection import _QUEUE_LIMIT, Connection
from codex_lib_model_client.dialing import Dialer
from codex_lib_model_client.http_transport import HttpTransport
from codex_lib_model_client.transport_errors import CutError, SendError, SilenceError


async def body_of(connection: Connection) -> bytes:
    body = b""
    while piece := await connection.read(0.01):
        body += piece
    return body


def fed(*pieces: bytes, closed: bool = False) -> Connection:
    """Return a connection that is open and has got these bytes."""
    connection = Connection()
    connection.alive = True
    connection.begin()
    for piece in pieces:
        if connection.alive:
            connection.data_received(piece)
    if closed:
        connection.connection_lost(None)
    return connection


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(0, 300), max_size=20),
    st.sampled_from(["chunked", "length", "close"]),
    st.sampled_from([b"\r\n", b"\n"]),
)
def test_responses_are_the_same_wherever_the_network_cuts_them(
    body: list[bytes], cuts: list[int], how: str, line_end: bytes
) -> None:
    whole = b"".join(body)
    if how == "chunked":
        field = b"Transfer-Encoding: chunked" + line_end
        coded = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part) for part in body) + b"0\r\nTrailer: x\r\n\r\n"
    else:
        field, coded = (b"Content-Length: %d%b" % (len(whole), line_end) if how == "length" else b""), whole
    head = b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nx-a:2\r\n".replace(
        b"\r\n", line_end
    )
    wire = head + field + line_end + coded
    places = [0, *sorted(cut for cut in cuts if cut < len(wire)), len(wire)]
    connection = fed(*(wire[start:stop] for start, stop in itertools.pairwise(places)))
    assert connection.reusable is (how != "close")
    connection.connection_lost(None)
    assert (connection.status, connection.phrase, connection.headers["x-a"]) == (200, "OK", "1, 2")
    assert not {"x-early", "trailer"} & connection.headers.keys()
    assert asyncio.run(body_of(connection)) == whole


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"1" * 70_000,
        *(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + rest for rest in (b"no size\r\n", b"-5\r\n")),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabXY0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_response_is_refused(wire: bytes) -> None:
    connection = fed(wire)

    async def use() -> None:
        await connection.send(b"", 0.01, lambda: None)
        await body_of(connection)

    with pytest.raises((SendError, CutError), match=r"the response is|too long|changed the protocol"):
        asyncio.run(use())
    assert not connection.alive


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_a_connection_that_says_close_or_sends_too_much_is_not_kept(wire: bytes) -> None:
    connection = fed(wire)
    assert asyncio.run(body_of(connection)) == wire.partition(b"\r\n\r\n")[2][:1]
    assert not connection.reusable


def test_a_body_that_ends_early_is_cut() -> None:
    for head in (b"content-length: 9", b"transfer-encoding: chunked"):
        connection = fed(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n3\r\nabc" % head, closed=True)
        with pytest.raises(CutError):
            asyncio.run(body_of(connection))


class Listener:
    """A server whose connections are handled by a function, each in a thread. It counts them, and notes their ends."""

    def __init__(self, handle: Callable[[socket.socket, int], None]) -> None:
        self._handle = handle
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/responses"
        self.opened = self.closed = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.opened += 1
            self._threads.append(threading.Thread(target=self._serve, args=(connection, self.opened)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(60)
            self._handle(connection, number)
            connection.recv(1)
        self.closed += 1

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket, int], None]], Listener]]:
    listeners: list[Listener] = []

    def start(handle: Callable[[socket.socket, int], None]) -> Listener:
        listeners.append(Listener(handle))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.stop()


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def answering(connection: socket.socket, number: int) -> None:
    while connection.recv(65_536):
        connection.sendall(OK)


@contextlib.asynccontextmanager
async def transport_to(listener: Listener) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(Dialer(listener.url, None, None))
    try:
        yield transport
    finally:
        await transport.aclose()


async def asked(transport: HttpTransport, listener: Listener) -> bytes:
    answer = await transport.post(listener.url, {}, b"{}", head_s=5, on_sent=lambda: None)
    try:
        body = b""
        while piece := await answer.read(5):
            body += piece
        return body
    finally:
        await answer.aclose()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def run(job: Coroutine[Any, Any, None]) -> None:
    asyncio.run(job)


def test_many_threads_leave_few_connections_and_closing_leaves_none(serve: Any) -> None:
    together = threading.Barrier(60)

    def handle(connection: socket.socket, number: int) -> None:
        connection.recv(65_536)
        if number <= 60:
            together.wait(60)
        connection.sendall(OK)
        answering(connection, number)

    listener = serve(handle)

    async def job() -> None:
        async with transport_to(listener) as transport:
            bodies = await asyncio.gather(*(asked(transport, listener) for _ in range(60)))
            assert bodies == [b"ok"] * 60
            assert listener.opened == 60
            await until(lambda: listener.opened - listener.closed <= http_transport._KEPT)
            opened = listener.opened
            assert await asked(transport, listener) == b"ok"
            assert listener.opened == opened
        await until(lambda: listener.closed == listener.opened)

    run(job())


def test_an_unused_connection_expires(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "_KEPT_S", 0.05)
    listener = serve(answering)

    async def job() -> None:
        async with transport_to(listener) as transport:
            await asked(transport, listener)
            await until(lambda: listener.closed == 1)
            assert await asked(transport, listener) == b"ok"
            assert listener.opened == 2

    run(job())


def test_a_connection_that_the_server_closed_is_not_used_again(serve: Any) -> None:
    def once(connection: socket.socket, number: int) -> None:
        connection.recv(65_536)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_WR)

    listener = serve(once)

    async def job() -> None:
        async with transport_to(listener) as transport:
            for _ in range(3):
                assert await asked(transport, listener) == b"ok"
                await until(lambda: not transport._idle)

    run(job())
    assert listener.opened == 3


def test_a_request_on_a_connection_that_just_closed_is_sent_once_more(serve: Any) -> None:
    """The server ends the connection when it gets the second request on it, as one does whose time limit has just expired."""

    def handle(connection: socket.socket, number: int) -> None:
        connection.recv(65_536)
        connection.sendall(OK)
        connection.recv(1)
        connection.shutdown(socket.SHUT_RDWR)

    listener = serve(handle)

    async def job() -> None:
        async with transport_to(listener) as transport:
            assert await asked(transport, listener) == b"ok"
            assert await asked(transport, listener) == b"ok"
            assert listener.opened == 2

    run(job())


def test_a_request_that_was_answered_in_part_is_not_sent_again(serve: Any) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        connection.recv(65_536)
        connection.sendall(OK)
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200")
        connection.shutdown(socket.SHUT_RDWR)

    listener = serve(handle)

    async def job() -> None:
        async with transport_to(listener) as transport:
            assert await asked(transport, listener) == b"ok"
            with pytest.raises(SendError):
                await asked(transport, listener)
            assert listener.opened == 1

    run(job())


def test_a_response_that_is_left_early_closes_its_connection(serve: Any) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        connection.recv(65_536)
        if number == 1:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")

    listener = serve(handle)

    async def job() -> None:
        async with transport_to(listener) as transport:
            answer = await transport.post(listener.url, {}, b"", head_s=5, on_sent=lambda: None)
            assert await answer.read(5) == b"ok"
            await answer.aclose()
            await answer.aclose()
            await until(lambda: listener.closed == 1)
            with pytest.raises(SilenceError):
                await transport.post(listener.url, {}, b"", head_s=0.05, on_sent=lambda: None)
            await until(lambda: listener.closed == 2)

    run(job())


def test_a_server_that_sends_more_than_is_read_has_to_wait(serve: Any) -> None:
    size = 30_000_000

    def handle(connection: socket.socket, number: int) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)

    listener = serve(handle)

    async def job() -> None:
        async with transport_to(listener) as transport:
            answer = await transport.post(listener.url, {}, b"", head_s=5, on_sent=lambda: None)
            await asyncio.sleep(0.2)
            first = await answer.read(5)
            length = len(first)
            while piece := await answer.read(5):
                length += len(piece)
            await answer.aclose()
            assert len(first) < 5_000_000
            assert length == size

    run(job())


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def test_trailers_have_a_limit() -> None:
    connection = fed(CHUNKED, b"2\r\nab\r\n0\r\n", *[b"x: " + b"y" * 1000 + b"\r\n"] * 100)
    assert not connection.alive
    with pytest.raises(CutError, match="too many trailers"):
        asyncio.run(body_of(connection))


def test_the_lengths_of_many_chunks_do_not_count_as_trailers() -> None:
    assert fed(CHUNKED, *[b"1\r\n", b"a\r\n"] * 20_000, b"0\r\n\r\n").reusable


def test_a_response_has_arrived_when_nothing_follows_it() -> None:
    assert not fed(CHUNKED, b"1\r\na\r\n").has_arrived
    assert fed(CHUNKED, b"1\r\na\r\n", b"0\r\n\r\n").has_arrived


class Wire(asyncio.Transport):
    """A transport that only knows whether reading is paused."""

    paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def test_a_connection_is_read_again_after_a_response_of_which_much_was_left_unread() -> None:
    connection, wire = Connection(), Wire()
    connection.connection_made(wire)
    connection.begin()
    size = _QUEUE_LIMIT + 1
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
    assert (connection.reusable, wire.paused) == (True, True)
    connection.begin()
    assert not wire.paused
    assert connection.take() == b""


@pytest.mark.parametrize("change", [lambda it: it.use_transport(Wire()), lambda it: it.begin_raw()], ids=["tls", "raw"])
def test_what_came_before_tls_or_another_protocol_does_not_belong_to_it(change: Callable[[Connection], None]) -> None:
    connection = fed(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 101 forged")
    change(connection)
    assert connection.take() == b""
