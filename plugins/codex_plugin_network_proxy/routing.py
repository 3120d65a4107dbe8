"""Ways to where a client wants to go: direct, by a proxy of the person's own, or to a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework.value import Value
from codex_plugin_network_proxy import refusals
from codex_plugin_network_proxy.deciding import Decider
from codex_plugin_network_proxy.hosts import is_address, written
from codex_plugin_network_proxy.limits import Limits
from codex_plugin_network_proxy.refusals import UnreachableError
from codex_plugin_network_proxy.resolving import Resolve
from codex_plugin_network_proxy.rules import SocketRules
from codex_plugin_network_proxy.wire import Wire

__all__ = ["Router", "UpstreamProxy"]

_STAGGER_S = 0.25
"""How long one address is tried before the next one is tried as well (RFC 8305)."""

_SOCKS = {errno.ECONNREFUSED: 5, errno.ENETUNREACH: 3, errno.EHOSTUNREACH: 4, errno.ETIMEDOUT: 6}


class UpstreamProxy(Value):
    """A proxy by which to go out.

    Attributes:
        authorization: The value of ``proxy-authorization``, if there is one.
    """

    host: str
    port: int
    tls: bool = False
    authorization: bytes | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that a request to it needs."""
        return [] if self.authorization is None else [(b"Proxy-Authorization", self.authorization)]


class Router:
    """Opens connections for one gate.

    Args:
        upstream: By protocol, ``http`` or ``https``, the proxy to go out by; what is not there goes direct.
        bypassed: Hosts that are reached directly all the same, as ``NO_PROXY`` has them.
    """

    def __init__(
        self,
        decider: Decider,
        sockets: SocketRules,
        *,
        limits: Limits,
        resolve: Resolve,
        upstream: Mapping[str, UpstreamProxy],
        bypassed: Mapping[str, str],
    ) -> None:
        self._decider = decider
        self._sockets = sockets
        self._limits = limits
        self._resolve = resolve
        self._upstream = upstream
        self._bypassed = bypassed
        self._standing: set[Wire] = set()

    def wire(self) -> Wire:
        """An end of a connection that is about to be made."""
        return Wire(self._standing)

    async def aclose(self) -> None:
        """End all connections, and wait until their sockets are closed."""
        wires = tuple(self._standing)
        for wire in wires:
            wire.transport.abort()
        if wires:
            await asyncio.wait([wire.lost for wire in wires])

    def upstream_for(self, protocol: str, host: str, port: int) -> UpstreamProxy | None:
        """The proxy to go out by to a host; None: direct."""
        proxy = self._upstream.get("http" if protocol == "http" else "https")
        if proxy is None:
            return None
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed does not know it

        bypass: bool = proxy_bypass_environment(written(host, port), dict(self._bypassed))
        return None if bypass else proxy

    async def direct(self, host: str, port: int) -> Wire:
        """A connection to a host. Its name is looked up once, and what is connected to is what was checked.

        Raises:
            RefusedError: An address of the host may not be connected to.
            UnreachableError: None of them answers.
        """
        addresses = [host] if is_address(host) else await self._looked_up(host)
        for address in addresses:
            self._decider.check_address(host, port, address)
        return await self._connected(written(host, port), addresses, port)

    async def by_proxy(self, proxy: UpstreamProxy) -> Wire:
        """A connection to a proxy. It is the person's own, so its address is not checked.

        Raises:
            UnreachableError: It does not answer.
        """
        where = f"the upstream proxy {written(proxy.host, proxy.port)}"
        addresses = [proxy.host] if is_address(proxy.host) else await self._looked_up(proxy.host)
        return await self._connected(where, addresses, proxy.port, tls_name=proxy.host if proxy.tls else None)

    async def tunnel(self, protocol: str, host: str, port: int) -> Wire:
        """A connection that carries bytes to a host: direct, or through a tunnel of the upstream proxy.

        Raises:
            RefusedError, UnreachableError: As :meth:`direct`.
        """
        proxy = self.upstream_for(protocol, host, port)
        if proxy is None:
            return await self.direct(host, port)
        wire = await self.by_proxy(proxy)
        try:
            async with _no_longer_than(self._limits.connect_s, "the upstream proxy"):
                await self._ask_for_tunnel(wire, proxy, written(host, port))
        except BaseException:
            wire.transport.abort()
            raise
        return wire

    async def unix(self, path: str) -> Wire:
        """A connection to a unix socket.

        Raises:
            RefusedError: It may not be connected to.
            UnreachableError: It does not answer, or is no socket.
        """
        if not path.startswith("/") or "\0" in path or not self._sockets:
            raise refusals.socket_refused(path)
        try:
            with _held(path) as (real, connectable):
                if not self._sockets.allow(real):
                    raise refusals.socket_refused(path)
                async with _no_longer_than(self._limits.connect_s, path):
                    _, wire = await asyncio.get_running_loop().create_unix_connection(self.wire, connectable)
                    return wire
        except OSError as error:
            if not self._sockets.allow(os.path.realpath(path)):
                raise refusals.socket_refused(path) from None  # whether it exists is not told either
            raise UnreachableError(f"The socket {path} cannot be connected to: {_words(error)}.") from None

    async def _looked_up(self, host: str) -> list[str]:
        try:
            async with _no_longer_than(self._limits.resolve_s, f"looking up {host}"):
                addresses = await self._resolve(host)
        except (OSError, UnicodeError) as error:
            text = f"The name {host} cannot be resolved: {_words(error)}."
            raise UnreachableError(text, socks=4) from None
        if not addresses:
            raise UnreachableError(f"The name {host} has no address.", socks=4)
        return addresses

    async def _connected(self, where: str, addresses: list[str], port: int, tls_name: str | None = None) -> Wire:
        try:
            async with _no_longer_than(self._limits.connect_s, where):
                return await _first(self.wire, addresses, port, tls_name)
        except OSError as error:
            socks = _SOCKS.get(error.errno or 0, 1)
            raise UnreachableError(f"{where} cannot be reached: {_words(error)}.", socks=socks) from None

    async def _ask_for_tunnel(self, wire: Wire, proxy: UpstreamProxy, authority: str) -> None:
        import h11

        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=self._limits.head_bytes)
        headers = [(b"Host", authority.encode()), *proxy.headers]
        request = h11.Request(method="CONNECT", target=authority, headers=headers)
        try:
            await wire.send(connection.send(request) or b"")
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await wire.receive())
                elif isinstance(event, h11.Response):
                    break
                elif not isinstance(event, h11.InformationalResponse):
                    raise UnreachableError("The upstream proxy has closed the connection.")
        except (h11.ProtocolError, ConnectionError) as error:
            raise UnreachableError(f"The upstream proxy does not answer properly: {error}.") from None
        if not 200 <= event.status_code < 300:
            said = f"{event.status_code} {event.reason.decode('ascii', 'replace')}".strip()
            raise UnreachableError(f"The upstream proxy makes no tunnel to {authority}: it answers {said}.")
        wire.put_back(connection.trailing_data[0])


@contextlib.contextmanager
def _held(path: str) -> Iterator[tuple[str, str]]:
    """The real path of a socket, and a path to connect to that leads to just this one, whatever becomes of symlinks on the way."""
    flag = getattr(os, "O_PATH", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        real = os.path.realpath(path)
        yield real, real
        return
    descriptor = os.open(path, flag | os.O_CLOEXEC)
    try:
        held = f"/proc/self/fd/{descriptor}"
        yield str(Path(held).readlink()), held
    finally:
        os.close(descriptor)


async def _first(make: Callable[[], Wire], addresses: list[str], port: int, tls_name: str | None) -> Wire:
    """A connection to the first address that answers; each gets a start before the next one."""
    loop = asyncio.get_running_loop()
    tls: dict[str, Any] = {}
    if tls_name is not None:
        import ssl

        tls = {"ssl": ssl.create_default_context(), "server_hostname": tls_name}

    async def connect(address: str) -> Wire:
        _, wire = await loop.create_connection(make, address, port, **tls)
        return wire

    if len(addresses) == 1:
        return await connect(addresses[0])
    tasks: list[asyncio.Task[Wire]] = []
    waiting = list(addresses)
    error: OSError | None = None
    winner: Wire | None = None
    try:
        while waiting or any(not task.done() for task in tasks):
            if waiting:
                tasks.append(asyncio.ensure_future(connect(waiting.pop(0))))
            running = [task for task in tasks if not task.done()]
            done, _ = await asyncio.wait(
                running, timeout=_STAGGER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                failed = task.exception()
                if failed is None:
                    winner = task.result()
                    return winner
                if not isinstance(failed, OSError):
                    raise failed
                error = error or failed
    finally:
        await _cleared(tasks, winner)
    raise error or OSError("no address")


async def _cleared(tasks: list[asyncio.Task[Wire]], winner: Wire | None) -> None:
    """End the attempts that are not needed, and the connections that came too late."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Wire) and outcome is not winner:
            outcome.transport.abort()


@contextlib.asynccontextmanager
async def _no_longer_than(seconds: float, what: str) -> AsyncIterator[None]:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise  # the system's own: ETIMEDOUT is an OSError
        raise UnreachableError(
            f"{what[:1].upper()}{what[1:]} took longer than {seconds:g} s.", status=504, socks=6
        ) from None


def _words(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror) or not isinstance(error, OSError):
        return str(error.args[-1]) if error.args else type(error).__name__
    of_tls = hasattr(error, "library")  # an ssl.SSLError, whose number is its own
    return os.strerror(error.errno) if error.errno and not of_tls else str(error)
