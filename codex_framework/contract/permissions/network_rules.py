"""Which hosts may be reached."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework.contract.value import Value, field

__all__ = [
    "NetworkRules",
]


class NetworkRules(Value, kw_only=True):
    """Which hosts may be reached, and how (config: ``[permissions.NAME.network]``).

    Attributes:
        domains: Pattern to ``allow`` or ``deny``; deny counts over allow. ``host``, ``*.host`` (below it), ``**.host`` (it and
            below it), ``*`` (any; only to allow); each also with ``:port``.
        mode: ``full``, or ``limited``: only ``GET``, ``HEAD`` and ``OPTIONS`` of plain HTTP pass.
        unix_sockets: Absolute path to ``allow`` or ``none``: sockets that may be reached by way of the proxy.
        allow_local_binding: Loopback and private addresses are treated as any other: a wildcard, another name or an answer may
            allow them. Without it, and what is otherwise not public (link-local, multicast, ...) in any case, has to be allowed as
            it is.
        enable_socks5: Also speak SOCKS5.
        enable_socks5_udp: Also carry datagrams by SOCKS5.
        allow_upstream_proxy: Go out by the proxy that the environment of this process names.
    """

    domains: Mapping[str, str] = field(factory=dict)
    mode: str = "full"
    unix_sockets: Mapping[str, str] = field(factory=dict)
    allow_local_binding: bool = False
    enable_socks5: bool = True
    enable_socks5_udp: bool = False
    allow_upstream_proxy: bool = False

    def __hash__(self) -> int:
        """By the domains, which tell rules apart: tables have no hash of their own."""
        return hash((NetworkRules, tuple(sorted(self.domains.items())), self.mode))
