"""Signs of life during a long command or a slow answer: a line on a terminal, and heartbeats for programs and logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

__all__ = ["Running", "beat", "duration", "status"]

Running = Mapping[str, tuple[float, str]]
"""Running calls by id: each call's start (``time.monotonic()``) and name."""


async def beat(seconds: float, last_told: Callable[[], float], tell: Callable[[], None]) -> None:
    """Call ``tell`` whenever there was no output for some seconds. Ends with its task, or when the reader is gone.

    Args:
        seconds: The time without output before each call.
        last_told: Returns when something was last printed, by ``tell`` or otherwise, as ``time.monotonic()``.
        tell: Reports that the work is still in progress.
    """
    while True:
        left = last_told() + seconds - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
            continue
        try:
            tell()
        except OSError:  # the turn's next event raises it too, and it is handled there
            return


def status(running: Running, since: float) -> str:
    """Describe the running work and its duration, such as ``1m05s pytest -q and 2 more``.

    Args:
        running: The running calls.
        since: The time of the request to the model, used if no call is running.
    """
    if not running:
        return f"{duration(time.monotonic() - since)} waiting for the model"
    (began, name), *others = sorted(running.values())
    more = f" and {len(others)} more" if others else ""
    return f"{duration(time.monotonic() - began)} {_one_line(name)}{more}"


def duration(seconds: float) -> str:
    """Return a duration for display: ``5s``, ``1m05s``, ``2h03m``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02d}s" if whole < 3600 else f"{whole // 3600}h{whole // 60 % 60:02d}m"


def _one_line(words: Iterable[str]) -> str:
    return " ".join("".join(words).split())
