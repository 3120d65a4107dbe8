"""Unix sockets by way of the proxy, named in the header ``x-unix-socket``."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name).resolve()


class Service:
    def __init__(self, net, path):
        self.heads: list[bytes] = []
        self.path = str(path)
        self._net = net

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def by(path):
    return ("X-Unix-Socket", str(path))


async def test_an_allowed_socket_is_reached_and_the_header_does_not_go_on(net, folder):
    async with Service(net, folder / "s") as service:
        gate = await net.gate(unix_sockets={service.path: "allow"})
        answer = await gate.ask("POST", "http://docker/v1/x?y", by(service.path), body=b"")
        assert (answer.status, answer.body) == (200, b"hi")
        answer = await gate.ask("GET", "/plain", by(service.path))
        assert (answer.status, answer.body) == (200, b"hi")
        await gate.gate.aclose()
    first, second = service.heads
    assert first.startswith(b"POST /v1/x?y HTTP/1.1\r\nHost: docker\r\n")
    assert second.startswith(b"GET /plain HTTP/1.1\r\n")
    assert b"unix" not in (first + second).lower()


async def test_it_counts_where_symlinks_lead(net, folder):
    async with Service(net, folder / "s") as service:
        (folder / "link").symlink_to(service.path)
        (folder / "way").symlink_to(folder)
        through = await net.gate(unix_sockets={str(folder / "link"): "allow"})
        for path in (service.path, folder / "link", folder / "way" / "s"):
            assert (await through.ask("GET", "/", by(path))).status == 200
        other = await net.gate(unix_sockets={str(folder / "other"): "allow"})
        (folder / "elsewhere").symlink_to(service.path)
        for path in (service.path, folder / "elsewhere"):
            answer = await other.ask("GET", "/", by(path))
            assert (answer.status, answer.error) == (403, "blocked-by-allowlist")
            assert "unix_sockets" in answer.body.decode()
        await through.gate.aclose()
        await other.gate.aclose()


async def test_a_socket_that_becomes_a_link_leads_nowhere_else(net, folder):
    async with Service(net, folder / "secret") as service:
        (folder / "s").touch()
        gate = await net.gate(unix_sockets={str(folder / "s"): "allow"})
        (folder / "s").unlink()
        (folder / "s").symlink_to(service.path)
        for path in (service.path, folder / "s"):
            assert (await gate.ask("GET", "/", by(path))).status == 403
        (folder / "none").symlink_to(service.path)
        star = await net.gate(unix_sockets={"*": "allow", str(folder / "none"): "none"})
        assert (await star.ask("GET", "/", by(service.path))).status == 403
        await gate.gate.aclose()
        await star.gate.aclose()


async def test_a_star_allows_every_socket_but_those_that_are_none(net, folder):
    async with Service(net, folder / "s") as service, Service(net, folder / "t") as other:
        gate = await net.gate(unix_sockets={"*": "allow", other.path: "none"})
        assert (await gate.ask("GET", "/", by(service.path))).status == 200
        assert (await gate.ask("GET", "/", by(other.path))).status == 403
        await gate.gate.aclose()


async def test_what_is_there_is_not_told_to_those_who_may_not_reach_it(net, folder):
    gate = await net.gate(unix_sockets={str(folder / "s"): "allow"})
    (folder / "file").touch()
    for path in (folder / "file", folder / "nothing", "/etc/shadow", "relative", "", "/a\tb"):
        answer = await gate.ask("GET", "/", by(path))
        assert (answer.status, answer.error) == (403, "blocked-by-allowlist"), path
    answer = await gate.ask("GET", "/", by(folder / "s"))
    assert (answer.status, answer.error) == (502, None)
    blocked = gate.gate.blocked[0].target
    assert (blocked.host, blocked.port, blocked.protocol) == ("unix-socket", 0, "http")


async def test_methods_are_limited_there_too(net, folder):
    async with Service(net, folder / "s") as service:
        gate = await net.gate(unix_sockets={"*": "allow"}, mode="limited")
        assert (await gate.ask("GET", "/", by(service.path))).status == 200
        assert (await gate.ask("POST", "/", by(service.path), body=b"x")).error == "blocked-by-method-policy"
        await gate.gate.aclose()


async def test_no_descriptor_is_left_over(net, folder):
    gate = await net.gate(unix_sockets={"*": "allow"})
    await gate.ask("GET", "/", by(folder / "nothing"))
    before = open_files()
    (folder / "file").touch()
    for _ in range(5):
        assert (await gate.ask("GET", "/", by(folder / "file"))).status == 502
    await asyncio.sleep(0.05)
    assert open_files() <= before


def open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())
