"""Hosts as people and programs write them, brought into one form. Nothing is looked up."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["BadHostError", "clean_host", "is_address", "split_authority", "written"]

_LABELS = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_LIKE_A_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_LONGEST = 253


class BadHostError(ValueError):
    """What was given is no host, or no host with a port; the text says why."""


@lru_cache(maxsize=1024)
def clean_host(text: str) -> str:
    """A name in lower case and ASCII, without a final dot; an address in its usual form, without brackets.

    IPv4 addresses are understood in every notation that resolvers accept (``127.1``, ``0x7f.1``, ``2130706433``); an IPv4 address
    within an IPv6 one (``::ffff:1.2.3.4``) becomes the IPv4 address, as it leads to the same place.

    Raises:
        BadHostError: It is neither.
    """
    if text.startswith("[") or ":" in text:
        return _ipv6(text)
    name = text.lower() if text.isascii() else _ascii(text)
    name = name.removesuffix(".")
    if len(name) > _LONGEST or not _LABELS.fullmatch(name):
        raise BadHostError(f"{text[:80]!r} is no host")
    if _LIKE_A_NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(text, name)
    return name


def is_address(host: str) -> bool:
    """Whether a clean host is an address rather than a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def split_authority(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Clean host and port of ``host:port``, ``[address]:port``, or without a port where there is a default.

    Raises:
        BadHostError: It is none of these.
    """
    host, port = split_port(text)
    if port is None:
        if default_port is None:
            raise BadHostError(f"{text[:80]!r} names no port")
        port = default_port
    return clean_host(host), port


def split_port(text: str) -> tuple[str, int | None]:
    """The host as it is written, and the port if there is one.

    Raises:
        BadHostError: The port is none, or it is not clear where it begins.
    """
    if text.startswith("["):
        host, mark, rest = text.partition("]")
        if not mark or (rest and not rest.startswith(":")):
            raise BadHostError(f"{text[:80]!r} is no host")
        return host + mark, _port(text, rest[1:]) if rest else None
    host, mark, port = text.partition(":")
    if ":" in port:
        raise BadHostError(f"{text[:80]!r} is no host; an IPv6 address stands in brackets")
    return host, _port(text, port) if mark else None


def written(host: str, port: int | None = None) -> str:
    """A clean host as it stands in URLs and rules."""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


def _port(text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise BadHostError(f"the port of {text[:80]!r} is no number from 1 to 65535")
    return int(digits)


def _ascii(text: str) -> str:
    import idna

    try:
        return idna.encode(text, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise BadHostError(f"{text[:80]!r} is no host") from None


def _ipv6(text: str) -> str:
    import ipaddress

    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        raise BadHostError(f"{text[:80]!r} is no host") from None
    if address.scope_id is not None:
        raise BadHostError(f"{text[:80]!r} names an interface of this machine")
    return str(address.ipv4_mapped or address)


def _ipv4(text: str, name: str) -> str:
    """An IPv4 address of one to four numbers, each decimal, octal (``0``) or hexadecimal (``0x``); the last one fills up."""
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise BadHostError(f"{text[:80]!r} is no host: names do not end in a number")
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        raise BadHostError(f"{text[:80]!r} is no address") from None
    *front, last = numbers
    if any(number > 255 for number in front) or last >= 256 ** (4 - len(front)):
        raise BadHostError(f"{text[:80]!r} is no address: a number in it is too large")
    value = last
    for place, number in enumerate(front):
        value += number << 8 * (3 - place)
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _number(part: str) -> int:
    if part[:2] in ("0x", "0X"):
        return int(part, 16)
    return int(part, 8) if part.startswith("0") and len(part) > 1 else int(part)
