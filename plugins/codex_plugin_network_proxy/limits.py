"""Time and size limits for connections."""

from __future__ import annotations

import asyncio

from codex_framework.contract.value import Value

__all__ = ["Limits", "Room"]


class Limits(Value, kw_only=True):
    """The limits of a gate. All times are in seconds.

    Attributes:
        head_s: Time to receive the head of a request, counted from its first byte, or a whole SOCKS greeting.
        between_s: Maximum pause between two requests.
        resolve_s: Time to resolve a name.
        connect_s: Time to connect to a host, for all its addresses together.
        idle_s: Maximum silence during a request or in a tunnel.
        half_closed_s: Maximum silence in a tunnel after one side has finished sending.
        linger_s: Time for the client to read a refusal before its connection is closed.
        head_bytes: Maximum size in bytes of the head of a request or response.
    """

    head_s: float = 30.0
    between_s: float = 300.0
    resolve_s: float = 15.0
    connect_s: float = 30.0
    idle_s: float = 1800.0
    half_closed_s: float = 120.0
    linger_s: float = 2.0
    head_bytes: int = 65_536


class Room:
    """A limit on a gate's concurrent connections, so that no command can exhaust this process's file descriptors.

    A connection uses two file descriptors, and a gate may use a quarter of those available. Further connections wait in the
    queue of the listening socket.
    """

    def __init__(self) -> None:
        self._capacity = _capacity()
        self._taken = 0
        self._released = asyncio.Event()

    async def enter(self) -> None:
        """Take a slot. If all slots are taken, wait for one."""
        while self._taken >= self._capacity:
            self._released.clear()
            await self._released.wait()
        self._taken += 1

    def leave(self) -> None:
        """Release the slot."""
        self._taken -= 1
        self._released.set()


def _capacity() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else min(2048, max(16, soft // 8))
