"""Normalisation of host names and addresses, without name resolution."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["BadHostError", "clean_host", "host_text", "is_address", "split_authority"]

_LABELS = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_LIKE_A_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_MAX_LENGTH = 253


class BadHostError(ValueError):
    """The text is not a valid host or ``host:port``. The message states the reason."""


@lru_cache(maxsize=1024)
def clean_host(text: str) -> str:
    """Return the normalised form of a host name or address.

    A name becomes lower-case ASCII without a trailing dot. An address gets its canonical form without brackets. IPv4 addresses
    are accepted in every notation that resolvers accept (``127.1``, ``0x7f.1``, ``2130706433``). An IPv4-mapped IPv6 address
    (``::ffff:1.2.3.4``) becomes the IPv4 address, because both mean the same host.

    Raises:
        BadHostError: The text is neither a name nor an address.
    """
    if text.startswith("[") or ":" in text:
        return _ipv6(text)
    name = text.lower() if text.isascii() else _ascii(text)
    name = name.removesuffix(".")
    if len(name) > _MAX_LENGTH or not _LABELS.fullmatch(name):
        raise BadHostError(f"{text[:80]!r} is not a host")
    if _LIKE_A_NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(text, name)
    return name


def is_address(host: str) -> bool:
    """Return whether a normalised host is an address rather than a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def split_authority(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Return the normalised host and the port of ``host:port`` or ``[address]:port``.

    The port is optional if a default is given.

    Raises:
        BadHostError: The text does not have this form.
    """
    host, port = split_port(text)
    if port is None:
        if default_port is None:
            raise BadHostError(f"{text[:80]!r} has no port")
        port = default_port
    return clean_host(host), port


def split_port(text: str) -> tuple[str, int | None]:
    """Return the host as written and the port, or None if the text contains no port.

    Raises:
        BadHostError: The port is invalid, or the text is ambiguous.
    """
    if text.startswith("["):
        host, separator, rest = text.partition("]")
        if not separator or (rest and not rest.startswith(":")):
            raise BadHostError(f"{text[:80]!r} is not a host")
        return host + separator, _port(text, rest[1:]) if rest else None
    host, separator, port = text.partition(":")
    if ":" in port:
        raise BadHostError(f"{text[:80]!r} is not a host; an IPv6 address must be in brackets")
    return host, _port(text, port) if separator else None


def host_text(host: str, port: int | None = None) -> str:
    """Format a normalised host, with its port if one is given, for URLs and rules."""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


def _port(text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise BadHostError(f"the port of {text[:80]!r} is not a number from 1 to 65535")
    return int(digits)


def _ascii(text: str) -> str:
    import idna

    try:
        return idna.encode(text, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise BadHostError(f"{text[:80]!r} is not a host") from None


def _ipv6(text: str) -> str:
    import ipaddress

    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        raise BadHostError(f"{text[:80]!r} is not a host") from None
    if address.scope_id is not None:
        raise BadHostError(f"{text[:80]!r} names a network interface")
    return str(address.ipv4_mapped or address)


def _ipv4(text: str, name: str) -> str:
    """Parse an IPv4 address of one to four numbers, each decimal, octal (prefix ``0``) or hexadecimal (``0x``).

    The last number fills the remaining bytes.
    """
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise BadHostError(f"{text[:80]!r} is not a host: a name cannot end in a number")
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        raise BadHostError(f"{text[:80]!r} is not an address") from None
    *front, last = numbers
    if any(number > 255 for number in front) or last >= 256 ** (4 - len(front)):
        raise BadHostError(f"{text[:80]!r} is not an address: a number in it is too large")
    value = last
    for place, number in enumerate(front):
        value += number << 8 * (3 - place)
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _number(part: str) -> int:
    if part[:2] in ("0x", "0X"):
        return int(part, 16)
    return int(part, 8) if part.startswith("0") and len(part) > 1 else int(part)
