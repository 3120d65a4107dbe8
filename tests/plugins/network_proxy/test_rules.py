"""Hosts, addresses, patterns: what is meant by what is written."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import NetworkRules, SandboxError
from codex_plugin_network_proxy.addresses import kind_of
from codex_plugin_network_proxy.hosts import BadHostError, clean_host, host_text, is_address, split_authority
from codex_plugin_network_proxy.proxy import RuledProxy
from codex_plugin_network_proxy.rules import HostRules


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Example.COM.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--Bcher-Kva.example", "xn--bcher-kva.example"),
        ("a_b.example", "a_b.example"),
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0x7F000001", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::FFFF:127.0.0.1]", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
    ],
)
def test_a_host_has_one_form(text, clean):
    assert clean_host(text) == clean
    assert clean_host(host_text(clean)) == clean


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "a b",
        "a/b",
        "a@b",
        "%31",
        "a%00",
        "-" * 64,
        "a." * 127 + "b",
        "1.2.3.4.5",
        "256.1.1.1",
        "1.2.3.256",
        "0x",
        "09",
        "a.1",
        "a.0x1",
        "[",
        "[]",
        "[::1",
        "[fe80::1%eth0]",
        "::1::",
        "a:b",
        "\\",
        "a\x00b",
        "*",
        "a.*",
        "\u2028",
        "１.１.１.１.１",
    ],
)
def test_what_is_no_host_is_refused(text):
    with pytest.raises(BadHostError):
        clean_host(text)


@given(st.integers(0, 2**32 - 1), st.data())
def test_every_notation_of_an_address_that_the_system_takes_is_understood_as_it_does(value, data):
    parts = data.draw(st.integers(1, 4))
    numbers = [value >> 8 * (3 - place) & 255 for place in range(parts - 1)]
    numbers.append(value & (1 << 8 * (5 - parts)) - 1)
    text = ".".join(
        data.draw(st.sampled_from([str(n), hex(n), f"0{n:o}", hex(n).upper().replace("X", "x")])) for n in numbers
    )
    assert clean_host(text) == socket.inet_ntoa(socket.inet_aton(text)) == str(ipaddress.IPv4Address(value))


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=40)
    | st.text(alphabet="0123456789abcfx.:[]%@-_ *", max_size=20)
)
def test_any_text_is_a_host_in_its_one_form_or_refused(text):
    try:
        clean = clean_host(text)
    except BadHostError:
        return
    assert clean_host(clean) == clean
    assert clean.isascii()
    assert not set(clean) & set(" /@%[]*\\\0\r\n")
    if is_address(clean):
        ipaddress.ip_address(clean)


@given(st.text(alphabet="0123456789abcfx.", min_size=1, max_size=20))
def test_what_the_system_takes_for_an_address_is_never_taken_for_a_name(text):
    try:
        address = socket.inet_ntoa(socket.inet_aton(text))
    except OSError:
        return
    try:
        assert clean_host(text) == address
    except BadHostError:
        return


@pytest.mark.parametrize(
    ("text", "found"),
    [("a:1", ("a", 1)), ("A.:443", ("a", 443)), ("[::1]:8080", ("::1", 8080)), ("127.1:65535", ("127.0.0.1", 65535))],
)
def test_an_authority_is_host_and_port(text, found):
    assert split_authority(text) == found


@pytest.mark.parametrize(
    "text", ["a", "a:", "a:0", "a:65536", "a:x", "a:+1", "a:1:2", ":1", "[::1]", "[::1]1", "a:１", "a: 1"]
)
def test_what_is_no_authority_is_refused(text):
    with pytest.raises(BadHostError):
        split_authority(text)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.0.1", "loopback"),
        ("0.0.0.0", "loopback"),
        ("10.1.2.3", "private"),
        ("172.31.0.1", "private"),
        ("192.168.0.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("198.18.0.1", "reserved"),
        ("192.0.2.1", "reserved"),
        ("::", "loopback"),
        ("::1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:8.8.8.8", ""),
        ("::127.0.0.1", "reserved"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::808:808", ""),
        ("64:ff9b:1::1", "reserved"),
        ("2002:7f00:1::", "reserved"),
        ("2001::1", "reserved"),
        ("fc00::1", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "reserved"),
        ("ff02::1", "multicast"),
        ("8.8.8.8", ""),
        ("2606:4700::1", ""),
    ],
)
def test_addresses_are_sorted(address, kind):
    assert kind_of(address) == kind


@given(st.ip_addresses())
def test_no_address_is_public_that_python_knows_to_be_special(address):
    if kind_of(str(address)) == "":
        mapped = getattr(address, "ipv4_mapped", None)
        nat64 = address in ipaddress.IPv6Network("64:ff9b::/96") if address.version == 6 else False
        assert nat64 or (mapped or address).is_global
        assert not address.is_multicast


@pytest.mark.parametrize(
    ("pattern", "hosts", "others"),
    [
        ("example.com", ["example.com"], ["a.example.com", "example.org", "myexample.com", "com"]),
        ("*.example.com", ["a.example.com", "b.a.example.com"], ["example.com", "aexample.com"]),
        (
            "**.example.com",
            ["example.com", "a.example.com", "b.a.example.com"],
            ["aexample.com", "example.com.evil.org"],
        ),
        ("EXAMPLE.com.", ["example.com"], []),
        ("*.bücher.example", ["a.xn--bcher-kva.example"], ["xn--bcher-kva.example"]),
        ("1.2.3.4", ["1.2.3.4"], ["1.2.3.5"]),
        ("0x1020304", ["1.2.3.4"], []),
        ("::1", ["::1"], ["::2"]),
        ("[2001:db8::1]", ["2001:db8::1"], []),
        ("*", ["example.com", "1.2.3.4", "::1"], []),
    ],
)
def test_a_pattern_speaks_of_its_hosts_and_no_others(pattern, hosts, others):
    rules = HostRules({pattern: "allow"})
    assert [rules.allowed_by(host, 80) for host in hosts] == [pattern] * len(hosts)
    assert [rules.allowed_by(host, 80) for host in others] == [None] * len(others)


@pytest.mark.parametrize("pattern", ["example.com:443", "*.com:443", "**.example.com:443", "*:443"])
def test_a_pattern_with_a_port_speaks_of_that_port(pattern):
    rules = HostRules({pattern: "allow"})
    host = "a.com" if pattern == "*.com:443" else "example.com"
    assert rules.allowed_by(host, 443) == pattern
    assert rules.allowed_by(host, 80) is None
    assert HostRules({"[::1]:8080": "deny"}).denied_by("::1", 8080) == "[::1]:8080"
    assert HostRules({"[::1]:8080": "deny"}).denied_by("::1", 80) is None


def test_only_what_is_named_by_itself_is_named():
    rules = HostRules({"*": "allow", "**.localhost": "allow", "10.0.0.1": "allow", "[::1]:80": "allow"})
    assert rules.names("10.0.0.1", 1)
    assert rules.names("::1", 80)
    assert not rules.names("::1", 81)
    assert not rules.names("localhost", 80)
    assert not rules.names("10.0.0.2", 80)


@pytest.mark.parametrize(
    "rules",
    [
        {"domains": {"*": "deny"}},
        {"domains": {"*:443": "deny"}},
        {"domains": {"https://example.com": "allow"}},
        {"domains": {"example.com/path": "allow"}},
        {"domains": {"a*.example.com": "allow"}},
        {"domains": {"*.*.example.com": "allow"}},
        {"domains": {"*.1.2.3.4": "allow"}},
        {"domains": {"10.0.0.0/8": "allow"}},
        {"domains": {"": "allow"}},
        {"domains": {" example.com": "allow"}},
        {"domains": {"example.com:0": "allow"}},
        {"domains": {"example.com": "maybe"}},
        {"domains": {"*.": "allow"}},
        {"mode": "half"},
        {"enable_socks5_udp": True},
        {"unix_sockets": {"relative": "allow"}},
        {"unix_sockets": {"/x": "deny"}},
    ],
    ids=str,
)
def test_rules_that_cannot_be_kept_are_refused_with_advice(rules):
    with pytest.raises(SandboxError) as caught:
        RuledProxy().gate(NetworkRules(**rules))
    assert "permissions.NAME.network" in caught.value.fact
    assert caught.value.hint


@given(st.dictionaries(st.text(max_size=30), st.sampled_from(["allow", "deny"]), max_size=4))
def test_any_rules_are_understood_or_refused(domains):
    try:
        rules = HostRules(domains)
    except SandboxError as error:
        assert error.hint
        return
    rules.allowed_by("example.com", 80)
