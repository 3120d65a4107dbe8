"""Times and sizes within which connections have to keep."""

from __future__ import annotations

import asyncio

from codex_framework.value import Value

__all__ = ["Limits", "Room"]


class Limits(Value, kw_only=True):
    """All times in seconds.

    Attributes:
        head_s: For the head of a request, from its first byte on; for a whole SOCKS greeting.
        between_s: How long a connection may rest between requests.
        resolve_s: For looking up a name.
        connect_s: For connecting, over all addresses of a host.
        idle_s: How long a request under way, or a tunnel, may carry nothing.
        half_closed_s: The same for a tunnel that one side has finished with.
        linger_s: How long to wait for a client to take a refusal before its connection is cut.
        head_bytes: Size of the head of a request or an answer.
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
    """How many connections a gate carries at a time, so that no command uses up the file descriptors of this process.

    A connection takes two descriptors, and a gate may have a quarter of them. Who comes when it is full waits in the queue of
    the listening socket.
    """

    def __init__(self) -> None:
        self._most = _most()
        self._taken = 0
        self._left = asyncio.Event()

    async def enter(self) -> None:
        """Take a place; wait until there is one."""
        while self._taken >= self._most:
            self._left.clear()
            await self._left.wait()
        self._taken += 1

    def leave(self) -> None:
        """Give it back."""
        self._taken -= 1
        self._left.set()


def _most() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else min(2048, max(16, soft // 8))
