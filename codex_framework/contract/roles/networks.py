"""The role of a network proxy, the only network access of commands that may reach only some hosts."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.value import Value

__all__ = ["BlockedRequest", "NetworkGate", "NetworkProxy", "NetworkRules", "NetworkTarget", "ProxyPorts"]


class NetworkTarget(Value):
    """A network target that a command wants to reach.

    Attributes:
        host: A name or an address, in lower case, without brackets or a final dot. For a Unix socket it is ``unix-socket``, with
            port 0.
        protocol: ``http``, ``https`` (a ``CONNECT``), ``socks5_tcp`` or ``socks5_udp``.
        method: The method of a plain HTTP request.
    """

    host: str
    port: int
    protocol: str
    method: str | None = None


class BlockedRequest(Value):
    """A blocked request.

    Attributes:
        reason: ``blocked-by-allowlist``, ``blocked-by-denylist``, ``blocked-by-method-policy`` or ``blocked-by-policy``
            (Codex's values of ``x-proxy-error``).
    """

    target: NetworkTarget
    reason: str


class ProxyPorts(NamedTuple):
    """TCP ports on the loopback address, as the command sees it. ``socks`` is 0 if SOCKS5 is not available."""

    http: int
    socks: int


class NetworkGate(Protocol):
    """The proxy of one command, with its own rules. It serves the listening sockets that it is given."""

    @property
    def blocked(self) -> tuple[BlockedRequest, ...]:
        """The requests blocked so far, at most the first 100."""
        ...

    def environment(self, ports: ProxyPorts) -> Mapping[str, str]:
        """Return ``HTTP_PROXY`` and similar variables, for a command that sees these ports."""
        ...

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        """Start to accept connections from these listening sockets. They may belong to another network namespace.

        The gate uses duplicates (``dup``) and closes only those. The given sockets become non-blocking, because duplicates
        share that flag.
        """
        ...

    async def listen(self) -> ProxyPorts:
        """Open listening sockets on 127.0.0.1, for sandboxes that share this machine's network. Further calls return the same ones.

        Raises:
            SandboxError: No port is available.
        """
        ...

    async def aclose(self) -> None:
        """End all connections and release the sockets. Safe to call twice."""
        ...


class NetworkProxy:
    """A factory of gates.

    Attributes:
        name: Short and unique.
        close_timeout_s: Time limit of :meth:`aclose`, in seconds.
    """

    name: str
    close_timeout_s: float = 5.0

    @abstractmethod
    def gate(self, rules: NetworkRules, ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None) -> NetworkGate:
        """Return a gate for one command.

        Args:
            rules: The rules for requests that pass without a question.
            ask: Called for a target that matches no rule, while its connection waits. True allows the target. If it is None or
                raises, the target is refused. Never called for denied targets, for methods that the mode forbids, or for
                addresses that are not public, unless ``allow_local_binding`` is on.

        Raises:
            SandboxError: The rules are contradictory or cannot be enforced.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """End all gates. Safe to call twice."""
