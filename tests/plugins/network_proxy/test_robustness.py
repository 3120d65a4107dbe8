"""Clients and servers that do not behave."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codex_framework import NetworkRules
from codex_plugin_network_proxy.limits import Limits
from codex_plugin_network_proxy.proxy import RuledProxy

HEAD = "Host: example.com\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (f"GET /path HTTP/1.1\r\n{HEAD}", 400, "names no host. This is a proxy"),
        (f"GET /?u=http://example.com/ HTTP/1.1\r\n{HEAD}", 400, "names no host"),
        (f"GET * HTTP/1.1\r\n{HEAD}", 400, "names no host"),
        (f"GET //example.com/ HTTP/1.1\r\n{HEAD}", 400, "names no host"),
        (f"GET https://example.com/ HTTP/1.1\r\n{HEAD}", 400, "https:// is not supported in a request"),
        (f"GET ftp://example.com/ HTTP/1.1\r\n{HEAD}", 400, "ftp:// is not supported"),
        (f"GET file:///etc/passwd HTTP/1.1\r\n{HEAD}", 400, "file:// is not supported"),
        (f"GET http:// HTTP/1.1\r\n{HEAD}", 400, "no valid host"),
        (f"GET http://user:secret@example.com/ HTTP/1.1\r\n{HEAD}", 400, "Authorization"),
        (f"GET http://example.com@evil.example/ HTTP/1.1\r\n{HEAD}", 400, "Authorization"),
        (f"GET http://example.com\\@evil.example/ HTTP/1.1\r\n{HEAD}", 400, "Authorization"),
        (f"GET http://example.com%2eevil.example/ HTTP/1.1\r\n{HEAD}", 400, "is not a host"),
        (f"GET http://example.com:0/ HTTP/1.1\r\n{HEAD}", 400, "port"),
        (f"GET http://example.com:99999/ HTTP/1.1\r\n{HEAD}", 400, "port"),
        (f"GET http://evil.example/ HTTP/1.1\r\n{HEAD}", 400, "The header Host and the URL name different hosts"),
        (f"GET http://example.com:81/ HTTP/1.1\r\n{HEAD}", 400, "The header Host and the URL name different hosts"),
        ("GET http://example.com/ HTTP/1.1\r\nHost:\r\n\r\n", 400, "Host is invalid"),
        ("GET http://example.com/ HTTP/1.1\r\n\r\n", 400, "Host"),
        (f"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n{HEAD}", 400, "Host"),
        (f"CONNECT example.com HTTP/1.1\r\n{HEAD}", 400, "HOST:PORT"),
        (f"CONNECT http://example.com:443/ HTTP/1.1\r\n{HEAD}", 400, "HOST:PORT"),
        (f"CONNECT example.com:443 HTTP/1.1\r\nContent-Length: 5\r\n{HEAD}hello", 400, "cannot have a body"),
        (
            f"POST http://example.com/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n{HEAD}",
            400,
            "ambiguous",
        ),
        (
            f"POST http://example.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n{HEAD}",
            400,
            "ambiguous",
        ),
        (f"POST http://example.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n{HEAD}", 400, "ambiguous"),
        (
            f"POST http://example.com/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n{HEAD}",
            400,
            "Content-Length",
        ),
        (f"POST http://example.com/ HTTP/1.1\r\nContent-Length: +5\r\n{HEAD}", 400, "Content-Length"),
        (f"POST http://example.com/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n{HEAD}", 501, "chunked"),
        (f"POST http://example.com/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n{HEAD}", 400, "not an HTTP request"),
        (f"GET http://example.com/ HTTP/1.1\r\nX: a\rb\r\n{HEAD}", 400, "not an HTTP request"),
        (f"GET http://example.com/ HTTP/1.1\r\nX: a\0b\r\n{HEAD}", 400, "not an HTTP request"),
        (f"GET http://example.com/\tx HTTP/1.1\r\n{HEAD}", 400, "not an HTTP request"),
        (f"GET http://exa\u00e9mple.com/ HTTP/1.1\r\n{HEAD}", 400, "not an HTTP request"),
        (f"GET http://example.com/ HTTP/2.0\r\n{HEAD}", 505, "HTTP"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "not an HTTP request"),
        ("hello\r\n\r\n", 400, "not an HTTP request"),
        ("\r\n\r\n\r\n \r\n", 400, "not an HTTP request"),
        ("GET http://example.com/ HTTP/1.1\r\nX: " + "x" * 70_000, 431, "too long"),
        ("GET http://example.com/" + "x" * 70_000, 431, "too long"),
        ("GET / HTTP/1.1\r\nX-Unix-Socket: /a\r\nX-Unix-Socket: /b\r\n" + HEAD, 400, "more than one"),
        ("GET / HTTP/1.1\r\nX-Unix-Socket: /\xff\r\n" + HEAD, 400, "UTF-8"),
    ],
)
async def test_what_is_no_proper_request_is_answered_and_ends_the_connection(net, data, status, text):
    gate = await net.gate(domains={"*": "allow"}, resolve=_nothing)
    said = (await gate.raw(data.encode("latin-1"))).decode()
    assert said.startswith(f"HTTP/1.1 {status} ")
    assert text in said.partition("\r\n\r\n")[2]
    assert said.count("HTTP/1.1 ") == 1


async def _nothing(name):
    raise AssertionError(f"{name} must not be looked up")


async def test_a_second_request_in_a_body_is_a_body(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    inner = "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    body = f"{len(inner):x}\r\n{inner}\r\n0\r\n\r\n"
    said = await gate.raw(
        f"POST http://{host}:{origin.port}/x HTTP/1.1\r\nHost: {host}:{origin.port}\r\nConnection: close\r\n"
        f"Transfer-Encoding: chunked\r\n\r\n{body}".encode()
    )
    assert said.startswith(b"HTTP/1.1 200 ")
    (seen,) = origin.seen
    assert seen.body == inner.encode()
    assert gate.gate.blocked == ()


async def test_line_ends_in_chunks_are_what_they_have_to_be(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    said = await gate.raw(
        f"POST http://{host}:{origin.port}/x HTTP/1.1\r\nHost: {host}:{origin.port}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n".encode()
    )
    assert b" 200 " not in said
    assert [seen.body for seen in origin.seen if seen.body not in (b"", b"hello")] == []


async def test_every_pipelined_request_is_checked(net, host):
    origin = await net.origin()
    gate = await net.gate(domains={host: "allow"})
    good = f"GET http://{host}:{origin.port}/x HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n"
    bad = "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    last = good.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    said = (await gate.raw((good + bad + good + bad + last).encode())).decode()
    assert [line.split()[1] for line in said.splitlines() if line.startswith("HTTP/1.1")] == [
        "200",
        "403",
        "200",
        "403",
        "200",
    ]


async def test_what_follows_a_refused_tunnel_is_not_a_request(net, host):
    origin = await net.origin()
    gate = await net.gate(domains={host: "allow"})
    inner = f"GET http://{host}:{origin.port}/ HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n"
    said = await gate.raw(f"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n{inner}".encode())
    assert said.count(b"HTTP/1.1 ") == 1
    assert origin.seen == []


async def test_slow_heads_end_and_slow_clients_do_not(net, host):
    origin = await net.origin()
    gate = await net.open_gate(limits=Limits(head_s=0.5, between_s=0.3, linger_s=0.1))
    reader, writer = await gate.connect()
    said = asyncio.ensure_future(reader.read())
    with contextlib.suppress(ConnectionError):
        for byte in b"GET http://example.com/" * 10:
            if said.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
    assert b" 408 " in await said
    reader, _ = await gate.connect()
    assert await reader.read() == b"", "it rested too long"
    reader, _ = await net.connect(gate.ports.socks)
    assert await reader.read() == b""
    reader, writer = await gate.connect()
    writer.write(
        f"POST http://{host}:{origin.port}/x HTTP/1.1\r\nHost: {host}:{origin.port}\r\nContent-Length: 8\r\n\r\n".encode()
    )
    for _ in range(8):
        await asyncio.sleep(0.1)
        writer.write(b"x")
    assert b" 200 " in await reader.readuntil(b"xxxxxxxx")


async def test_a_server_that_says_nothing_becomes_a_504(net, host):
    origin = await net.origin()
    gate = await net.open_gate(limits=Limits(idle_s=0.3))
    answer = await gate.ask("GET", f"http://{host}:{origin.port}/silent")
    assert (answer.status, answer.body) == (504, b"The host did not respond in time.\n")


async def test_slow_lookups_become_a_504(net):
    async def resolve(name):
        await asyncio.sleep(60)

    gate = await net.gate(domains={"*": "allow"}, resolve=resolve, limits=Limits(resolve_s=0.2))
    answer = await gate.ask("GET", "http://example.com/")
    assert (answer.status, answer.body) == (504, b"Looking up example.com took longer than 0.2 s.\n")
    assert (await gate.socks("example.com", 80))[0] == 6


@pytest.mark.slow
async def test_a_thousand_connections_at_once(net, host):
    """It takes seconds: both sides of a thousand connections are in this process."""
    origin = await net.origin()
    gate = await net.open_gate()
    url = f"http://{host}:{origin.port}/x"

    async def one(number):
        if number % 3:
            return (await gate.ask("GET", url)).status
        status, reader, writer = await gate.tunnel(host, origin.port)
        writer.write(f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readuntil(b"GET /x\n")
        writer.close()
        return status

    try:
        statuses = await asyncio.gather(*(one(number) for number in range(1000)))
    except OSError as error:
        pytest.skip(f"this machine lets a process have too few files for the test: {error}")
    assert set(statuses) == {200}
    assert len(origin.seen) == 1000


async def test_a_gate_takes_no_more_connections_than_it_has_room_for(net, monkeypatch):
    monkeypatch.setattr("codex_plugin_network_proxy.limits._capacity", lambda: 2)
    gate = await net.gate()
    idle = [await gate.connect() for _ in range(2)]
    reader, writer = await gate.connect()
    writer.write(b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await reader.readline()
    idle[0][1].close()
    assert b" 403 " in await reader.readline()


@pytest.mark.slow
async def test_a_client_that_reads_nothing_does_not_keep_its_place(net, monkeypatch):
    """It takes seconds: so many requests fill every buffer on the way back."""
    monkeypatch.setattr("codex_plugin_network_proxy.limits._capacity", lambda: 1)
    gate = await net.gate(limits=Limits(half_closed_s=0.3, linger_s=0.1))
    _, writer = await gate.connect()
    writer.transport.pause_reading()
    writer.write(b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n" * 50_000)
    assert (await gate.ask("GET", "http://example.com/")).status == 403


@settings(max_examples=settings().max_examples * 3 // 10, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.sampled_from(
            [
                "GET ",
                "CONNECT ",
                "POST ",
                "http://127.0.0.2",
                "example.com:443",
                "/",
                " HTTP/1.1",
                " HTTP/1.0",
                "\r\n",
                "\n",
                "Host: ",
                "Host: 127.0.0.2",
                "Transfer-Encoding: chunked",
                "Content-Length: ",
                "5",
                "\r\n\r\n",
                "0\r\n\r\n",
                "\x00",
                "Connection: upgrade",
                "Upgrade: x",
                "X-Unix-Socket: /tmp",
                "Expect: 100-continue",
                "\x05\x01\x00",
                "é",
                " ",
                ":",
            ]
        )
        | st.text(max_size=5),
        max_size=20,
    ).map("".join),
    st.booleans(),
)
def test_anything_at_all_is_answered_or_closed(text, to_socks):
    problems = []

    async def whole():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        proxy = RuledProxy(limits=Limits(linger_s=0.05))
        gate = proxy.gate(NetworkRules(domains={"127.0.0.2": "allow"}))
        ports = await gate.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.socks if to_socks else ports.http)
        writer.write(text.encode())
        writer.write_eof()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                said = await reader.read()
                assert said == b"" or said.startswith((b"HTTP/1.1 ", b"\x05"))
        writer.close()
        await proxy.aclose()

    asyncio.run(whole())
    assert problems == []


@settings(max_examples=settings().max_examples * 3 // 10, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.sampled_from(
            [
                b"HTTP/1.1 200 OK\r\n",
                b"HTTP/1.1 101 X\r\n",
                b"HTTP/1.1 100 X\r\n",
                b"HTTP/1.0 204 X\r\n",
                b"\r\n",
                b"\r\n\r\n",
                b"Content-Length: 3\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Connection: close\r\n",
                b"3\r\nabc\r\n",
                b"0\r\n\r\n",
                b"abc",
                b"Upgrade: x\r\n",
                b"\x00",
                b"\xff",
                b": \r\n",
            ]
        ),
        max_size=10,
    ).map(b"".join)
)
def test_any_answer_at_all_is_passed_on_or_told_to_be_none(answer):
    problems = []

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def whole():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        server = await asyncio.start_server(serve, "127.0.0.2", 0)
        port = server.sockets[0].getsockname()[1]
        proxy = RuledProxy(limits=Limits(linger_s=0.05))
        gate = proxy.gate(NetworkRules(domains={"127.0.0.2": "allow"}))
        ports = await gate.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.http)
        writer.write(
            f"GET http://127.0.0.2:{port}/ HTTP/1.1\r\nHost: 127.0.0.2:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                assert (await reader.read())[:9] in (b"HTTP/1.1 ", b"")
        writer.close()
        await proxy.aclose()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(whole())
    assert problems == []
