"""A network proxy that gives commands access to selected hosts over HTTP, CONNECT and SOCKS5."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import NetworkProxy, hookimpl

__all__ = ["codex_network_proxies"]


@hookimpl
def codex_network_proxies() -> Iterable[NetworkProxy]:
    """Offer the proxy ``network_proxy``."""
    from codex_plugin_network_proxy.proxy import RuledProxy

    return [RuledProxy()]
