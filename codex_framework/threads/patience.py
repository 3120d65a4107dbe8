"""Waiting for the work of plugins, which may hang and may ignore that it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

__all__ = ["within"]

T = TypeVar("T")

CANCEL_PATIENCE_S = 5.0
"""How long work that is cancelled may take to end, in seconds."""


async def within(work: Awaitable[T], seconds: float, patience_s: float = CANCEL_PATIENCE_S) -> T:
    """Await a plugin's work for a bounded time, even if it ignores that it is cancelled.

    Raises:
        TimeoutError: It did not end in time. Work that cannot be cancelled goes on, and nobody waits for it.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await _cancelled(task, patience_s)
        raise
    if not done:
        await _cancelled(task, patience_s)
        raise TimeoutError
    return task.result()


async def _cancelled(task: asyncio.Future[Any], patience_s: float) -> None:
    task.cancel()
    await asyncio.wait([task], timeout=patience_s)
    if task.done() and not task.cancelled():
        task.exception()  # what it raises when cancelled is of no interest, and must not be told at exit
    elif not task.done():
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
