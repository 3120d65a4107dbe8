"""Hook ``codex_network_proxies``: the way out for commands that may reach some hosts only."""

from __future__ import annotations

import asyncio

from codex_framework import NetworkRules, ProxyPorts
from codex_framework.loader.registry import load_registry
from codex_framework.testing import Offer


def test_codex_network_proxies_example_makes_gates_that_let_nothing_pass(example, registry_of):
    proxy = registry_of(example("codex_network_proxies")).network_proxies["nothing-passes"]
    gate = proxy.gate(NetworkRules(domains={"example.com": "allow"}))
    assert asyncio.run(gate.listen()) == ProxyPorts(9, 9)
    assert gate.environment(ProxyPorts(9, 9)) == {}


def test_codex_network_proxies_that_lack_something_are_left_out_and_told(registry_of):
    class Half:
        name = "half"

        async def aclose(self):
            pass

    registry = load_registry({}, entry_points=(), extra_plugins=[Offer(network_proxies=[Half()])])
    assert registry.network_proxies == {}
    (warning,) = registry.warnings
    assert "its network proxy 'half' is ignored" in warning
    assert "it has no def gate(self, rules, ask)" in warning


def test_codex_network_proxies_are_kept_in_order(registry_of):
    class Proxy:
        def __init__(self, name):
            self.name = name

        def gate(self, rules, ask=None):
            raise NotImplementedError

        async def aclose(self):
            pass

    first, second = Proxy("first"), Proxy("second")
    registry = registry_of(Offer(network_proxies=[first, second]))
    assert list(registry.network_proxies.values()) == [first, second]
