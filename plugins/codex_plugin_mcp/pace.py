"""A limit for how often something is done."""

from __future__ import annotations

import asyncio
import time

__all__ = ["Pace"]


class Pace:
    """Lets a few things happen at once, and then one in each span of time.

    Args:
        at_once: How many may happen without a pause.
        every_s: How long it takes until one more may happen, in seconds.
    """

    def __init__(self, at_once: int, every_s: float) -> None:
        self._at_once = at_once
        self._every_s = every_s
        self._left = float(at_once)
        self._since = time.monotonic()

    async def wait(self) -> None:
        """Wait until one more thing may happen, and count it."""
        now = time.monotonic()
        self._left = min(self._at_once, self._left + (now - self._since) / self._every_s) - 1
        self._since = now
        if self._left < 0:
            await asyncio.sleep(-self._left * self._every_s)
