"""Rules for network access."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework.contract.value import Value, field

__all__ = [
    "NetworkRules",
]


class NetworkRules(Value, kw_only=True):
    """Rules for network access (config: ``[permissions.NAME.network]``).

    Attributes:
        domains: Pattern to ``allow`` or ``deny``; deny overrides allow. Patterns are ``host``, ``*.host`` (subdomains), ``**.host``
            (the host and its subdomains) and ``*`` (any host; only with ``allow``), each optionally with ``:port``.
        mode: ``full``, or ``limited``: only ``GET``, ``HEAD`` and ``OPTIONS`` of plain HTTP pass.
        unix_sockets: Absolute path to ``allow`` or ``none``: sockets that may be reached through the proxy.
        allow_local_binding: Whether loopback and private addresses are treated like public ones: a wildcard, another name or an
            answer
            can allow them. Otherwise they must be allowed literally, as must all other non-public addresses (link-local, multicast,
            ...)
            in any case.
        enable_socks5: Whether the proxy also accepts SOCKS5.
        enable_socks5_udp: Whether the proxy also forwards datagrams over SOCKS5.
        allow_upstream_proxy: Whether to connect through the proxy named in this process's environment.
    """

    domains: Mapping[str, str] = field(factory=dict)
    mode: str = "full"
    unix_sockets: Mapping[str, str] = field(factory=dict)
    allow_local_binding: bool = False
    enable_socks5: bool = True
    enable_socks5_udp: bool = False
    allow_upstream_proxy: bool = False

    def __hash__(self) -> int:
        """Hash by the domains, because the tables are not hashable."""
        return hash((NetworkRules, tuple(sorted(self.domains.items())), self.mode))
