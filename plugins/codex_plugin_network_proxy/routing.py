"""Connections to targets: direct, through the user's upstream proxy, or to a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.value import Value
from codex_plugin_network_proxy import refusals
from codex_plugin_network_proxy.deciding import Decider
from codex_plugin_network_proxy.hosts import host_text, is_address
from codex_plugin_network_proxy.limits import Limits
from codex_plugin_network_proxy.refusals import UnreachableError
from codex_plugin_network_proxy.resolving import Resolve
from codex_plugin_network_proxy.rules import SocketRules
from codex_plugin_network_proxy.wire import Wire

__all__ = ["Router", "UpstreamProxy"]

_STAGGER_S = 0.25
"""Delay in seconds before the next address is tried in parallel (RFC 8305)."""

_SOCKS = {errno.ECONNREFUSED: 5, errno.ENETUNREACH: 3, errno.EHOSTUNREACH: 4, errno.ETIMEDOUT: 6}


class UpstreamProxy(Value):
    """The user's own proxy, through which a gate connects to hosts.

    Attributes:
        authorization: The value of ``proxy-authorization``, or None if the proxy needs no credentials.
    """

    host: str
    port: int
    tls: bool = False
    authorization: bytes | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers to add to a request to the proxy."""
        return [] if self.authorization is None else [(b"Proxy-Authorization", self.authorization)]


class Router:
    """The part of a gate that opens connections.

    Args:
        upstream: The upstream proxies for ``http`` and ``https``. A missing protocol means direct connections.
        bypassed: The hosts that bypass the upstream proxy, under the key ``no`` in the format of ``NO_PROXY``.
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
        self._open_wires: set[Wire] = set()

    def wire(self) -> Wire:
        """Return a wire for a connection that is about to be opened."""
        return Wire(self._open_wires)

    async def aclose(self) -> None:
        """End all connections and wait until their sockets are closed."""
        wires = tuple(self._open_wires)
        for wire in wires:
            wire.abort()
        if wires:
            await asyncio.wait([wire.lost for wire in wires])

    def upstream_for(self, protocol: str, host: str, port: int) -> UpstreamProxy | None:
        """Return the upstream proxy for a host, or None if the connection is direct."""
        proxy = self._upstream.get("http" if protocol == "http" else "https")
        if proxy is None:
            return None
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # missing from typeshed

        bypass: bool = proxy_bypass_environment(host_text(host, port), dict(self._bypassed))
        return None if bypass else proxy

    async def direct(self, host: str, port: int) -> Wire:
        """Connect to a host. Its name is resolved once, and all addresses are checked before connecting.

        Raises:
            RefusedError: The rules do not allow one of the host's addresses.
            UnreachableError: The name cannot be resolved, or none of the addresses responds.
        """
        addresses = [host] if is_address(host) else await self._look_up(host)
        for address in addresses:
            self._decider.check_address(host, port, address)
        return await self._connect(host_text(host, port), addresses, port)

    async def via_proxy(self, proxy: UpstreamProxy) -> Wire:
        """Connect to the upstream proxy. The user configured it, so its address is not checked.

        Raises:
            UnreachableError: The proxy does not respond.
        """
        where = f"the upstream proxy {host_text(proxy.host, proxy.port)}"
        addresses = [proxy.host] if is_address(proxy.host) else await self._look_up(proxy.host)
        return await self._connect(where, addresses, proxy.port, tls_name=proxy.host if proxy.tls else None)

    async def tunnel(self, protocol: str, host: str, port: int) -> Wire:
        """Open a byte stream to a host, directly or through a tunnel of the upstream proxy.

        Raises:
            RefusedError, UnreachableError: As in :meth:`direct`.
        """
        proxy = self.upstream_for(protocol, host, port)
        if proxy is None:
            return await self.direct(host, port)
        wire = await self.via_proxy(proxy)
        try:
            async with _time_limit(self._limits.connect_s, "the upstream proxy"):
                await self._ask_for_tunnel(wire, proxy, host_text(host, port))
        except BaseException:
            wire.abort()
            raise
        return wire

    async def unix(self, path: str) -> Wire:
        """Connect to a unix socket.

        Raises:
            RefusedError: The rules do not allow the socket.
            UnreachableError: The socket does not respond, or the path is not a socket.
        """
        if not path.startswith("/") or "\0" in path or not self._sockets:
            raise refusals.socket_refused(path)
        try:
            with _pin_socket(path) as (real, connectable):
                if not self._sockets.allow(real):
                    raise refusals.socket_refused(path)
                async with _time_limit(self._limits.connect_s, path):
                    _, wire = await asyncio.get_running_loop().create_unix_connection(self.wire, connectable)
                    return wire
        except OSError as error:
            if not self._sockets.allow(os.path.realpath(path)):
                raise refusals.socket_refused(path) from None  # do not reveal whether it exists
            raise UnreachableError(f"The socket {path} cannot be connected to: {_words(error)}.") from None

    async def _look_up(self, host: str) -> list[str]:
        try:
            async with _time_limit(self._limits.resolve_s, f"looking up {host}"):
                addresses = await self._resolve(host)
        except (OSError, UnicodeError) as error:
            text = f"The name {host} cannot be resolved: {_words(error)}."
            raise UnreachableError(text, socks=4) from None
        if not addresses:
            raise UnreachableError(f"The name {host} has no address.", socks=4)
        return addresses

    async def _connect(self, where: str, addresses: list[str], port: int, tls_name: str | None = None) -> Wire:
        try:
            async with _time_limit(self._limits.connect_s, where):
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
            raise UnreachableError(f"The upstream proxy sent no valid response: {error}.") from None
        if not 200 <= event.status_code < 300:
            answer = f"{event.status_code} {event.reason.decode('ascii', 'replace')}".strip()
            raise UnreachableError(f"The upstream proxy opened no tunnel to {authority}: it answered {answer}.")
        wire.put_back(connection.trailing_data[0])


@contextlib.contextmanager
def _pin_socket(path: str) -> Iterator[tuple[str, str]]:
    """Yield the real path of a socket, and a pinned path for connecting to it.

    The pinned path refers to the same socket even if a symlink in ``path`` changes. On systems without ``O_PATH`` and
    ``/proc/self/fd``, it is the real path.
    """
    flag = getattr(os, "O_PATH", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        real = os.path.realpath(path)
        yield real, real
        return
    descriptor = os.open(path, flag | os.O_CLOEXEC)
    try:
        pinned = f"/proc/self/fd/{descriptor}"
        yield str(Path(pinned).readlink()), pinned
    finally:
        os.close(descriptor)


async def _first(create: Callable[[], Wire], addresses: list[str], port: int, tls_name: str | None) -> Wire:
    """Connect to the first address that responds. Each address gets a head start before the next one."""
    loop = asyncio.get_running_loop()
    tls: dict[str, Any] = {}
    if tls_name is not None:
        import ssl

        tls = {"ssl": ssl.create_default_context(), "server_hostname": tls_name}

    async def connect(address: str) -> Wire:
        _, wire = await loop.create_connection(create, address, port, **tls)
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
        await _discard(tasks, winner)
    raise error or OSError("no address")


async def _discard(tasks: list[asyncio.Task[Wire]], winner: Wire | None) -> None:
    """Cancel the remaining attempts and close connections that came too late."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Wire) and outcome is not winner:
            outcome.abort()


@contextlib.asynccontextmanager
async def _time_limit(seconds: float, what: str) -> AsyncIterator[None]:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise  # the system's own timeout: ETIMEDOUT is an OSError
        raise UnreachableError(
            f"{what[:1].upper()}{what[1:]} took longer than {seconds:g} s.", status=504, socks=6
        ) from None


def _words(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror) or not isinstance(error, OSError):
        return str(error.args[-1]) if error.args else type(error).__name__
    of_tls = hasattr(error, "library")  # an ssl.SSLError has its own error numbers
    return os.strerror(error.errno) if error.errno and not of_tls else str(error)
