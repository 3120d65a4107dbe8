"""The end of a run: shutdown waits for work that must finish, and does not wait for other work of plugins.

Without this module, the interpreter would wait indefinitely for threads, executors and children of ``multiprocessing``, and
closing the event loop would wait indefinitely for tasks that ignore their cancellation.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterable, Iterator
from types import FrameType, ModuleType
from typing import Any, TypeVar

__all__ = ["GRACE_S", "end_process", "run_loop"]

T = TypeVar("T")

GRACE_S = 2.0
"""Time limit for leftover work, in seconds."""

_tasks: list[str] = []


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop, like ``asyncio.run``, but wait at most ``GRACE_S`` for leftover tasks."""
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(work)
    finally:
        try:
            loop.run_until_complete(_end_tasks(loop))
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    finishing = _finishing_module()
    if finishing is not None and (needed := finishing.finishing_tasks()):
        await asyncio.wait(needed, timeout=finishing.FINISH_S)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=GRACE_S)
        _tasks.extend(f"task {_task_name(task)}" for task in pending)
    await asyncio.wait((asyncio.ensure_future(loop.shutdown_asyncgens()),), timeout=GRACE_S)


def end_process(status: int) -> None:
    """Let the interpreter end, but exit with this status if that takes longer than ``GRACE_S``.

    Work of :mod:`codex_framework.toolkit.finishing` is waited for first.

    Call it last, after all output and recordings have been flushed, in the main thread of a process that belongs to the
    framework.
    """
    left = _wait_for_the_rest(status)
    if _tasks or left:
        _exit_now(status, _tasks, left)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: _exit_now(status, [*_threads(), *_children()]))
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)


def _finishing_module() -> ModuleType | None:
    """Return the module for work that must finish, if a plugin uses it."""
    return sys.modules.get("codex_framework.toolkit.finishing")


def _wait_for_the_rest(status: int) -> list[str]:
    finishing = _finishing_module()
    if finishing is None:
        return []
    try:
        left: list[str] = finishing.wait_for_the_rest(finishing.FINISH_S)
    except KeyboardInterrupt:  # the user does not want to wait
        os._exit(status or 130)
    return left


def _exit_now(status: int, leftovers: list[str], unfinished: Iterable[str] = ()) -> None:
    try:
        for thing in unfinished:
            print(f"warning: {thing} was not finished when the process ended", file=sys.stderr)
        for thing in leftovers:
            text = f"warning: {thing} was still running {GRACE_S:g} s after the run and was abandoned"
            print(f"{text}. End it when its component is closed.", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _task_name(task: asyncio.Task[Any]) -> str:
    work: Any = task.get_coro()
    stack = task.get_stack(limit=1)
    place = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else "an unknown place"
    return f"{getattr(work, '__qualname__', task.get_name())} at {place}"


def _threads() -> Iterator[str]:
    """Yield the threads that the interpreter waits for."""
    frames = sys._current_frames()  # noqa: SLF001  # documented; there is no other way to find where a thread is
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            yield f"thread {thread.name!r}{_place(frames.get(thread.ident or 0))}"


def _children() -> Iterator[str]:
    module = sys.modules.get("multiprocessing")
    for child in module.active_children() if module is not None else ():
        if not child.daemon:
            yield f"process {child.name!r} ({child.pid})"


def _place(frame: FrameType | None) -> str:
    """Return a thread's position: the innermost line outside of the standard library."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((library, "<")):
            return f" at {code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
