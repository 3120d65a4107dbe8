"""The role of a network proxy: the only way out for commands that may reach some hosts and not others."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.value import Value

__all__ = ["BlockedRequest", "NetworkGate", "NetworkProxy", "NetworkRules", "NetworkTarget", "ProxyPorts"]


class NetworkTarget(Value):
    """What a command wants to reach.

    Attributes:
        host: A name or an address, in lower case, without brackets or a final dot; ``unix-socket``, with port 0, for one of these.
        protocol: ``http``, ``https`` (a ``CONNECT``), ``socks5_tcp`` or ``socks5_udp``.
        method: Of plain HTTP.
    """

    host: str
    port: int
    protocol: str
    method: str | None = None


class BlockedRequest(Value):
    """What was not let through.

    Attributes:
        reason: ``blocked-by-allowlist``, ``blocked-by-denylist``, ``blocked-by-method-policy`` or ``blocked-by-policy``
            (Codex's words of ``x-proxy-error``).
    """

    target: NetworkTarget
    reason: str


class ProxyPorts(NamedTuple):
    """TCP ports on the loopback address, as the command sees it. ``socks`` is 0 where SOCKS5 is not spoken."""

    http: int
    socks: int


class NetworkGate(Protocol):
    """One command's way out, with its own rules. It carries what comes in at the listening sockets it is given."""

    @property
    def blocked(self) -> tuple[BlockedRequest, ...]:
        """What was not let through so far; the first 100."""
        ...

    def environment(self, ports: ProxyPorts) -> Mapping[str, str]:
        """``HTTP_PROXY`` and its like, for a command that sees these ports."""
        ...

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        """Accept from these listening sockets from now on. They may belong to another network namespace.

        The gate makes its own copies (``dup``); it neither closes these nor goes on with them once it is closed. They become
        non-blocking, as copies share that.
        """
        ...

    async def listen(self) -> ProxyPorts:
        """Open listening sockets of its own on 127.0.0.1, for sandboxes that share this machine's network; the same ones each time.

        Raises:
            SandboxError: There is no port to be had.
        """
        ...

    async def aclose(self) -> None:
        """End every connection and let go of the sockets. Safe to call twice."""
        ...


class NetworkProxy:
    """Makes gates.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def gate(self, rules: NetworkRules, ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None) -> NetworkGate:
        """Return a gate for one command.

        Args:
            rules: What passes without a question.
            ask: Called for a target of which the rules say nothing, while its connection waits; True lets it pass. None, or an
                exception, refuses. Never called for what is denied, for a method that the mode forbids, or for addresses that are
                not public, unless ``allow_local_binding`` is on.

        Raises:
            SandboxError: The rules contradict themselves or cannot be kept.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """End all gates. Safe to call twice."""
