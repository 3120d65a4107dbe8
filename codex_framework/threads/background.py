"""Coroutines that plugins run beside everything else, each within a scope that ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Background"]

PATIENCE_S = 5.0
"""How long a cancelled coroutine may clean up before it is abandoned, in seconds."""


class Background:
    """The running coroutines of one scope.

    Args:
        warn: Told, in a sentence, of one that failed.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._closed = False

    def start(self, work: Coroutine[Any, Any, None], label: str) -> None:
        """Run a coroutine. After the scope has ended it is not started at all."""
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = label
        task.add_done_callback(self._ended)

    async def aclose(self) -> None:
        """Cancel what is running and wait for its end, no longer than the patience."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, pending = await asyncio.wait(tasks, timeout=PATIENCE_S)
        for task in pending:
            self._warn(f"{self._tasks.get(task, 'background work')} did not stop within {PATIENCE_S:.0f} s")

    def _ended(self, task: asyncio.Task[None]) -> None:
        label = self._tasks.pop(task, "background work")
        if not task.cancelled() and (error := task.exception()) is not None:
            self._warn(f"{label} failed: {type(error).__name__}: {error}")
