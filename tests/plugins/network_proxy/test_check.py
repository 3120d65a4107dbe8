"""The check of network proxies finds those that do not keep to the role."""

from __future__ import annotations

import pytest

from codex_framework import NetworkRules
from codex_framework.testing import ContractViolation, check_network_proxy
from codex_plugin_network_proxy.proxy import RuledProxy


def violations(proxy):
    with pytest.raises(ContractViolation) as caught:
        check_network_proxy(proxy)
    return "\n".join(caught.value.violations)


class Changed(RuledProxy):
    """The bundled proxy with other rules than it is given, or another gate."""

    def __init__(self, change=lambda rules: rules, *, wrap=lambda gate: gate, asks=True):
        super().__init__()
        self._change, self._wrap, self._asks = change, wrap, asks

    def gate(self, rules, ask=None):
        return self._wrap(super().gate(self._change(rules), ask if self._asks else None))


def test_a_proxy_that_heeds_only_allow_is_found():
    found = violations(
        Changed(
            lambda rules: rules.evolve(domains={p: w for p, w in rules.domains.items() if w == "allow"}, mode="full")
        )
    )
    assert "a request to loopback that is allowed and denied is answered with 'HTTP/1.1 200 OK', not with 403" in found
    assert "POST in limited mode is answered with 'HTTP/1.1 200 OK', not with 403" in found
    assert "SOCKS in limited mode is answered with 0, not 2" in found
    assert "gate() takes {'*': 'deny'}; it must raise SandboxError" in found


def test_a_proxy_that_refuses_everything_is_found():
    found = violations(
        Changed(lambda rules: NetworkRules(domains={k: v for k, v in rules.domains.items() if v == "deny"}))
    )
    assert (
        "a tunnel to loopback that a wildcard allows, with allow_local_binding is answered with 'HTTP/1.1 403" in found
    )
    assert "GET in limited mode is answered with" in found
    assert "listen() returns a port for SOCKS5 that is switched off" in found


def test_a_proxy_that_never_asks_is_found():
    found = violations(Changed(asks=False))
    assert "five requests for one host ask [], not [" in found
    assert "what was allowed when asked is answered with 'HTTP/1.1 403" in found


def test_a_gate_that_does_not_close_is_found():
    class Open:
        def __init__(self, gate):
            self._gate = gate
            self.environment, self.serve, self.listen = gate.environment, gate.serve, gate.listen

        @property
        def blocked(self):
            return self._gate.blocked

        async def aclose(self):
            pass

    found = violations(Changed(wrap=Open))
    assert "aclose() of a gate leaves a tunnel open" in found
    assert "a closed gate still accepts from the sockets that serve() was given" in found
    assert "a port of a closed gate is still open" in found


def test_a_proxy_that_is_no_proxy_is_found():
    class Nothing:
        blocked = ()

        def environment(self, ports):
            return {"HTTP_PROXY": 1}

        async def serve(self, http, socks):
            http.close()

        async def listen(self):
            return (9, 9)

        async def aclose(self):
            pass

    found = violations(Changed(wrap=lambda gate: Nothing()))
    assert "listen() returns (9, 9), not ProxyPorts" in found
    assert "environment() returns {'HTTP_PROXY': 1}, not a mapping of strings" in found
    found = violations(object())
    assert "gate" in found
