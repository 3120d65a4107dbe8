"""The one way to write a host, so that a rule and a connection can be compared."""

from __future__ import annotations

import re
import socket

__all__ = ["canonical_host", "rule_host"]

_NAME = re.compile(r"[a-z0-9_.\-]+")
_WITH_PORT = re.compile(r"\[(?P<inner>[^\[\]]*)\](:[0-9]+)?|(?P<plain>[^:\[\]]+):[0-9]+")


def canonical_host(host: str) -> str:
    """In lower case, without a final dot; other scripts as ``xn--``, addresses in their shortest form."""
    name = host.strip().lower().rstrip(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:  # no name that anything can be found by: it equals itself
            return name
    return _address(name) or name


def rule_host(text: str) -> str:
    """The host of a rule, in that form. A port behind it says nothing, as in Codex: the rule holds for every port.

    Raises:
        ValueError: It is empty, or no host.
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
    """An address as everybody writes it; None for what is no address."""
    if ":" in name:
        plain, percent, scope = name.partition("%")
        try:
            packed = socket.inet_pton(socket.AF_INET6, plain)
        except (OSError, ValueError):
            return None
        if packed.startswith(b"\0" * 10 + b"\xff\xff"):  # an address of version 4 in other clothes
            return socket.inet_ntop(socket.AF_INET, packed[12:])
        return socket.inet_ntop(socket.AF_INET6, packed) + percent + scope
    if not name[:1].isdigit():
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(name))  # 127.1 and 0x7f000001 too: that is how programs read them
    except (OSError, ValueError):
        return None
