"""The SOCKS5 side of a gate (RFC 1928): ``CONNECT`` to IPv4 addresses, IPv6 addresses and names, without authentication."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from codex_framework import NetworkTarget
from codex_plugin_network_proxy.hosts import BadHostError, clean_host
from codex_plugin_network_proxy.refusals import RefusedError, UnreachableError
from codex_plugin_network_proxy.wire import Wire, join, linger

if TYPE_CHECKING:
    from codex_plugin_network_proxy.carrier import Carrier

__all__ = ["SocksSide"]

_VERSION = 5
_NO_AUTHENTICATION, _NO_METHOD = 0x00, 0xFF
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4

_DONE, _FAILED, _NOT_ALLOWED, _NO_COMMAND, _NO_ADDRESS_TYPE = 0, 1, 2, 7, 8


class _BadGreetingError(Exception):
    """The client does not use SOCKS5, or requests something unsupported.

    Attributes:
        reply: The bytes to send to the client. Empty means that nothing is sent.
    """

    def __init__(self, reply: bytes = b"") -> None:
        super().__init__("no SOCKS5")
        self.reply = reply


class SocksSide:
    """The handler of one SOCKS connection.

    Args:
        carrier: The shared state of the gate.
        wire: The client's connection.
    """

    def __init__(self, carrier: Carrier, wire: Wire) -> None:
        self._carrier = carrier
        self._wire = wire

    async def run(self) -> None:
        """Handle the connection until it ends."""
        limits = self._carrier.limits
        try:
            async with asyncio.timeout(limits.head_s):
                target = await self._greeting()
        except _BadGreetingError as error:
            await self._end(error.reply)
            return
        except TimeoutError:
            return
        try:
            await self._carrier.admit(target, self._wire.gone)
            upstream = await self._carrier.router.tunnel("https", target.host, target.port)
        except RefusedError as error:
            self._carrier.record(target, error.reason)
            await self._end(_reply(_NOT_ALLOWED))
            return
        except UnreachableError as error:
            await self._end(_reply(error.socks))
            return
        try:
            await self._wire.send(_reply(_DONE))
            await join(self._wire, upstream, idle_s=limits.idle_s, half_closed_s=limits.half_closed_s)
        finally:
            upstream.abort()

    async def _greeting(self) -> NetworkTarget:
        receive = self._wire.receive_exactly
        version, count = await receive(2)
        if version != _VERSION:
            raise _BadGreetingError
        if _NO_AUTHENTICATION not in await receive(count):
            raise _BadGreetingError(bytes((_VERSION, _NO_METHOD)))
        await self._wire.send(bytes((_VERSION, _NO_AUTHENTICATION)))
        version, command, _, kind = await receive(4)
        if version != _VERSION:
            raise _BadGreetingError(_reply(_FAILED))
        host = await self._host(kind)
        port = int.from_bytes(await receive(2))
        if command != _CONNECT:
            raise _BadGreetingError(_reply(_NO_COMMAND))
        try:
            host = clean_host(host)
        except BadHostError:
            raise _BadGreetingError(_reply(_FAILED)) from None
        if not port:
            raise _BadGreetingError(_reply(_FAILED))
        return NetworkTarget(host, port, "socks5_tcp")

    async def _host(self, kind: int) -> str:
        receive = self._wire.receive_exactly
        if kind == _IPV4:
            return socket.inet_ntop(socket.AF_INET, await receive(4))
        if kind == _IPV6:
            return socket.inet_ntop(socket.AF_INET6, await receive(16))
        if kind != _NAME:
            raise _BadGreetingError(_reply(_NO_ADDRESS_TYPE))
        (length,) = await receive(1)
        name = await receive(length)
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise _BadGreetingError(_reply(_FAILED)) from None

    async def _end(self, reply: bytes) -> None:
        if reply:
            await self._wire.send(reply)
        await linger(self._wire, self._carrier.limits.linger_s)


def _reply(code: int) -> bytes:
    """Encode a reply. The address in it is zero, because clients ignore it after ``CONNECT``."""
    return bytes((_VERSION, code, 0, _IPV4)) + bytes(6)
