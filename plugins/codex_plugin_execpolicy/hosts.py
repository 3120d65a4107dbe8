"""The canonical form of hosts, by which rules and connections are compared."""

from __future__ import annotations

import re
import socket

__all__ = ["canonical_host", "rule_host"]

_NAME = re.compile(r"[a-z0-9_.\-]+")
_WITH_PORT = re.compile(r"\[(?P<inner>[^\[\]]*)\](:[0-9]+)?|(?P<plain>[^:\[\]]+):[0-9]+")


def canonical_host(host: str) -> str:
    """Return a host in lower case, without a final dot, other scripts as ``xn--``, addresses in their shortest form."""
    name = host.strip().lower().rstrip(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:  # not a valid name, so it equals only itself
            return name
    return _address(name) or name


def rule_host(text: str) -> str:
    """Return the host of a rule in canonical form. A port is ignored, as in Codex: the rule applies to every port.

    Raises:
        ValueError: It is empty, or not a host.
    """
    host = text.strip()
    if not host:
        raise ValueError("network_rule host cannot be empty")
    if "*" in host:
        raise ValueError("network_rule host must be a specific host; wildcards are not allowed")
    if found := _WITH_PORT.fullmatch(host):
        host = found["inner"] or found["plain"] or ""
    name = canonical_host(host)
    if not _NAME.fullmatch(name) and _address(name) is None:
        raise ValueError("network_rule host must be a hostname or IP literal (without scheme or path)")
    return name


def _address(name: str) -> str | None:
    """Return an address in its usual form, or None if it is not an address."""
    if ":" in name:
        plain, percent, scope = name.partition("%")
        try:
            packed = socket.inet_pton(socket.AF_INET6, plain)
        except (OSError, ValueError):
            return None
        if packed.startswith(b"\0" * 10 + b"\xff\xff"):  # an IPv4 address in IPv6 form
            return socket.inet_ntop(socket.AF_INET, packed[12:])
        return socket.inet_ntop(socket.AF_INET6, packed) + percent + scope
    if not name[:1].isdigit():
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(name))  # also 127.1 and 0x7f000001, as programs read them
    except (OSError, ValueError):
        return None
