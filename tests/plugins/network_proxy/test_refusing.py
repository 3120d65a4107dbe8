"""What does not get through, and what is said of it."""

from __future__ import annotations

import socket

import pytest

from codex_framework import NetworkRules, NetworkTarget
from codex_framework.contract.roles.networks import BlockedRequest
from codex_plugin_network_proxy.proxy import RuledProxy

PUBLIC = "93.184.215.14"


async def test_what_no_rule_speaks_of_is_refused_with_reason_and_advice(net):
    gate = await net.gate()
    answer = await gate.ask("GET", "http://example.com/x")
    assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
    assert answer.reason == "Forbidden (blocked-by-allowlist)"
    text = answer.body.decode()
    assert text == (
        "example.com:80 is not among the hosts that this command may reach."
        ' To allow it, add "example.com" = "allow" to permissions.NAME.network.domains.\n'
    )
    assert gate.gate.blocked == (
        BlockedRequest(NetworkTarget("example.com", 80, "http", "GET"), "blocked-by-allowlist"),
    )


async def test_deny_counts_over_allow(net, host):
    origin = await net.origin()
    gate = await net.gate(
        domains={host: "allow", "**.example.com": "allow", "a.example.com": "deny", f"{host}:1": "deny"}
    )
    for url in ("http://a.example.com/", "http://A.EXAMPLE.com./", f"http://{host}:1/"):
        answer = await gate.ask("GET", url)
        assert (answer.status, answer.error) == (403, "blocked-by-denylist")
    assert b'"a.example.com" = "deny"' in (await gate.ask("GET", "http://a.example.com/")).body
    assert (await gate.ask("GET", f"http://{host}:{origin.port}/")).status == 200


LOCAL = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "2130706433",
    "017700000001",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "0",
    "[::]",
]
ODD = [
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "[fe80::1]",
    "[ff02::1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]",
]


@pytest.mark.parametrize(
    "name", [*LOCAL, "localhost", "LocalHost.", "x.localhost", "10.0.0.1", "192.168.1.1", "[fd00::1]", *ODD]
)
async def test_no_wildcard_opens_what_is_not_public(net, name):
    gate = await net.gate(domains={"*": "allow", "**.localhost": "allow"})
    answer = await gate.ask("GET", f"http://{name}:1/")
    assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
    assert b"Wildcards and other names do not allow such addresses" in answer.body
    status, _, _ = await gate.tunnel(name, 1)
    assert status == 403
    if ":" not in name:
        assert (await gate.socks(name, 1))[0] == 2
    assert set(gate.reasons) == {"blocked-by-allowlist"}


@pytest.mark.parametrize("name", LOCAL[:-1])
async def test_allow_local_binding_opens_this_machine(net, name):
    gate = await net.gate(allow_local_binding=True, domains={"*": "allow"})
    answer = await gate.ask("GET", f"http://{name}:1/")
    assert answer.status == 502
    gate = await net.gate(allow_local_binding=True)
    answer = await gate.ask("GET", f"http://{name}:1/")
    assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
    assert b"is not among the hosts" in answer.body


@pytest.mark.parametrize("name", ODD)
async def test_allow_local_binding_does_not_open_what_is_odd(net, name):
    gate = await net.gate(allow_local_binding=True, domains={"*": "allow"})
    answer = await gate.ask("GET", f"http://{name}:1/")
    assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
    assert b"allow_local_binding" not in answer.body


async def test_localhost_can_be_named(net):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    port = await net.server(serve, host="localhost")
    for rules in (
        {"domains": {"localhost": "allow"}},
        {"domains": {f"localhost:{port}": "allow"}},
        {"allow_local_binding": True, "domains": {"*": "allow"}},
    ):
        gate = await net.gate(**rules)
        assert (await gate.ask("GET", f"http://localhost:{port}/")).body == b"hi"
    gate = await net.gate(domains={"localhost:1": "allow", "127.0.0.1": "allow"})
    assert (await gate.ask("GET", f"http://localhost:{port}/")).error == "blocked-by-allowlist"


async def test_a_name_that_leads_here_is_refused_by_the_systems_own_resolver(net):
    name = socket.gethostname()
    try:
        address = socket.getaddrinfo(name, None)[0][4][0]
    except OSError:
        pytest.skip("the name of this machine does not resolve")
    gate = await net.gate(domains={name: "allow"})
    answer = await gate.ask("GET", f"http://{name}:1/")
    assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
    assert str(address) in answer.body.decode() or "address" in answer.body.decode()


async def test_one_look_at_a_name_decides_and_is_what_is_connected_to(net, host):
    origin = await net.origin()
    answers = [[host], ["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::1", PUBLIC]]
    asked = []

    async def resolve(name):
        asked.append(name)
        return answers[len(asked) - 1]

    gate = await net.gate(domains={"rebinding.example": "allow", host: "allow"}, resolve=resolve)
    url = f"http://rebinding.example:{origin.port}/"
    assert (await gate.ask("GET", url)).status == 200, "the address itself is named"
    assert origin.seen[0].values("host") == [f"rebinding.example:{origin.port}"]
    assert asked == ["rebinding.example"]
    for address in ("127.0.0.1", "10.0.0.1", "::1"):
        answer = await gate.ask("GET", url)
        assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
        assert f"resolves to {address}, a " in answer.body.decode()
    assert len(asked) == 4


@pytest.mark.parametrize("written", ["{}", "::ffff:{}", "64:ff9b::{}"])
async def test_a_denied_address_is_denied_by_every_name(net, written):
    async def resolve(name):
        return [written.format(PUBLIC)]

    gate = await net.gate(domains={"*": "allow", PUBLIC: "deny"}, resolve=resolve)
    answer = await gate.ask("GET", "http://example.com/")
    assert (answer.status, answer.error) == (403, "blocked-by-denylist")
    assert PUBLIC in answer.body.decode()


async def test_a_denied_address_of_the_newer_kind_is_denied_by_every_name(net):
    async def resolve(name):
        return ["2606:4700::1"]

    gate = await net.gate(domains={"*": "allow", "2606:4700::1": "deny"}, resolve=resolve)
    answer = await gate.ask("GET", "http://example.com/")
    assert (answer.status, answer.error) == (403, "blocked-by-denylist")


async def test_nothing_is_looked_up_that_is_not_allowed(net):
    async def resolve(name):
        raise AssertionError(name)

    gate = await net.gate(domains={"a.example": "deny"}, resolve=resolve)
    for url in ("http://a.example/", "http://secret-data.example/"):
        assert (await gate.ask("GET", url)).status == 403


async def test_a_limited_gate_lets_pass_what_only_looks(net, host):
    origin = await net.origin()
    gate = await net.gate(domains={host: "allow", "evil.example": "deny"}, mode="limited")
    url = f"http://{host}:{origin.port}/x"
    for method in ("GET", "HEAD", "OPTIONS"):
        assert (await gate.ask(method, url)).status == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE", "get", "PROPFIND"):
        answer = await gate.ask(method, url)
        assert (answer.status, answer.error) == (403, "blocked-by-method-policy")
    assert [seen.method for seen in origin.seen] == ["GET", "HEAD", "OPTIONS"]
    assert b'mode = "full"' in answer.body
    status, reader, _ = await gate.tunnel(host, origin.port)
    assert status == 403
    assert b"limited" in await reader.read()
    assert (await gate.socks(host, origin.port))[0] == 2
    assert set(gate.reasons) == {"blocked-by-method-policy"}
    assert (await gate.ask("POST", "http://evil.example/")).error == "blocked-by-denylist"


async def test_a_limited_gate_changes_no_protocol(net, host):
    origin = await net.origin()
    gate = await net.gate(domains={host: "allow"}, mode="limited")
    answer = await gate.ask(
        "GET", f"http://{host}:{origin.port}/switch", ("Connection", "upgrade"), ("Upgrade", "shout")
    )
    assert answer.status == 426


async def test_the_first_hundred_are_remembered(net):
    gate = await net.gate()
    reader, writer = await gate.connect()
    for number in range(103):
        writer.write(f"GET http://h{number}.example/ HTTP/1.1\r\nHost: h{number}.example\r\n\r\n".encode())
        await reader.readuntil(b"network.domains.\n")
    assert [blocked.target.host for blocked in gate.gate.blocked] == [f"h{number}.example" for number in range(100)]


async def test_what_cannot_be_reached_is_no_refusal(net, host):
    async def resolve(name):
        if name == "gone.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []

    gate = await net.gate(domains={"*": "allow", host: "allow"}, resolve=resolve)
    answer = await gate.ask("GET", "http://gone.example/")
    assert (answer.status, answer.body) == (
        502,
        b"The name gone.example cannot be resolved: Name or service not known.\n",
    )
    assert (await gate.ask("GET", "http://empty.example/")).status == 502
    answer = await gate.ask("GET", f"http://{host}:1/")
    assert (answer.status, answer.body.decode()) == (502, f"{host}:1 cannot be reached: Connection refused.\n")
    assert (await gate.socks("gone.example", 80))[0] == 4
    assert (await gate.socks(host, 1))[0] == 5
    assert gate.gate.blocked == ()


async def test_a_refusal_arrives_though_the_client_is_still_sending(net):
    gate = await net.gate()
    answer = await gate.ask("POST", "http://example.com/", body=bytes(3_000_000))
    assert (answer.status, answer.error, answer.complete) == (403, "blocked-by-allowlist", True)


async def test_no_gate_is_reached_by_way_of_another(net):
    proxy = RuledProxy()
    narrow = proxy.gate(NetworkRules(allow_local_binding=True, domains={"*": "allow", "127.0.0.1": "allow"}))
    wide = proxy.gate(NetworkRules(domains={"*": "allow"}))
    gate, other = await net.opened(narrow), await wide.listen()
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::1]"):
        for port in (*other, gate.ports.http):
            answer = await gate.ask("GET", f"http://{host}:{port}/")
            assert (answer.status, answer.error) == (403, "blocked-by-policy")
    assert (await gate.tunnel("127.0.0.1", other.http))[0] == 403
    assert (await gate.socks("127.0.0.1", other.socks))[0] == 2
    await proxy.aclose()


async def test_a_server_is_reached_though_a_gate_has_a_port_of_the_same_number(net, host):
    """Addresses of loopback have their own ports, and the system gives the same number at two of them."""
    gate = await net.open_gate()
    for number in gate.ports:
        await net.origin(number)
        assert (await gate.ask("GET", f"http://{host}:{number}/a")).status == 200
        assert (await gate.tunnel(host, number))[0] == 200
        assert (await gate.socks(host, number))[0] == 0
    assert gate.reasons == []
