"""Going out by a proxy that the environment names."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import NetworkRules, SandboxError
from codex_plugin_network_proxy.proxy import RuledProxy


class Upstream:
    """An HTTP proxy that notes what it is asked for."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.status = 200

    async def serve(self, reader, writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if head.startswith("CONNECT"):
                writer.write(f"HTTP/1.1 {self.status} As Told\r\n\r\n".encode())
                if self.status != 200:
                    writer.close()
                    return
                writer.write(await reader.readexactly(4))
                await reader.read()
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")


@pytest.fixture
def names(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


async def resolve(name):
    raise AssertionError(f"{name} is for the upstream proxy to look up")


async def through(net, names, **rules):
    upstream = Upstream()
    port = await net.server(upstream.serve, host="127.0.0.3")
    names.setenv("http_proxy", f"http://me:p%40ss@127.0.0.3:{port}")
    names.setenv("HTTPS_PROXY", f"127.0.0.3:{port}")
    rules = {"domains": {"**.example": "allow", "x.example": "deny"}, "allow_upstream_proxy": True} | rules
    return upstream, await net.gate(resolve=resolve, **rules)


async def test_requests_and_tunnels_go_by_it(net, names):
    upstream, gate = await through(net, names)
    answer = await gate.ask("GET", "http://a.example/x?y", ("Proxy-Authorization", "Basic mine"))
    assert answer.body == b"up"
    assert upstream.heads[0].startswith("GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\n")
    assert "Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in upstream.heads[0]
    assert "mine" not in upstream.heads[0]
    status, reader, writer = await gate.tunnel("a.example", 443)
    assert status == 200
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    assert upstream.heads[1].startswith("CONNECT a.example:443 HTTP/1.1\r\n")
    assert "Authorization" not in upstream.heads[1]
    code, reader, writer = await gate.socks("b.example", 22)
    assert code == 0
    writer.write(b"pong")
    assert await reader.readexactly(4) == b"pong"
    assert upstream.heads[2].startswith("CONNECT b.example:22 HTTP/1.1\r\n")


async def test_names_are_still_checked(net, names):
    upstream, gate = await through(net, names)
    for host, reason in (
        ("x.example", "denylist"),
        ("c.test", "allowlist"),
        ("10.0.0.1", "allowlist"),
        ("localhost", "allowlist"),
    ):
        assert (await gate.ask("GET", f"http://{host}/")).error == f"blocked-by-{reason}"
        assert (await gate.tunnel(host, 443))[0] == 403
    assert upstream.heads == []


async def test_a_connection_to_it_is_kept_for_all_hosts(net, names):
    upstream, gate = await through(net, names)
    reader, writer = await gate.connect()
    for host in ("a.example", "b.example"):
        writer.write(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\nup")
    assert [head.split()[1] for head in upstream.heads] == ["http://a.example/", "http://b.example/"]


async def test_its_refusal_and_its_absence_are_told(net, names):
    upstream, gate = await through(net, names)
    upstream.status = 407
    status, reader, _ = await gate.tunnel("a.example", 443)
    assert status == 502
    assert b"opened no tunnel to a.example:443: it answered 407 As Told" in await reader.read()
    names.setenv("http_proxy", "http://127.0.0.3:1")
    gate = await net.gate(allow_upstream_proxy=True, domains={"a.example": "allow"})
    answer = await gate.ask("GET", "http://a.example/")
    assert (answer.status, answer.body) == (
        502,
        b"the upstream proxy 127.0.0.3:1 cannot be reached: Connection refused.\n",
    )


async def test_no_proxy_and_the_setting_are_heeded(net, names, host):
    origin = await net.origin()
    names.setenv("no_proxy", host)
    upstream, gate = await through(net, names, domains={host: "allow"})
    assert (await gate.ask("GET", f"http://{host}:{origin.port}/x")).status == 200
    names.delenv("no_proxy")
    gate = await net.gate(domains={host: "allow"})
    assert (await gate.ask("GET", f"http://{host}:{origin.port}/x")).status == 200
    assert upstream.heads == []
    assert len(origin.seen) == 2
    await asyncio.sleep(0)


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "http://", "http://a b", "http://host:x"])
def test_a_proxy_of_another_kind_is_refused_with_advice(names, url):
    names.setenv("ALL_PROXY", url)
    with pytest.raises(SandboxError, match="ALL_PROXY") as caught:
        RuledProxy().gate(NetworkRules(allow_upstream_proxy=True))
    assert "allow_upstream_proxy" in caught.value.hint
    RuledProxy().gate(NetworkRules())
