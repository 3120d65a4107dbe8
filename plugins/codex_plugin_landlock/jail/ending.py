"""Ends all descendants of this process, including those that have detached themselves or keep forking."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator

__all__ = ["Ending", "end_trees", "reaped"]

_ROUNDS = 200
_MAX_PAUSE_S = 0.02


class Ending:
    """Ends the descendants of this process.

    Args:
        alone: Whether signals from this process can reach only its descendants, because it is the first process of its namespace
            or because Landlock restricts its signals. If so, one signal reaches all of them, and they cannot outrun it by forking.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone

    def end_descendants(self) -> None:
        """Kill all descendants of this process, and wait until they are gone."""
        pause = 0.0
        while True:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            if not self.kill_at_once():
                end_trees(_children(os.getpid()))
            time.sleep(pause)  # no blocking wait, because the list of children may miss one that is being reparented
            pause = min(pause + 0.0005, _MAX_PAUSE_S)

    def kill_at_once(self) -> bool:
        """Kill all descendants with a single signal if possible. Return whether it is possible."""
        everybody_else = -1
        if self._alone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(everybody_else, signal.SIGKILL)
        return self._alone

    def end(self, number: int, frame: object) -> None:  # noqa: ARG002
        """Handle a signal: end all descendants, then this process."""
        self.end_descendants()
        os._exit(0)


def reaped(options: int = 0) -> Iterator[tuple[int, int]]:
    """Reap the children that have ended, and yield the process id and status of each.

    Args:
        options: Additional options of ``waitpid``, such as ``WUNTRACED`` for children that were stopped.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG | options)
            if pid == 0:
                return
            yield pid, status


def end_trees(roots: Iterable[int]) -> None:
    """Stop these processes and all their descendants, then kill them.

    If they were killed one by one, the others could fork replacements. Stopped processes still count towards the limit on the
    number of processes, so forking soon fails.
    """
    roots = list(roots)
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        running = _descendants(roots) - stopped
        if not running:
            break
        _signal(running, signal.SIGSTOP)
        stopped |= running
    _signal(stopped, signal.SIGKILL)


def _descendants(roots: Iterable[int]) -> set[int]:
    pids: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in pids:
            pids.add(pid)
            waiting += _children(pid)
    return pids


def _children(pid: int) -> list[int]:
    """Return the children of a process. Orphans become children of the nearest process that adopts them."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
    return pids


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
