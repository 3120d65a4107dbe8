"""``CONNECT`` and SOCKS5: bytes both ways."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from codex_plugin_network_proxy.limits import Limits
from codex_plugin_network_proxy.wire import Wire


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"bye")
    writer.write_eof()


async def opened(gate, how, host, port, early=b""):
    if how == "connect":
        status, reader, writer = await gate.tunnel(host, port, early)
        assert status == 200
        return reader, writer
    code, reader, writer = await gate.socks(host, port)
    assert code == 0
    if early:
        writer.write(early)
    return reader, writer


HOW = pytest.mark.parametrize("how", ["connect", "socks"])


@HOW
async def test_bytes_go_both_ways_and_each_way_ends_by_itself(net, host, how):
    gate = await net.open_gate()
    port = await net.server(echo)
    reader, writer = await opened(gate, how, host, port, b"early ")
    writer.write(b"late")
    assert await reader.readexactly(10) == b"early late"
    writer.write_eof()
    assert await reader.read() == b"bye"


@HOW
async def test_the_server_can_speak_first_and_end_first(net, host, how):
    heard = asyncio.get_running_loop().create_future()

    async def greet(reader, writer):
        writer.write(b"hello")
        writer.write_eof()
        heard.set_result(await reader.read())

    gate = await net.open_gate()
    reader, writer = await opened(gate, how, host, await net.server(greet))
    assert await reader.read() == b"hello"
    writer.write(b"after the end")
    writer.write_eof()
    assert await heard == b"after the end"


@HOW
@pytest.mark.parametrize("ends", ["client", "server"])
async def test_a_reset_is_passed_on(net, host, how, ends):
    ended = asyncio.get_running_loop().create_future()

    async def serve(reader, writer):
        await reader.readexactly(2)
        if ends == "server":
            net.reset(writer)
            return
        try:
            await reader.read()
            ended.set_result("end")
        except ConnectionResetError:
            ended.set_result("reset")

    gate = await net.open_gate()
    reader, writer = await opened(gate, how, host, await net.server(serve))
    writer.write(b"go")
    if ends == "server":
        with pytest.raises(ConnectionResetError):
            await reader.read()
    else:
        await asyncio.sleep(0.05)
        net.reset(writer)
        assert await ended == "reset"


@HOW
async def test_much_passes_unchanged_at_any_speed(net, host, how):
    gate = await net.open_gate()
    reader, writer = await opened(gate, how, host, await net.server(echo))
    sent = bytes(range(256)) * 40_000

    async def feed():
        for start in range(0, len(sent), 1_000_000):
            writer.write(sent[start : start + 1_000_000])
            await writer.drain()
        writer.write_eof()

    feeding = asyncio.ensure_future(feed())
    await asyncio.sleep(0.2)
    got = bytearray()
    while data := await reader.read(100_000):
        got += data
    await feeding
    assert bytes(got) == sent + b"bye"


async def test_a_wire_that_has_sent_what_waited_can_be_ended_again():
    """A transport of Python 3.11 raises if it is aborted after close() has sent what was left."""
    loop = asyncio.get_running_loop()
    faults = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    ours, theirs = socket.socketpair()
    _, wire = await loop.connect_accepted_socket(lambda: Wire(set()), sock=ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    wire.transport.write(bytes(1_000_000))
    assert wire.transport.get_write_buffer_size() > 0
    wire.close()
    assert len(await reader.read()) == 1_000_000
    await wire.lost
    wire.abort()
    wire.reset()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    writer.close()
    assert faults == []


@HOW
async def test_nothing_piles_up_behind_a_reader_that_stops(net, host, how):
    sent = 0

    async def pour(reader, writer):
        nonlocal sent
        while True:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    gate = await net.open_gate()
    reader, writer = await opened(gate, how, host, await net.server(pour))
    writer.transport.pause_reading()
    before = -1
    while before != sent or not sent:
        before = sent
        await asyncio.sleep(0.3)
    assert sent < 50_000_000
    del reader


async def test_an_idle_tunnel_ends_and_a_half_closed_one_sooner(net, host):
    async def stare(reader, writer):
        await asyncio.sleep(60)

    port = await net.server(stare)
    gate = await net.open_gate(limits=Limits(idle_s=0.3))
    _, reader, _ = await gate.tunnel(host, port)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    gate = await net.open_gate(limits=Limits(half_closed_s=0.3))
    _, reader, writer = await gate.tunnel(host, port)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


async def test_a_tunnel_that_carries_something_is_not_idle(net, host):
    gate = await net.open_gate(limits=Limits(idle_s=0.6))
    _, reader, writer = await gate.tunnel(host, await net.server(echo))
    for _ in range(6):
        await asyncio.sleep(0.2)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"


@pytest.mark.parametrize("kind", [1, 3, 4])
async def test_socks_takes_every_kind_of_address(net, kind):
    try:
        port = await net.server(echo, host="::1" if kind == 4 else "127.0.0.1")
    except OSError:
        pytest.skip("no IPv6 here")
    gate = await net.gate(allow_local_binding=True, domains={"*": "allow"})
    name = {1: "127.0.0.1", 3: "LOCALHOST.", 4: "::1"}[kind]
    code, reader, writer = await gate.socks(name, port, kind=kind)
    assert code == 0
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"


@pytest.mark.parametrize(
    ("greeting", "answer"),
    [
        (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b""),  # SOCKS4
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (b"\x05\x01\x02", b"\x05\xff"),  # only with a password
        (b"\x05\x00", b"\x05\xff"),
        (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07"),  # BIND
        (b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07"),  # UDP ASSOCIATE
        (b"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x08"),  # no such kind of address
        (b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", b"\x05\x00\x05\x01"),  # an empty name
        (b"\x05\x01\x00\x05\x01\x00\x03\x02\xff\xfe\x00\x50", b"\x05\x00\x05\x01"),  # no UTF-8
        (b"\x05\x01\x00\x05\x01\x00\x03\x03a/b\x00\x50", b"\x05\x00\x05\x01"),
        (b"\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x00", b"\x05\x00\x05\x01"),  # port 0
        (b"\x05\x01\x00\x06\x01\x00\x03\x01a\x00\x50", b"\x05\x00\x05\x01"),
        (b"\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50", b"\x05\x00\x05\x02"),  # not allowed
    ],
)
async def test_socks_answers_what_it_does_not_do(net, greeting, answer):
    gate = await net.gate()
    reader, writer = await net.connect(gate.ports.socks)
    for byte in greeting:  # in pieces
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    said = await reader.read()
    assert said.startswith(answer)
    assert len(said) in (len(answer), len(answer) + 8)


async def test_a_gate_without_socks_has_no_port_for_it(net):
    gate = await net.gate(enable_socks5=False)
    assert gate.ports.socks == 0
    assert gate.gate.environment(gate.ports)["ALL_PROXY"] == f"http://127.0.0.1:{gate.ports.http}"
