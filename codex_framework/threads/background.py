"""Background coroutines of plugins, each within a scope that ends them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from codex_framework.threads.faults import Label, advice, error_message, refuse
from codex_framework.threads.plugin_calls import call_isolated
from codex_framework.threads.provenance import collect_causes

__all__ = ["Background"]

PATIENCE_S = 5.0
"""How long a cancelled coroutine may clean up before it is abandoned, in seconds."""


_WORK = Label("background work", "", "")


class Background:
    """The running coroutines of one scope.

    Args:
        warn: Called with a sentence if a coroutine fails.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._tasks: dict[asyncio.Task[None], Label] = {}
        self._closed = False

    def __bool__(self) -> bool:
        """Whether anything is running."""
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], label: Label) -> None:
        """Run a coroutine. After the end of the scope it is not started."""
        if not inspect.iscoroutine(work):
            refuse("a coroutine: call the async function", work, "background")
        if self._closed:
            work.close()
            return
        context = copy_context()
        context.run(collect_causes)  # what it names as a cause must not be taken for one of the call that starts it
        task = asyncio.get_running_loop().create_task(call_isolated(lambda: work), context=context)
        self._tasks[task] = label
        task.add_done_callback(lambda _: work.close())  # cancelled before its first step, it has never been awaited
        task.add_done_callback(self._handle_end)

    async def aclose(self) -> None:
        """Cancel all coroutines and wait for their end, within the time limit."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, pending = await asyncio.wait(tasks, timeout=PATIENCE_S)
        for task in pending:
            label = self._tasks.get(task, _WORK)
            self._warn(f"{label} did not stop within {PATIENCE_S:g} s and was abandoned. {label.advice()}")

    def _handle_end(self, task: asyncio.Task[None]) -> None:
        label = self._tasks.pop(task, _WORK)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._warn(f"{label} failed: {error_message(error)}. {advice(label.plugin, error)}")
