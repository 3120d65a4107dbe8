"""Gates: many at once, on sockets of their own or given ones, opened and closed at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework import NetworkRules, ProxyPorts, SandboxError
from codex_plugin_network_proxy.proxy import RuledProxy


async def test_a_gate_has_the_same_ports_each_time(net):
    gate = await net.gate()
    assert await gate.gate.listen() == gate.ports
    assert 0 not in gate.ports
    assert gate.ports.http != gate.ports.socks


async def test_given_sockets_are_copied_and_left_alone(net, host):
    origin = await net.origin()
    proxy = RuledProxy()
    with socket.create_server((host, 0)) as http, socket.create_server((host, 0)) as socks:
        ports = ProxyPorts(http.getsockname()[1], socks.getsockname()[1])
        for round_ in range(2):
            gate = proxy.gate(NetworkRules(domains={host: "allow"}))
            await gate.serve(http, socks)
            reader, writer = await net.connect(ports.http, host)
            url = f"http://{host}:{origin.port}/{round_}"
            writer.write(f"GET {url} HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode())
            await reader.readuntil(f"GET /{round_}\n".encode())
            reader, writer = await net.connect(ports.socks, host)
            writer.write(b"\x05\x01\x00")
            assert await reader.readexactly(2) == b"\x05\x00"
            await gate.aclose()
            assert await reader.read() == b""
        http.settimeout(60)
        late = socket.create_connection((host, ports.http))
        http.accept()[0].close()
        late.close()
    await proxy.aclose()


async def test_it_serves_when_the_given_sockets_are_closed_by_their_owner(net, host):
    proxy = RuledProxy()
    gate = proxy.gate(NetworkRules())
    http = socket.create_server((host, 0))
    port = http.getsockname()[1]
    await gate.serve(http, None)
    http.close()
    reader, writer = await net.connect(port, host)
    writer.write(b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
    assert b" 403 " in await reader.readuntil(b"\r\n")
    await proxy.aclose()


async def test_gates_have_rules_of_their_own(net):
    gates = [await net.gate(domains={f"h{number}.example": "deny"}) for number in range(30)]
    answers = await asyncio.gather(*(gate.ask("GET", "http://h7.example/") for gate in gates))
    assert [answer.error for answer in answers].count("blocked-by-denylist") == 1
    assert answers[7].error == "blocked-by-denylist"
    assert all(len(gate.gate.blocked) == 1 for gate in gates)


async def test_closing_ends_everything_and_may_happen_twice(net, host):
    async def stare(reader, writer):
        await reader.read()

    gate = await net.open_gate()
    port = await net.server(stare)
    _, tunnel, _ = await gate.tunnel(host, port)
    _, socks, _ = await gate.socks(host, port)
    idle, _ = await gate.connect()
    await asyncio.gather(gate.gate.aclose(), gate.gate.aclose())
    for reader in (tunnel, socks, idle):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    for port in gate.ports:
        with pytest.raises(ConnectionError):
            await net.connect(port)
    with pytest.raises(SandboxError):
        await gate.gate.listen()


async def test_closing_the_proxy_closes_its_gates():
    proxy = RuledProxy()
    gate = proxy.gate(NetworkRules())
    ports = await gate.listen()
    await proxy.aclose()
    await proxy.aclose()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", ports.http)
    with pytest.raises(SandboxError):
        proxy.gate(NetworkRules())


async def test_nothing_is_left_over_of_gates_closed_at_any_moment(net, host):
    origin = await net.origin()
    await (await net.open_gate()).ask("GET", f"http://{host}:{origin.port}/")
    await asyncio.sleep(0.05)
    before = open_files()
    for ticks in range(40):
        gate = await net.open_gate()
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.ports.http)
        writer.write(
            f"GET http://{host}:{origin.port}/big/1000000 HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode()
        )
        for _ in range(ticks):
            await asyncio.sleep(0)
        await gate.gate.aclose()
        writer.transport.abort()
        del reader
    for _ in range(100):
        await asyncio.sleep(0.02)
        if open_files() <= before:
            break
    assert open_files() <= before


def test_importing_the_plugin_loads_nothing_of_the_proxy():
    script = (
        "import sys, codex_plugin_network_proxy as plugin; list(plugin.codex_network_proxies());"
        "print(sorted(name for name in sys.modules if name in ('h11', 'idna', 'ssl')"
        " or name.startswith('codex_plugin_network_proxy.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['codex_plugin_network_proxy.proxy']"


async def test_the_environment_names_the_ports():
    gate = RuledProxy().gate(NetworkRules())
    env = gate.environment(ProxyPorts(1234, 5678))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY"):
        assert env[name] == env[name.lower()] == "http://127.0.0.1:1234"
    assert env["ALL_PROXY"] == env["all_proxy"] == env["ftp_proxy"] == "socks5h://127.0.0.1:5678"
    assert env["NO_PROXY"] == env["no_proxy"] == "localhost,127.0.0.1,::1"
    assert {"npm_config_proxy", "PIP_PROXY", "YARN_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "DOCKER_HTTP_PROXY"} <= env.keys()
    assert env["NODE_USE_ENV_PROXY"] == "1"
    assert env["CODEX_NETWORK_PROXY_ACTIVE"] == "1"
    assert RuledProxy().gate(NetworkRules()).environment(ProxyPorts(1, 0))["ALL_PROXY"] == "http://127.0.0.1:1"


def open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())
