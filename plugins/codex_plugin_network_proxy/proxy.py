"""The network proxy, which creates and closes gates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from codex_framework import NetworkProxy, NetworkRules, NetworkTarget, SandboxError

if TYPE_CHECKING:
    from codex_plugin_network_proxy.gate import Gate
    from codex_plugin_network_proxy.limits import Limits
    from codex_plugin_network_proxy.resolving import Resolve

__all__ = ["RuledProxy"]


class RuledProxy(NetworkProxy):
    """The network proxy. Its gates run in this process, on the event loop that opens them.

    Args:
        limits: Time and size limits. By default, the defaults of :class:`codex_plugin_network_proxy.limits.Limits`.
        resolve: Resolves names to addresses. By default, the system's resolver.
    """

    name = "network_proxy"

    def __init__(self, *, limits: Limits | None = None, resolve: Resolve | None = None) -> None:
        self._limits = limits
        self._resolve = resolve
        self._open: set[Gate] = set()
        self._closed = False

    def gate(self, rules: NetworkRules, ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None) -> Gate:
        """Return a gate for one command. No socket is opened before ``serve`` or ``listen`` is called.

        Raises:
            SandboxError: A rule is invalid or unsupported, or the proxy is closed.
        """
        if self._closed:
            raise SandboxError("the network proxy is closed", hint="Start commands before the kernel is closed.")
        from codex_plugin_network_proxy.gate import Gate
        from codex_plugin_network_proxy.limits import Limits
        from codex_plugin_network_proxy.resolving import resolve

        return Gate(
            rules, ask, limits=self._limits or Limits(), resolve=self._resolve or resolve, open_gates=self._open
        )

    async def aclose(self) -> None:
        """Close all gates. May be called more than once."""
        self._closed = True
        for gate in tuple(self._open):
            await gate.aclose()
