"""Plain HTTP through a gate."""

from __future__ import annotations

import asyncio

import pytest


async def test_a_request_reaches_the_server_with_path_and_host(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    answer = await gate.ask("GET", f"http://{host}:{origin.port}/a/b?c=d#e", ("X-Mine", "1"))
    assert (answer.status, answer.reason, answer.body) == (200, "As Asked", b"GET /a/b?c=d\n")
    (seen,) = origin.seen
    assert seen.values("host") == [f"{host}:{origin.port}"]
    assert seen.values("x-mine") == ["1"]
    assert gate.gate.blocked == ()


@pytest.mark.parametrize(
    ("method", "rest", "target"),
    [("GET", "", "/"), ("GET", "?a", "/?a"), ("OPTIONS", "", "*"), ("GET", "/x#y", "/x"), ("OPTIONS", "/x", "/x")],
)
async def test_the_target_is_what_a_server_expects(net, host, method, rest, target):
    origin = await net.origin()
    gate = await net.open_gate()
    await gate.ask(method, f"http://{host}:{origin.port}{rest}", ("Host", f"{host}:{origin.port}"))
    assert [seen.target for seen in origin.seen] == [target]


async def test_headers_that_concern_one_hop_do_not_go_on(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    answer = await gate.ask(
        "POST",
        f"http://{host}:{origin.port}/hops",
        ("Connection", "keep-alive, X-Private, content-length, host"),
        ("X-Private", "1"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic secret"),
        ("TE", "trailers"),
        ("Upgrade", "h2c"),
        ("X-Kept", "1"),
        body=b"abc",
    )
    (seen,) = origin.seen
    names = {name.lower() for name, _ in seen.headers}
    assert names == {"host", "x-kept", "content-length"}
    assert seen.body == b"abc"
    assert {"x-secret", "keep-alive", "connection"}.isdisjoint(answer.headers)
    assert answer.headers["x-kept"] == "yes"


async def test_both_connections_are_kept_for_further_requests(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    writer.write(f"GET http://{host}:{origin.port}/1 HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode() * 3)
    for _ in range(3):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head
        assert await reader.readexactly(7) == b"GET /1\n"
    assert (len(origin.seen), origin.connections) == (3, 1)


async def test_a_kept_connection_is_not_used_for_another_server(net, host):
    one, other = await net.origin(), await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    for origin in (one, other, one):
        url = f"http://{host}:{origin.port}/x"
        writer.write(f"GET {url} HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode())
        await reader.readuntil(b"GET /x\n")
    assert (len(one.seen), len(other.seen)) == (2, 1)


async def test_a_kept_connection_that_the_server_has_closed_is_replaced(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    for _ in range(2):
        writer.write(
            f"GET http://{host}:{origin.port}/then-close HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode()
        )
        await reader.readuntil(b"bye")
    assert (len(origin.seen), origin.connections) == (2, 2)


async def test_a_kept_connection_that_breaks_under_the_next_request_is_replaced(net, host):
    async def once(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")  # the next one has come, and now it closes
        writer.close()

    port = await net.server(once)
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    for _ in range(2):
        writer.write(f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert b" 200 OK" in await reader.readuntil(b"\r\n\r\nok")


async def test_what_a_server_says_too_much_is_not_taken_for_the_next_answer(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    url = f"http://{host}:{origin.port}"
    for path, body in (("/more-than-asked", b"first"), ("/second", b"GET /second\n")):
        writer.write(f"GET {url}{path} HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert await reader.readexactly(len(body)) == body


async def test_bodies_of_every_kind_pass_both_ways(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    url = f"http://{host}:{origin.port}"
    answer = await gate.ask("PUT", f"{url}/x", ("Transfer-Encoding", "chunked"), body=b"chunks")
    assert answer.body == b"PUT /x\nchunks"
    assert origin.seen[-1].values("transfer-encoding") == ["chunked"]
    answer = await gate.ask("GET", f"{url}/chunked")
    assert (answer.body, answer.headers["x-sum"]) == (b"one,two,three", "3")
    answer = await gate.ask("GET", f"{url}/until-close")
    assert (answer.body, answer.complete) == (b"all of it", True)
    answer = await gate.ask("HEAD", f"{url}/x")
    assert (answer.headers["content-length"], answer.body, answer.complete) == ("12345", b"", True)
    answer = await gate.ask("GET", f"{url}/both-lengths")
    assert (answer.body, answer.complete) == (b"abcde", True)
    assert "content-length" not in answer.headers


async def test_a_client_of_http_1_0_is_answered_in_its_own_way(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    said = await gate.raw(f"GET http://{host}:{origin.port}/chunked HTTP/1.0\r\n\r\n".encode())
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert body == b"one,two,three"
    assert origin.seen[0].values("host") == [f"{host}:{origin.port}"]


async def test_a_server_can_say_to_go_on_with_the_body_or_not_to(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    for path, status in (("/x", b"100"), ("/too-large", b"417")):
        reader, writer = await gate.connect()
        writer.write(
            f"POST http://{host}:{origin.port}{path} HTTP/1.1\r\nHost: {host}:{origin.port}\r\n"
            "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == status
    reader, writer = await gate.connect()
    writer.write(f"GET http://{host}:{origin.port}/hint HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode())
    said = await reader.readuntil(b"hinted")
    assert said.index(b" 103 ") < said.index(b" 200 ")


async def test_a_body_follows_when_the_server_says_so(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    writer.write(
        f"POST http://{host}:{origin.port}/x HTTP/1.1\r\nHost: {host}:{origin.port}\r\n"
        "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode()
    )
    assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"body")
    assert b" 200 " in await reader.readuntil(b"POST /x\nbody")


async def test_an_answer_before_the_end_of_the_body_arrives(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    answer = await gate.ask("POST", f"http://{host}:{origin.port}/early", body=bytes(5_000_000))
    assert (answer.status, answer.body) == (413, b"too large")


async def test_a_protocol_can_be_changed(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    writer.write(
        f"GET http://{host}:{origin.port}/switch HTTP/1.1\r\nHost: {host}:{origin.port}\r\n"
        "Connection: Upgrade\r\nUpgrade: shout\r\n\r\nhello\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head
    assert await reader.readline() == b"HELLO\n"
    writer.write(b"more\n")
    assert await reader.readline() == b"MORE\n"
    writer.write_eof()
    assert await reader.read() == b""


@pytest.mark.parametrize("path", ["/breaks", "/resets"])
async def test_a_broken_answer_is_not_taken_for_a_whole_one(net, host, path):
    origin = await net.origin()
    gate = await net.open_gate()
    answer = await gate.ask("GET", f"http://{host}:{origin.port}{path}")
    assert answer.status == 200
    assert not answer.complete


@pytest.mark.parametrize("path", ["/garbage", "/closes"])
async def test_what_is_no_answer_becomes_a_502(net, host, path):
    origin = await net.origin()
    gate = await net.open_gate()
    answer = await gate.ask("GET", f"http://{host}:{origin.port}{path}")
    assert answer.status == 502
    assert f"{host}:{origin.port} sent no valid response" in answer.body.decode()
    assert answer.error is None


async def test_a_big_answer_does_not_pile_up_when_the_client_does_not_read(net, host):
    sent = 0

    async def pour(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 300000000\r\n\r\n")
        while True:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    port = await net.server(pour)
    gate = await net.open_gate()
    _, writer = await gate.connect()
    writer.transport.pause_reading()
    writer.write(f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    before = -1
    while before != sent or not sent:
        before = sent
        await asyncio.sleep(0.3)
    assert sent < 50_000_000


async def test_a_big_body_does_not_pile_up_when_the_server_does_not_read(net, host):
    async def stare(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        await asyncio.sleep(60)

    port = await net.server(stare)
    gate = await net.open_gate()
    _, writer = await gate.connect()
    writer.write(
        f"POST http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 300000000\r\n\r\n".encode()
    )
    sent = 0
    try:
        while sent < 300_000_000:
            async with asyncio.timeout(2):
                writer.write(bytes(65536))
                await writer.drain()
                sent += 65536
    except TimeoutError:
        pass
    assert 0 < sent < 50_000_000


async def test_a_client_that_leaves_ends_the_request_at_the_server(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    reader, writer = await gate.connect()
    writer.write(f"GET http://{host}:{origin.port}/silent HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode())
    while not origin.seen:
        await asyncio.sleep(0.01)
    net.reset(writer)
    while not origin.closed:
        await asyncio.sleep(0.01)
    del reader
