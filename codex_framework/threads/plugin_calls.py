"""Calls of plugins, with time limits, warnings about slow calls, and the causes that plugins name; and the closing of their objects.

A plugin's mistake never stops its caller.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, TypeVar

from codex_framework.threads.faults import Label, PluginExit, WrongValue, error_text, fact_of, source_place

__all__ = [
    "CLEAN_UP_S",
    "CLOSE_PATIENCE_S",
    "FIRST_SLOW_S",
    "SLOW_S",
    "Notices",
    "PluginTimeout",
    "await_with_timeout",
    "because",
    "call_async",
    "call_isolated",
    "call_with_timeout",
    "causes",
    "close",
    "close_all",
    "collect_causes",
    "end_task",
    "self_cancellation",
]

T = TypeVar("T")

_MOST_CAUSES = 20
"""Causes that one actor can name. More say nothing new."""

_LONGEST_CAUSE = 500
"""Longest text of a cause, in characters."""

_CAUSES: ContextVar[list[str] | None] = ContextVar("causes", default=None)
"""The causes named by the plugin that is currently called. A list, so that tasks of the plugin write into it too."""

CLEAN_UP_S = 5.0
"""How long cancelled work may clean up before it is abandoned, in seconds."""

CLOSE_PATIENCE_S = 5.0
"""Time limit for closing an object without a ``close_timeout_s``, in seconds."""


class PluginTimeout(Exception):  # noqa: N818  # as TimeoutError, which is a builtin
    """A plugin's work did not end in time. Not a ``TimeoutError``, because the plugin may itself raise one."""


def call_async(method: Callable[..., Awaitable[T]], *arguments: Any) -> Awaitable[T]:
    """Call a plugin's method and return its awaitable. Use :func:`call_isolated` if ``SystemExit`` is not caught.

    Raises:
        WrongValue: The method is not async.
        Exception: Any exception of a method that is not async.
    """
    work: Any = method(*arguments)
    if type(work) is not CoroutineType and not inspect.isawaitable(work):
        name = getattr(method, "__name__", "the method")
        raise WrongValue(f"{name} is not async", method, hint=f"Write `async def {name}`.")
    return work


def self_cancellation(error: asyncio.CancelledError) -> PluginExit | None:
    """Return the error of a plugin that cancelled itself. None if the current task was cancelled from outside."""
    task = asyncio.current_task()
    if task is None or task.cancelling():
        return None
    return PluginExit("it was cancelled without an interrupt").with_traceback(error.__traceback__)


async def call_isolated(method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Await a plugin's method, such that it raises only an ``Exception`` or a cancellation.

    Raises:
        WrongValue: The method is not async.
        PluginExit: It raised ``SystemExit``, or ``CancelledError`` without being cancelled.
        Exception: Any other exception.
    """
    try:
        result = await call_async(method, *arguments)
    except asyncio.CancelledError as error:
        if (own := self_cancellation(error)) is None:
            raise
        raise own from error
    except SystemExit as error:
        raise PluginExit(error_text(error)).with_traceback(error.__traceback__) from error
    return result


async def call_with_timeout(seconds: float | None, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Await a plugin's method with a time limit.

    If the time limit expires or the caller is cancelled, the work is cancelled and may clean up for a while. If it continues
    after that, it is abandoned.

    Args:
        seconds: The time limit. By default, there is no limit.

    Raises:
        PluginTimeout: It did not end in time.
        Exception: As for :func:`call_isolated`.
    """
    task = asyncio.get_running_loop().create_task(call_isolated(method, *arguments))
    try:
        await asyncio.sleep(0)  # most work ends at its first step, and needs no timer then
        done = task.done() or (await asyncio.wait((task,), timeout=seconds))[0]
    except asyncio.CancelledError:
        await end_task(task)
        raise
    if not done:
        await end_task(task)
        raise PluginTimeout
    if task.cancelled():
        raise PluginExit("it cancelled itself")
    return task.result()


async def await_with_timeout(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine with a time limit. The timer is set only if the coroutine must wait.

    Raises:
        TimeoutError: It did not end in time, and was cancelled.
        Exception: Any exception of the coroutine.
    """
    try:
        awaited = work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _resume(work, awaited)


@types.coroutine
def _resume(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that waits for ``awaited``, which the event loop has not seen yet."""
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # a cancellation, which the coroutine may handle
            resume = functools.partial(work.throw, error)
        else:
            resume = functools.partial(work.send, sent)
        try:
            awaited = resume()
        except StopIteration as ended:
            result: T = ended.value
            return result


async def end_task(task: asyncio.Task[Any], *, patience_s: float = CLEAN_UP_S) -> bool:
    """Cancel a task and wait for its end while it may clean up. Return whether it has ended."""
    task.cancel()
    task.add_done_callback(_retrieve_result)
    done, _ = await asyncio.wait((task,), timeout=patience_s)
    return bool(done)


def _retrieve_result(task: asyncio.Task[Any]) -> None:
    """Retrieve a late result, so that asyncio does not report it as never retrieved."""
    if not task.cancelled():
        task.exception()


async def close(label: Label, target: Any) -> str | None:
    """Call ``target.aclose()``, for at most ``target.close_timeout_s`` seconds if it has one.

    Returns:
        The problem and its place, without advice. None if the object was closed.
    """
    limit_s = getattr(target, "close_timeout_s", CLOSE_PATIENCE_S)
    aclose = target.aclose
    try:
        await call_with_timeout(limit_s, aclose)
    except PluginTimeout:
        return f"{label}: aclose() did not end within {limit_s:g} s{source_place(aclose)}"
    except Exception as error:  # a plugin may raise anything, and the others must still be closed
        return f"{label}: aclose() failed: {fact_of(error, aclose)}"
    return None


async def close_all(*stages: Iterable[tuple[Label, Any]]) -> Sequence[tuple[str, str]]:
    """Close the objects of each stage concurrently, one stage after the other.

    Returns:
        The errors, each with the plugin's name and what went wrong.
    """
    problems: list[tuple[str, str]] = []
    for stage in stages:
        targets = tuple(stage)
        facts = await asyncio.gather(*(close(label, target) for label, target in targets))
        problems += [(label.plugin, fact) for (label, _), fact in zip(targets, facts, strict=True) if fact is not None]
    return problems


SLOW_S = 0.05
"""How long a plain call of a plugin may block the event loop before it is reported, in seconds."""

FIRST_SLOW_S = 0.25
"""The same for the first call that takes longer. It may import something, or the machine may be busy."""


class Notices:
    """Warnings about plugins in one thread, each emitted once.

    Args:
        warn: Warns the clients of the thread, with a sentence and what it is about.
        is_bundled: Returns whether a plugin is a bundled one. Users get no warning that a bundled plugin was slow, because they
            cannot fix it, and on a busy machine it is not the plugin's fault.
    """

    _told: frozenset[str] = frozenset()
    _forgiven: frozenset[tuple[Label, str]] = frozenset()

    def __init__(self, warn: Callable[[str, str], None], is_bundled: Callable[[str], bool] = lambda _: False) -> None:
        self._warn = warn
        self._is_bundled = is_bundled

    def tell(self, text: str, *, cause: str | None = None) -> None:
        """Emit a warning, unless it was emitted before.

        Args:
            cause: The key by which repetitions are recognised. By default, the sentence itself.
        """
        cause = cause or text
        if cause not in self._told:
            self._told |= {cause}
            self._warn(text, "plugin-failed")

    def call(self, label: Label, method: str, call: Callable[..., T], *arguments: Any) -> T:
        """Call a plain method of a plugin, and warn if it was slow.

        Raises:
            WrongValue: It is async.
            PluginExit: It raised ``SystemExit``.
            Exception: Any exception of the method.
        """
        started = time.monotonic()
        try:
            result = call(*arguments)
        except SystemExit as error:
            raise PluginExit(error_text(error)).with_traceback(error.__traceback__) from error
        finally:
            took = time.monotonic() - started
            if took > SLOW_S:
                self._slow(label, method, took, call)
        if isinstance(result, CoroutineType):
            result.close()
            raise WrongValue(f"{method} is async, but it is called without await", call, hint=f"Write `def {method}`.")
        return result

    def _slow(self, label: Label, method: str, took: float, call: Callable[..., object]) -> None:
        if self._is_bundled(label.plugin):
            return
        if took <= FIRST_SLOW_S and (label, method) not in self._forgiven:
            self._forgiven |= {(label, method)}
            return
        self.tell(
            f"{label}: {method}() took {took * 1000:.0f} ms{source_place(call)} and blocked the event loop. Do slow work once, in "
            "an async method, and keep its result.",
            cause=f"slow {label} {method}",
        )


def collect_causes() -> list[str]:
    """Return a new list, to which plugins that are called from here on add their causes."""
    heard: list[str] = []
    _CAUSES.set(heard)
    return heard


def because(text: str) -> None:
    """Name a cause of the running plugin's action. Without a listener, nothing happens."""
    heard = _CAUSES.get()
    if heard is not None and len(heard) < _MOST_CAUSES:
        heard.append(text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}...")


def causes() -> tuple[str, ...]:
    """Return the causes that the running plugin has named so far."""
    return tuple(_CAUSES.get() or ())
