"""Detection of plugins that block the event loop, while they block it.

A blocked loop cannot report anything itself: no event, timer or interrupt gets through. So an operating-system thread asks the
loop for a sign of life while work is running. If none arrives within :data:`STALL_S`, it reads the stack of the loop's thread.
A plugin is reported only if two checks find it in the same call, so that it is not blamed for a busy machine or a suspended
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType

from codex_framework.contract.value import Value
from codex_framework.loader.report import PluginReport
from codex_framework.toolkit.faults import own_frame

__all__ = ["STALL_S", "Stall", "StallWatch", "stall_warning"]

STALL_S = 0.5
"""Time limit for an answer of the loop, in seconds. After it, a blocking plugin is reported."""

_PAUSE_S = 0.5
"""Time between two requests to the loop, in seconds."""

_LOOK_AGAIN_S = 0.1


class Stall(Value):
    """A call that blocks the event loop.

    Attributes:
        function: The qualified name of the innermost function of the plugin.
        module: The module of this function.
        seconds: How long the loop has been blocked.
    """

    function: str
    module: str
    path: str
    line: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.function}() ({self.path}, line {self.line})"


class StallWatch:
    """A watch on one event loop while work is in progress. Its thread starts with the first work.

    Args:
        told: Called with each stall, on the watching thread, while the loop is blocked.
        after: Called with each stall, on the loop, once it runs again.
        limit_s: The time limit; see :data:`STALL_S`.
    """

    def __init__(
        self, told: Callable[[Stall], None], after: Callable[[Stall], None], *, limit_s: float = STALL_S
    ) -> None:
        self._told = told
        self._after = after
        self._limit_s = limit_s
        self._busy = 0
        self._working = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched = 0

    def enter(self) -> None:
        """Record that work begins. Call it on the loop."""
        self._busy += 1
        if self._busy > 1 or self._closed.is_set():
            return
        self._working.set()
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._watched = threading.get_ident()
            self._thread = threading.Thread(target=self._watch, name="stall-watch", daemon=True)
            self._thread.start()

    def leave(self) -> None:
        """Record that work has ended. While there is no work, the thread sleeps."""
        self._busy -= 1
        if not self._busy:
            self._working.clear()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._working.set()

    def _watch(self) -> None:
        while not self._closed.wait(_PAUSE_S):
            self._working.wait()
            if self._closed.is_set() or not self._ask():
                return

    def _ask(self) -> bool:
        """Ask the loop for a sign of life, and report a plugin that prevents one. Return whether the loop is open."""
        alive = threading.Event()
        began = time.monotonic()
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(alive.set)
        except RuntimeError:  # closed
            return False
        if alive.wait(self._limit_s):
            return True
        first = self._find_blocking_frame()
        if alive.wait(_LOOK_AGAIN_S):
            return True
        second = self._find_blocking_frame()
        if first is not None and first is second:
            stall = _stall(first, time.monotonic() - began)
            self._told(stall)
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                self._loop.call_soon_threadsafe(self._after, stall)
        while not alive.wait(_PAUSE_S):
            if self._closed.is_set() or self._loop.is_closed():
                return False
        return True

    def _find_blocking_frame(self) -> FrameType | None:
        """Return the innermost frame of a plugin on the loop's thread."""
        return own_frame(sys._current_frames().get(self._watched))  # noqa: SLF001  # the only way to inspect another thread


def stall_warning(stall: Stall, reports: Iterable[PluginReport]) -> str:
    """Return the warning about a stall, which names the plugin that the code belongs to."""
    package = stall.module.partition(".")[0]
    for report in reports:
        if report.file == stall.path or (package and report.module.partition(":")[0].partition(".")[0] == package):
            who = f"plugin {report.name!r}"
            break
    else:
        who = "the program"
    return (
        f"{who} blocks the event loop (for {stall.seconds:.1f} s so far) in {stall}, so no thread can continue and no interrupt works."
        " Await the work, or move it to `asyncio.to_thread(...)` or to a tool function without `async`."
    )


def _stall(frame: FrameType, seconds: float) -> Stall:
    code = frame.f_code
    module = str(frame.f_globals.get("__name__", ""))
    return Stall(code.co_qualname, module, code.co_filename, frame.f_lineno, seconds)
