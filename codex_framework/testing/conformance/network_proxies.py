"""The check of network proxies: allowed requests pass, others are refused, and a closed gate leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.roles.networks import BlockedRequest, NetworkGate, NetworkProxy, NetworkTarget, ProxyPorts
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.toolkit.roles import add_defaults

__all__ = ["check_network_proxy"]

_WITHIN_S = 20.0
_HOST = "127.0.0.1"
_UNKNOWN = "check.invalid"
"""A name that never resolves (RFC 6761)."""

_REASONS = {"blocked-by-allowlist", "blocked-by-denylist", "blocked-by-method-policy", "blocked-by-policy"}


def check_network_proxy(proxy: NetworkProxy) -> None:
    """Check that a network proxy fulfils its role. About forty connections to a server on loopback are allowed or refused.

    The proxy is closed at the end.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("network proxy", proxy)
    if findings.check_members(proxy, NetworkProxy):
        proxy = add_defaults(proxy, NetworkProxy)
        findings.require_name(proxy)
        run_check(findings, lambda: _whole(findings, proxy))
    findings.raise_any()


async def _whole(findings: Findings, proxy: NetworkProxy) -> None:
    try:
        async with _server() as server:
            for check in (_check_rules, _check_mode, _check_asking, _check_environment, _check_sockets, _check_closing):
                with contextlib.suppress(Unmet):
                    await check(_Check(findings, proxy, server))
            for rules in (NetworkRules(domains={"*": "deny"}), NetworkRules(domains={"https://a/": "allow"})):
                _check_contradiction(findings, proxy, rules)
            await _check_end(findings, proxy, server)
    finally:
        await findings.close_twice(proxy.aclose, within_s=_WITHIN_S)


class _Server:
    """An HTTP server that answers ``reached``, and counts requests."""

    def __init__(self) -> None:
        self.port = 0
        self.reached = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each request until the connection ends."""
        self.writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await reader.readuntil(b"\r\n\r\n"):
                self.reached += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached")


@contextlib.asynccontextmanager
async def _server() -> AsyncIterator[_Server]:
    server = _Server()
    listening = await asyncio.start_server(server.serve, _HOST, 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for writer in server.writers:
            await _close_writer(writer)


class _Check:
    """Creates gates of one proxy and sends them requests."""

    def __init__(self, findings: Findings, proxy: NetworkProxy, server: _Server) -> None:
        self.findings = findings
        self.server = server
        self._proxy = proxy

    def gate(self, ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None, **rules: Any) -> NetworkGate:
        """Return a gate. Anything else ends this part of the check."""
        gate = self.findings.call("gate()", lambda: self._proxy.gate(NetworkRules(**rules), ask), within_s=1.0)
        if not self.findings.check_members(gate, NetworkGate):
            raise Unmet
        return gate

    async def listening(self, gate: NetworkGate) -> ProxyPorts:
        """Return the gate's own ports."""
        ports: object = await self.findings.wait_for("listen()", gate.listen(), within_s=_WITHIN_S)
        if not isinstance(ports, ProxyPorts) or not all(0 <= port < 65536 for port in ports) or not ports.http:
            self.findings.note(f"listen() returns {ports!r}, not ProxyPorts")
            raise Unmet
        return ports

    async def close(self, gate: NetworkGate) -> None:
        """Close a gate, twice."""
        await self.findings.close_twice(gate.aclose, within_s=_WITHIN_S, of=" of a gate")

    async def request(self, port: int, *, method: str = "GET", host: str = _HOST, to: int | None = None) -> str:
        """Return the whole answer to an HTTP request; ``""`` if the connection ends without one."""
        where = f"{host}:{to or self.server.port}"
        head = f"{method} http://{where}/ HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n"
        return await self._send_and_read(port, head.encode())

    async def tunnel(self, port: int, *, host: str = _HOST) -> str:
        """Return the answer through a tunnel: the proxy's refusal, or the server's answer."""
        where = f"{host}:{self.server.port}"
        inner = f"GET / HTTP/1.1\r\nHost: {where}\r\n\r\n"
        return await self._send_and_read(
            port, f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode(), inner.encode()
        )

    async def socks(self, port: int, *, host: str = _HOST) -> int:
        """Return the code of the reply to a SOCKS5 request, or -1 without a reply."""
        asked = b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + self.server.port.to_bytes(2)
        said = await self._send_and_read(port, b"\x05\x01\x00", asked, most=12)
        return ord(said[3]) if len(said) > 3 else -1

    async def _send_and_read(self, port: int, *data: bytes, most: int = 65536) -> str:
        """Return the answer up to ``reached``, the end, or ``most`` bytes. Each piece is sent after the answer to the previous one."""
        said = b""
        try:
            async with asyncio.timeout(_WITHIN_S):
                reader, writer = await asyncio.open_connection(_HOST, port)
                try:
                    for piece in data:
                        writer.write(piece)
                        said += await reader.read(65536)
                    while not said.endswith(b"reached") and len(said) < most and (more := await reader.read(65536)):
                        said += more
                finally:
                    await _close_writer(writer)
        except TimeoutError:
            self.findings.note(f"a request is not answered within {_WITHIN_S:g} s")
            raise Unmet from None
        except OSError:
            pass
        return said.decode("latin-1")

    def refused(self, what: str, said: str, reason: str | None = None) -> None:
        """Add a violation unless an answer is a proper refusal."""
        reasons = {reason} if reason else _REASONS
        head, _, body = said.partition("\r\n\r\n")
        given = {
            line.partition(":")[2].strip() for line in head.splitlines() if line.lower().startswith("x-proxy-error:")
        }
        require = self.findings.require
        require(head.startswith("HTTP/1.1 403 "), f"{what} is answered with {_first_line(said)}, not with 403")
        require(
            given & reasons, f"{what} is refused with x-proxy-error {sorted(given)}, not {' or '.join(sorted(reasons))}"
        )
        require(body.strip(), f"{what} is refused without a text that says why")

    def passed(self, what: str, said: str) -> None:
        """Add a violation unless the server has answered."""
        self.findings.require(said.endswith("reached"), f"{what} is answered with {_first_line(said)}; it may pass")


async def _check_rules(check: _Check) -> None:
    grounds: tuple[tuple[str, dict[str, Any], bool], ...] = (
        ("without rules", {}, False),
        ("where its address is allowed", {"domains": {_HOST: "allow"}}, True),
        (
            "that a wildcard allows, with allow_local_binding",
            {"domains": {"*": "allow"}, "allow_local_binding": True},
            True,
        ),
        ("that nothing allows, with allow_local_binding", {"allow_local_binding": True}, False),
        ("where only a wildcard allows it", {"domains": {"*": "allow"}}, False),
        ("that is allowed and denied", {"domains": {"*": "allow", _HOST: "deny"}, "allow_local_binding": True}, False),
    )
    for ground, rules, passes in grounds:
        gate = check.gate(**rules)
        ports = await check.listening(gate)
        before = check.server.reached
        answers = {"a request": await check.request(ports.http), "a tunnel": await check.tunnel(ports.http)}
        for what, said in answers.items():
            judge = check.passed if passes else check.refused
            judge(f"{what} to loopback {ground}", said)
        code = await check.socks(ports.socks)
        want = 0 if passes else 2
        check.findings.require(code == want, f"SOCKS to loopback {ground} is answered with {code}, not {want}")
        if not passes:
            check.findings.require(check.server.reached == before, f"what is refused ({ground}) reaches the server")
            _check_blocked(check, gate, 3)
        await check.close(gate)


def _check_blocked(check: _Check, gate: NetworkGate, count: int) -> None:
    blocked: object = gate.blocked
    fits = isinstance(blocked, tuple) and all(isinstance(entry, BlockedRequest) for entry in blocked)
    if not fits or not isinstance(blocked, tuple):
        check.findings.note(f"blocked is {blocked!r}, not a tuple of BlockedRequest")
        return
    found = [entry.target.protocol for entry in blocked]
    check.findings.require(len(found) == count, f"{count} refusals leave {len(found)} entries in blocked: {found}")
    wrong = {entry.reason for entry in blocked} - _REASONS
    check.findings.require(not wrong, f"blocked has the reasons {sorted(wrong)}")


async def _check_mode(check: _Check) -> None:
    gate = check.gate(domains={_HOST: "allow"}, mode="limited")
    ports = await check.listening(gate)
    check.passed("GET in limited mode", await check.request(ports.http))
    check.refused("POST in limited mode", await check.request(ports.http, method="POST"), "blocked-by-method-policy")
    check.refused("a tunnel in limited mode", await check.tunnel(ports.http), "blocked-by-method-policy")
    code = await check.socks(ports.socks)
    check.findings.require(code == 2, f"SOCKS in limited mode is answered with {code}, not 2")
    await check.close(gate)
    plain = check.gate(enable_socks5=False)
    ports = await check.listening(plain)
    check.findings.require(not ports.socks, "listen() returns a port for SOCKS5 that is switched off")
    await check.close(plain)


async def _check_asking(check: _Check) -> None:
    asked: list[NetworkTarget] = []
    answer: bool | Exception = False

    async def ask(target: NetworkTarget) -> bool:
        asked.append(target)
        await asyncio.sleep(0.05)
        if isinstance(answer, Exception):
            raise answer
        return answer

    gate = check.gate(ask, domains={_HOST: "deny"})
    ports = await check.listening(gate)
    await check.request(ports.http)
    await check.request(ports.http, host="10.0.0.1")
    check.findings.require(not asked, f"ask is called for {asked}, which is denied or private")
    said = await asyncio.gather(*(check.request(ports.http, host=_UNKNOWN, to=80) for _ in range(5)))
    for reply in said:
        check.refused("what was refused when asked", reply)
    want = [NetworkTarget(_UNKNOWN, 80, "http", "GET")]
    check.findings.require(asked == want, f"five requests for one host ask {asked}, not {want}")
    await check.close(gate)
    for answer in (True, ValueError("nobody is there")):
        gate = check.gate(ask)
        said_once = await check.request((await check.listening(gate)).http, host=_UNKNOWN, to=80)
        if answer is True:
            refused = said_once.startswith("HTTP/1.1 403")
            check.findings.require(
                said_once and not refused, f"what was allowed when asked is answered with {_first_line(said_once)}"
            )
        else:
            check.refused("what could not be asked", said_once)
        await check.close(gate)


async def _check_environment(check: _Check) -> None:
    gate = check.gate()
    env: object = gate.environment(ProxyPorts(12345, 23456))
    if not isinstance(env, Mapping) or not all(isinstance(word, str) for pair in env.items() for word in pair):
        check.findings.note(f"environment() returns {env!r}, not a mapping of strings")
        return
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        check.findings.require(
            "12345" in env.get(name, ""), f"environment() has {name}={env.get(name)!r}, without the port"
        )
    await check.close(gate)


async def _check_sockets(check: _Check) -> None:
    gate = check.gate(domains={_HOST: "allow"})
    ports = await check.listening(gate)
    again = await check.listening(gate)
    check.findings.require(again == ports, f"listen() returns {ports}, then {again}")
    with socket.create_server((_HOST, 0)) as http, socket.create_server((_HOST, 0)) as socks:
        await check.findings.wait_for("serve()", gate.serve(http, socks), within_s=_WITHIN_S)
        check.passed("a request at a given socket", await check.request(http.getsockname()[1]))
        code = await check.socks(socks.getsockname()[1])
        check.findings.require(code == 0, f"SOCKS at a given socket is answered with {code}, not 0")
        await check.close(gate)
        check.findings.require(http.fileno() >= 0, "it closes the sockets that serve() was given")
        http.settimeout(1)
        with socket.create_connection(http.getsockname()):
            await asyncio.sleep(0.1)  # time for a socket that still listens to accept it
            try:
                http.accept()[0].close()
            except OSError:
                check.findings.note("a closed gate still accepts from the sockets that serve() was given")


async def _check_closing(check: _Check) -> None:
    gate = check.gate(domains={_HOST: "allow"})
    ports = await check.listening(gate)
    reader, writer = await asyncio.open_connection(_HOST, ports.http)
    where = f"{_HOST}:{check.server.port}"
    writer.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
    await reader.read(65536)
    await check.close(gate)
    try:
        async with asyncio.timeout(2):
            await reader.read()
    except TimeoutError:
        check.findings.note("aclose() of a gate leaves a tunnel open")
    except OSError:
        pass
    await _close_writer(writer)
    await _check_shut(check.findings, ports, "of a closed gate")


async def _check_end(findings: Findings, proxy: NetworkProxy, server: _Server) -> None:
    check = _Check(findings, proxy, server)
    ports = await check.listening(check.gate())
    await findings.wait_for("aclose()", proxy.aclose(), within_s=_WITHIN_S)
    await _check_shut(findings, ports, "of a gate whose proxy is closed")


async def _check_shut(findings: Findings, ports: ProxyPorts, whose: str) -> None:
    for port in filter(None, ports):
        try:
            _, writer = await asyncio.open_connection(_HOST, port)
        except OSError:
            continue
        await _close_writer(writer)
        findings.note(f"a port {whose} is still open")


def _check_contradiction(findings: Findings, proxy: NetworkProxy, rules: NetworkRules) -> None:
    with contextlib.suppress(Unmet):
        try:
            findings.call("gate()", lambda: proxy.gate(rules), within_s=1.0, allowed=(SandboxError,))
        except SandboxError as error:
            findings.require(error.hint, f"gate() refuses {dict(rules.domains)} without a hint")
            return
        findings.note(f"gate() takes {dict(rules.domains)}; it must raise SandboxError")


async def _close_writer(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _first_line(said: str) -> str:
    return repr(said.partition("\r\n")[0][:80]) if said else "nothing"
