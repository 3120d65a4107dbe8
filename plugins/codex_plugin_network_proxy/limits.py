"""Time and size limits for connections."""

from __future__ import annotations

import asyncio

from codex_framework.contract.value import Value

__all__ = ["Limits", "Room"]


class Limits(Value, kw_only=True):
    """The limits of a gate. All times are in seconds.

    Attributes:
        head_s: For the head of a request, from its first byte; also for a whole SOCKS greeting.
        between_s: For the pause between two requests.
        resolve_s: For resolving a name.
        connect_s: For connecting, over all addresses of a host.
        idle_s: For silence during a request or in a tunnel.
        half_closed_s: For silence in a tunnel that one side has finished sending to.
        linger_s: For the client to read a refusal before its connection is closed.
        head_bytes: Size in bytes of the head of a request or response.
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
    """The limit on concurrent connections of a gate, so that no command can use up this process's file descriptors.

    A connection uses two descriptors, and a gate may use a quarter of them. Further connections wait in the queue of the
    listening socket.
    """

    def __init__(self) -> None:
        self._capacity = _capacity()
        self._taken = 0
        self._released = asyncio.Event()

    async def enter(self) -> None:
        """Take a slot, and wait for one if all are taken."""
        while self._taken >= self._capacity:
            self._released.clear()
            await self._released.wait()
        self._taken += 1

    def leave(self) -> None:
        """Give the slot back."""
        self._taken -= 1
        self._released.set()


def _capacity() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else min(2048, max(16, soft // 8))
