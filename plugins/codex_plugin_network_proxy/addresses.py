"""Classification of IP addresses as public, loopback, private or otherwise special.

The networks are taken from the special-purpose address registries (RFC 6890 and its updates). They are listed here because
``ipaddress.ip_address(...).is_global`` differs between Python versions.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

__all__ = ["LOCAL_KINDS", "kind_of", "reached_by"]

LOCAL_KINDS = frozenset({"loopback", "private"})
"""Kinds of addresses that ``allow_local_binding`` permits: this machine and private networks."""

_V4 = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("127.0.0.0/8", "loopback"),
        ("0.0.0.0/8", "loopback"),  # connecting to 0.0.0.0 reaches this machine
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("169.254.0.0/16", "link-local"),  # includes the metadata services of cloud providers
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/127", "loopback"),  # :: and ::1
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # Teredo and others
        ("2001:db8::/32", "reserved"),
        ("2002::/16", "reserved"),  # 6to4
        ("3fff::/20", "reserved"),
    )
]
_V6_PUBLIC = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def reached_by(address: str) -> str:
    """Return the address that a connection reaches, as rules write it.

    An IPv4 address can be written as an IPv6 address, mapped (``::ffff:1.2.3.4``) or for translation (``64:ff9b::1.2.3.4``, RFC
    6052). The name of a network interface (``%eth0``) is not part of an address.
    """
    parsed = _parsed(address)
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(_v4_in(parsed) or parsed)


@lru_cache(maxsize=1024)
def kind_of(address: str) -> str:
    """Return the kind of an address, or ``""`` for a public address.

    The kinds are ``loopback``, ``private``, ``link-local``, ``carrier-grade NAT``, ``multicast`` and ``reserved``.
    """
    parsed = _parsed(address)
    if isinstance(parsed, IPv4Address):
        return _kind_of_v4(parsed)
    return _kind_of_v6(parsed)


def _parsed(address: str) -> IPv4Address | IPv6Address:
    return ip_address(address.partition("%")[0])


def _v4_in(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address contains. None if it contains none."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.ipv4_mapped


def _kind_of_v4(address: IPv4Address) -> str:
    return next((kind for network, kind in _V4 if address in network), "")


def _kind_of_v6(address: IPv6Address) -> str:
    inner = _v4_in(address)
    if inner is not None:
        return _kind_of_v4(inner)
    for network, kind in _V6:
        if address in network:
            return kind
    return "" if address in _V6_PUBLIC else "reserved"
