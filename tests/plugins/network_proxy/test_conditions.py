"""Conditions of the network proxy that are easily lost: exceptions in capitals, answers by port, and requests without a host."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import NetworkRules, NetworkTarget
from codex_plugin_network_proxy.deciding import Decider
from codex_plugin_network_proxy.environment import upstream_proxies
from codex_plugin_network_proxy.hosts import BadHostError, clean_host, split_authority
from codex_plugin_network_proxy.refusals import RefusedError
from codex_plugin_network_proxy.requests import BadRequestError, _absolute
from codex_plugin_network_proxy.rules import HostRules


@pytest.mark.parametrize(
    ("variables", "exceptions"),
    [
        ({}, {}),
        ({"NO_PROXY": "a"}, {"no": "a"}),
        ({"no_proxy": "b"}, {"no": "b"}),
        ({"NO_PROXY": "a", "no_proxy": "b"}, {"no": "b"}),
        ({"NO_PROXY": "a", "no_proxy": ""}, {"no": "a"}),
    ],
)
def test_exceptions_count_in_capitals_too(variables: dict[str, str], exceptions: dict[str, str]) -> None:
    assert upstream_proxies(variables) == ({}, exceptions)


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_the_upstream_proxy_may_be_named_in_capitals(name: str) -> None:
    proxies, _ = upstream_proxies({name: "http://p.example:81"})
    assert (proxies["https"].host, proxies["https"].port) == ("p.example", 81)
    assert ("http" in proxies) == (name.lower() == "all_proxy")


@pytest.mark.parametrize(
    "target", ["http", "http:", "http:/a.org", "a.org/", "/", "://a.org", "1://a.org", "ftp://a.org"]
)
def test_a_target_without_scheme_and_host_is_refused(target: str) -> None:
    with pytest.raises(BadRequestError):
        _absolute("GET", target)


def test_an_answer_holds_for_one_host_port_and_protocol() -> None:
    asked: list[tuple[str, int, str]] = []

    async def ask(target: NetworkTarget) -> bool:
        asked.append((target.host, target.port, target.protocol))
        return True

    async def story() -> None:
        decider = Decider(NetworkRules(), HostRules({}), ask, lambda: ())
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for _ in range(2):
            for place in (("a.org", 80, "http"), ("a.org", 81, "http"), ("a.org", 80, "https"), ("b.org", 80, "http")):
                await decider.admit(NetworkTarget(*place), gone)

    asyncio.run(story())
    assert len(asked) == len(set(asked)) == 4


@pytest.mark.parametrize("text", ["[::1", "::1]", "x::1]", "[[::1]]", "[]", "::1%eth0"])
def test_an_address_has_both_brackets_or_none(text: str) -> None:
    assert clean_host("[::1]") == clean_host("::1") == "::1"
    with pytest.raises(BadHostError):
        clean_host(text)


@pytest.mark.parametrize("text", ["[::1]x", "[::1]x80", "[::1] 80", "[::1]"])
def test_only_a_colon_separates_an_address_from_its_port(text: str) -> None:
    assert split_authority("[::1]:80") == ("::1", 80)
    with pytest.raises(BadHostError):
        split_authority(text)


def test_a_name_of_this_machine_is_refused_with_the_setting_that_allows_it() -> None:
    decider = Decider(NetworkRules(), HostRules({"*": "allow"}), None, lambda: ())
    with pytest.raises(RefusedError, match="allow_local_binding = true"):
        decider._check_local("localhost", 80)
