"""Whether a client is a program of this machine, and of which user, for servers that listen on loopback without a token."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["connection_owner", "is_local_name"]

_CONNECTIONS = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
"""The files in which Linux lists connections, by IP version: ``man 5 proc``."""


def is_local_name(host: str) -> bool:
    """Return whether the header ``Host`` names this machine, and not a domain that resolves to it (DNS rebinding)."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def connection_owner(here: Sequence[Any], there: Sequence[Any]) -> int | None:
    """Return the user whose program is at the other end of a TCP connection within this machine.

    Works only on Linux. None if it is unknown.

    Args:
        here: The address and port at this end, as ``getsockname`` returns them.
        there: The address and port at the other end.
    """
    if sys.platform != "linux":
        return None
    try:
        here_ip, there_ip = ipaddress.ip_address(here[0]), ipaddress.ip_address(there[0])
        tables = [(here_ip.version, there_ip, here_ip)]
        if here_ip.version == 4:  # a socket of IPv6 can connect to it, and is listed with its own kind of addresses
            tables.append((6, _map_to_ipv6(there_ip), _map_to_ipv6(here_ip)))
        for version, far, near in tables:
            ends = [_entry(far, there[1]), _entry(near, here[1])]
            with _CONNECTIONS[version].open(encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1:3] == ends:
                        return int(fields[7])
    except (OSError, ValueError, IndexError):
        return None
    return None


def _map_to_ipv6(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv6Address:
    return ipaddress.IPv6Address(f"::ffff:{address}")


def _entry(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """Return an address as Linux writes it in its tables: words of four bytes in the order of the machine."""
    data = address.packed
    words = (data[place : place + 4] for place in range(0, len(data), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
