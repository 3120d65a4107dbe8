"""Work that must be finished although the turn is interrupted or the process ends.

For plugins, and only for short work that cannot be repeated. An example is the refresh of a login: once the request is sent,
the old token is of no use, so the new one must be stored. When a run of ``codex-framework`` ends, it waits for such work, but
no longer than ``FINISH_S``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

__all__ = ["FINISH_S", "finish", "finishing_tasks", "must_finish", "wait_for_the_rest"]

T = TypeVar("T")

FINISH_S = 10.0
"""How long the end of a process waits for all such work together, in seconds."""

_changed = threading.Condition()
_running: dict[object, str] = {}
_tasks: set[asyncio.Task[Any]] = set()
_over = False


@contextlib.contextmanager
def must_finish(what: str) -> Iterator[None]:
    """Mark the body, which runs in a separate thread, as work that the end of the process waits for.

    Args:
        what: A noun phrase for the user, such as ``the refresh of the login``.

    Raises:
        RuntimeError: The process no longer waits. The body has not run.
    """
    mark = object()
    with _changed:
        if _over:
            raise RuntimeError(f"the process is ending; {what} has not begun")
        _running[mark] = what
    try:
        yield
    finally:
        with _changed:
            del _running[mark]
            _changed.notify_all()


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, and return its result. It continues if the caller is cancelled, and the end of a run waits for it."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_forget_task)
    return await asyncio.shield(task)


def finishing_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks of :func:`finish` that run in this event loop."""
    loop = asyncio.get_running_loop()
    return {task for task in _tasks if task.get_loop() is loop}


def wait_for_the_rest(limit_s: float) -> list[str]:
    """Wait for work in threads, and prevent new work from starting. Returns the work that is still running.

    Args:
        limit_s: Time limit in seconds.
    """
    global _over  # noqa: PLW0603  # the process ends only once
    deadline = time.monotonic() + limit_s
    with _changed:
        while _running and (left_s := deadline - time.monotonic()) > 0:
            _changed.wait(left_s)
        _over = True
        return sorted(_running.values())


def _forget_task(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # if the caller was cancelled, nobody else asks for it
