"""Time limits for plugins' coroutines. Whatever a coroutine does, its caller continues."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any, TypeVar

from codex_framework.threads.faults import PluginExit, WrongValue, described

__all__ = ["CLEAN_UP_S", "Late", "contained", "end", "within"]

T = TypeVar("T")

CLEAN_UP_S = 5.0
"""How long cancelled work may clean up before it is abandoned, in seconds."""


class Late(Exception):  # noqa: N818  # what has happened, in a word
    """A plugin's work did not end in time. Not a ``TimeoutError``, because the plugin may raise one of its own."""


async def contained(method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Await a plugin's method, such that it raises only an ``Exception`` or a cancellation.

    Raises:
        WrongValue: The method is not async.
        PluginExit: It raised ``SystemExit``.
        Exception: Whatever else it raised.
    """
    try:
        work: Any = method(*arguments)
        if type(work) is not CoroutineType and not inspect.isawaitable(work):
            name = getattr(method, "__name__", "the method")
            raise WrongValue(f"{name} is not async; write `async def {name}`", method)
        result: T = await work
    except SystemExit as error:
        raise PluginExit(described(error)).with_traceback(error.__traceback__) from error
    return result


async def within(seconds: float | None, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Await a plugin's method with a time limit.

    If the time limit expires or the caller is cancelled, the work is cancelled and may clean up for a while. If it continues
    after that, it is abandoned.

    Args:
        seconds: The time limit. None means no limit.

    Raises:
        Late: It did not end in time.
        Exception: As for :func:`contained`.
    """
    task = asyncio.ensure_future(contained(method, *arguments))
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await end(task)
        raise
    if not done:
        await end(task)
        raise Late
    if task.cancelled():
        raise PluginExit("it cancelled itself")
    return task.result()


async def end(task: asyncio.Task[Any], *, patience_s: float = CLEAN_UP_S) -> bool:
    """Cancel a task and wait for its end while it may clean up. Return whether it has ended."""
    task.cancel()
    task.add_done_callback(_seen)
    done, _ = await asyncio.wait((task,), timeout=patience_s)
    return bool(done)


def _seen(task: asyncio.Task[Any]) -> None:
    """Retrieve a late result, so that asyncio does not report it as never retrieved."""
    if not task.cancelled():
        task.exception()
