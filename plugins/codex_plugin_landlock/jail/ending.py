"""Ending every process below this one, however it detached itself and however fast it multiplies."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

__all__ = ["Ending", "end_trees"]

_ROUNDS = 200
_LONGEST_PAUSE_S = 0.02


class Ending:
    """Ends the descendants of this process.

    Args:
        alone: Signals from here reach nobody else: this is the first process of its namespace, or Landlock keeps them in. So one
            of them can go to everybody at once, which nothing outruns.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone

    def end_descendants(self) -> None:
        """Kill every process below this one, and wait until they are gone."""
        pause = 0.0
        while True:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            if not self.kill_at_once():
                end_trees(_children(os.getpid()))
            time.sleep(pause)  # not a blocking wait: the list of children may miss one that is on the move
            pause = min(pause + 0.0005, _LONGEST_PAUSE_S)

    def kill_at_once(self) -> bool:
        """Kill every process below this one by one signal, where that can be done; whether it can."""
        everybody_else = -1
        if self._alone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(everybody_else, signal.SIGKILL)
        return self._alone

    def end(self, number: int, frame: object) -> None:  # noqa: ARG002
        """The same and then this process; a signal handler."""
        self.end_descendants()
        os._exit(0)


def end_trees(roots: Iterable[int]) -> None:
    """Stop these processes and all below them, then kill them.

    Killed one by one, the rest could use the room for more. Stopped ones take it up, so a limit on their number ends the race.
    """
    roots = list(roots)
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        found = _below(roots) - stopped
        if not found:
            break
        _signal(found, signal.SIGSTOP)
        stopped |= found
    _signal(stopped, signal.SIGKILL)


def _below(roots: Iterable[int]) -> set[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """The children of a process; orphans of ended ones become those of the nearest process that adopts."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
