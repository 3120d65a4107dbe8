"""The gate of one command: its listening sockets, connections and rules."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

from codex_framework import NetworkRules, ProxyPorts, SandboxError
from codex_framework.contract.roles.networks import BlockedRequest
from codex_plugin_network_proxy.carrier import Carrier
from codex_plugin_network_proxy.deciding import Ask, Decider
from codex_plugin_network_proxy.environment import command_environment, upstream_proxies
from codex_plugin_network_proxy.limits import Limits, Room
from codex_plugin_network_proxy.resolving import Resolve
from codex_plugin_network_proxy.routing import Router
from codex_plugin_network_proxy.rules import checked_rules
from codex_plugin_network_proxy.wire import Wire

__all__ = ["Carrier", "Gate"]

_QUEUE = 1024
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_TRANSIENT = {
    errno.ECONNABORTED,
    errno.EAGAIN,
    errno.EINTR,
    errno.EPROTO,
    errno.ENETDOWN,
    errno.EPERM,
    errno.ECONNRESET,
}


class Side(Protocol):
    """A handler for one connection."""

    async def run(self) -> None:
        """Handle the connection until it ends."""
        ...


class Gate:
    """The gate of one command.

    Args:
        rules: The rules for hosts and sockets.
        ask: Called for targets that no rule matches. None if these targets are refused.
        open_gates: The set of open gates. The gate adds itself when it starts listening and removes itself when it is closed.

    Raises:
        SandboxError: A rule is invalid or unsupported.
    """

    def __init__(
        self, rules: NetworkRules, ask: Ask | None, *, limits: Limits, resolve: Resolve, open_gates: set[Gate]
    ) -> None:
        hosts, sockets = checked_rules(rules)
        upstream, bypassed = upstream_proxies(os.environ) if rules.allow_upstream_proxy else ({}, {})
        self._rules = rules
        self._decider = Decider(rules, hosts, ask, self._all_ports)
        self._router = Router(
            self._decider, sockets, limits=limits, resolve=resolve, upstream=upstream, bypassed=bypassed
        )
        self._carrier = Carrier(self._decider, self._router, limits)
        self._open_gates = open_gates
        self._own_ports: ProxyPorts | None = None
        self._acceptors: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._room: Room | None = None
        self._closed = False

    @property
    def blocked(self) -> tuple[BlockedRequest, ...]:
        """Refused requests so far, at most the first 100."""
        return tuple(self._carrier.blocked)

    def environment(self, ports: ProxyPorts) -> Mapping[str, str]:
        """Return ``HTTP_PROXY`` and similar variables for a command that can reach the gate at these ports."""
        return command_environment(ports, self._rules)

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        """Start accepting connections on duplicates of these listening sockets.

        Raises:
            SandboxError: The gate is closed, or the sockets cannot be duplicated.
        """
        self._check_open()
        try:
            self._accept_from(http.dup(), self._http_side)
            if socks is not None and self._rules.enable_socks5:
                self._accept_from(socks.dup(), self._socks_side)
        except OSError as error:
            raise SandboxError(
                f"the network proxy cannot take over a listening socket: {error.strerror}",
                hint="Raise the limit on open files (ulimit -n).",
            ) from None

    async def listen(self) -> ProxyPorts:
        """Open listening sockets on 127.0.0.1 and return their ports. Further calls return the same ports.

        Raises:
            SandboxError: No port is available, or the gate is closed.
        """
        self._check_open()
        if self._own_ports is None:
            with contextlib.ExitStack() as opened:
                listeners = [opened.enter_context(_listener()) for _ in range(1 + self._rules.enable_socks5)]
                opened.pop_all()
            sides = (self._http_side, self._socks_side)
            for listener, side in zip(listeners, sides, strict=False):
                self._accept_from(listener, side)
            ports = [listener.getsockname()[1] for listener in listeners]
            self._own_ports = ProxyPorts(ports[0], ports[1] if len(ports) > 1 else 0)
        return self._own_ports

    async def aclose(self) -> None:
        """End all connections and close the sockets. May be called more than once."""
        self._closed = True
        self._open_gates.discard(self)
        tasks = [*self._acceptors, *self._connections, *self._decider.questions]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._router.aclose()

    def _all_ports(self) -> set[int]:
        """Return the ports of all gates that opened their own listening sockets."""
        return {port for gate in self._open_gates for port in gate._own_ports or ()}  # noqa: SLF001  # of the same class

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError(
                "the network gate of this command is closed", hint="Create a new gate for another command."
            )
        self._open_gates.add(self)

    def _accept_from(self, listener: socket.socket, side: Callable[[Wire], Side]) -> None:
        listener.setblocking(False)  # noqa: FBT003  # the parameter is positional-only
        self._room = self._room or Room()
        task = asyncio.ensure_future(self._accept(listener, side, self._room))
        self._acceptors.add(task)
        task.add_done_callback(lambda _: listener.close())

    async def _accept(self, listener: socket.socket, side: Callable[[Wire], Side], room: Room) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await room.enter()
            try:
                accepted = listener.accept()[0]
            except OSError as error:
                room.leave()
                if error.errno in _EXHAUSTED:
                    await asyncio.sleep(0.1)
                elif error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    await _readable(loop, listener)
                elif error.errno not in _TRANSIENT:
                    return  # the listening socket itself has failed
                continue
            task = asyncio.ensure_future(self._carry(accepted, side))
            self._connections.add(task)
            task.add_done_callback(self._on_carried)

    async def _carry(self, accepted: socket.socket, side: Callable[[Wire], Side]) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        try:
            accepted.setblocking(False)  # noqa: FBT003  # the parameter is positional-only
            with contextlib.suppress(OSError):  # asyncio does not recognise this socket as TCP
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, wire = await loop.connect_accepted_socket(self._router.wire, accepted)
        except BaseException:
            accepted.close()
            raise
        wire.on_lost = task.cancel
        try:
            await side(wire).run()
        except (ConnectionError, TimeoutError):
            wire.abort()
        except BaseException:
            wire.abort()
            raise
        else:
            wire.on_lost = None
            wire.close()
            await asyncio.wait(
                [wire.lost], timeout=self._carrier.limits.half_closed_s
            )  # give the client time to read the rest
            wire.abort()

    def _on_carried(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if self._room is not None:
            self._room.leave()
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a connection of the network proxy failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)

    def _http_side(self, wire: Wire) -> Side:
        from codex_plugin_network_proxy.http_side import HttpSide

        return HttpSide(self._carrier, wire)

    def _socks_side(self, wire: Wire) -> Side:
        from codex_plugin_network_proxy.socks_side import SocksSide

        return SocksSide(self._carrier, wire)


def _listener() -> socket.socket:
    """Return a listening socket on a free port.

    Raises:
        SandboxError: No port is available.
    """
    try:
        return socket.create_server(("127.0.0.1", 0), backlog=_QUEUE)
    except OSError as error:
        raise SandboxError(
            f"the network proxy cannot open a port on 127.0.0.1: {error.strerror}",
            hint="Close programs that use many ports, or raise the limit on open files (ulimit -n).",
        ) from None


async def _readable(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
    """Wait until a connection can be accepted.

    ``loop.sock_accept`` is not used, because it could lose a connection when it is cancelled.
    """
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(listener, wake)
    try:
        await ready
    finally:
        loop.remove_reader(listener)
