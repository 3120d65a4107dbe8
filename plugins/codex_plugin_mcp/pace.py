"""Limits of time: how often something is done, and how long another process is waited for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

__all__ = ["Pace", "Patience"]


class Pace:
    """Limits a rate: a few events may happen without delay, then one per interval.

    Args:
        at_once: The number of events without a pause.
        every_s: The interval in seconds.
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


class Patience:
    """How long to wait for another process on a machine that may be busy.

    Time in which this thread works or waits for a processor does not count, nor does time in which the other process waits for
    one.

    Args:
        seconds: How long to wait.
        process_id: The other process, if it runs on this machine.
    """

    def __init__(self, seconds: float, process_id: int | None = None) -> None:
        self._seconds = seconds
        self._process_id = process_id
        self._began = self._counted()

    @property
    def left_s(self) -> float:
        """How many seconds are left."""
        return self._seconds - (self._counted() - self._began)

    def _counted(self) -> float:
        waited = _waited_s("thread-self") + (0.0 if self._process_id is None else _waited_s(self._process_id))
        return time.monotonic() - time.thread_time() - waited


def _waited_s(task: int | str) -> float:
    """Return how long a task has waited for a processor, in seconds. 0 if the system does not say."""
    try:
        return int(Path(f"/proc/{task}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
