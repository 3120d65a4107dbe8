"""Detection of what code leaves behind: tasks, processes, open files."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from codex_framework.commands.process.watcher import WATCHER

__all__ = ["LeftBehind", "Leftovers"]

GRACE_S = 2.0
"""How long things may take to end by themselves, in seconds."""


class LeftBehind(AssertionError):  # noqa: N818  # it is what has been found, in the words of a test
    """Resources were not released.

    Attributes:
        things: The leftover resources, as sentences.
    """

    def __init__(self, things: list[str]) -> None:
        super().__init__("left behind:\n" + "\n".join(f"  {number}. {text}" for number, text in enumerate(things, 1)))
        self.things = tuple(things)


class Leftovers:
    """Compares the present state with that at the creation of this object. Create it in the event loop to watch.

    Attributes:
        marks: Texts to look for in the environment of processes. Processes that contain one are included, whatever their parent
            is.
    """

    def __init__(self) -> None:
        self.marks: list[str] = []
        self._tasks = asyncio.all_tasks()
        self._processes = frozenset(_pids())
        self._files = _open_files()

    async def found(self) -> list[str]:
        """Return leftover resources, after waiting at most the grace period for those that are about to end."""
        things = await _wait_until_settled(self._new_tasks)
        things += await _wait_until_settled(self._new_processes)
        things += await _wait_until_settled(self._new_files)
        return things

    async def check(self) -> None:
        """Check that nothing was left behind.

        Raises:
            LeftBehind: Something was.
        """
        things = await self.found()
        if things:
            raise LeftBehind(things)

    def _new_tasks(self) -> list[str]:
        new = asyncio.all_tasks() - self._tasks - {asyncio.current_task()}
        return [f"the task {_describe(task)} is still running" for task in new if not task.done()]

    def _new_processes(self) -> list[str]:
        new = {pid for pid in _pids() if pid not in self._processes}
        if not new:
            return []
        parent_of = _parents()
        left = [pid for pid in new if _is_descendant(pid, os.getpid(), parent_of) or _is_marked(pid, self.marks)]
        return [f"the process {pid} ({_command(pid)}) is still running" for pid in sorted(left) if parent_of(pid)]

    def _new_files(self) -> list[str]:
        if not (new := self._new_descriptors()):
            return []
        gc.collect()  # closes files that nothing refers to
        return [
            f"{target} is still open (descriptor {number})" for number, target in sorted(new & self._new_descriptors())
        ]

    def _new_descriptors(self) -> set[tuple[int, str]]:
        of_process = WATCHER.descriptors  # which all kernels share
        return {
            (number, target)
            for number, target in _open_files() - self._files
            if number not in of_process and not WATCHER.is_list(number)
        }


async def _wait_until_settled(look: Callable[[], list[str]]) -> list[str]:
    end = time.monotonic() + GRACE_S
    pause = 0.0
    while (things := look()) and time.monotonic() < end:
        await asyncio.sleep(pause)
        pause = min(pause * 2 + 0.001, 0.05)
    return things


def _describe(task: asyncio.Task[Any]) -> str:
    work = task.get_coro()
    code = getattr(work, "cr_code", None)
    name = getattr(work, "__qualname__", repr(work))
    stack = task.get_stack(limit=1)
    if stack:
        return f"{name} ({stack[0].f_code.co_filename}, line {stack[0].f_lineno})"
    return name if code is None else f"{name} ({code.co_filename}, line {code.co_firstlineno})"


_LINUX = sys.platform.startswith("linux")


def _pids() -> Iterable[int]:
    """Return the ids of all processes."""
    if not _LINUX:
        return _process_list()
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # pathlib takes three times as long


def _is_descendant(pid: int, root: int, parent_of: Callable[[int], int]) -> bool:
    """Return whether a process is a descendant of another."""
    while pid and (pid := parent_of(pid)) != root:
        pass
    return pid == root


def _parents() -> Callable[[int], int]:
    """Return a function from a process to its parent. It returns 0 for zombies and for processes that have ended."""
    if _LINUX:
        return cache(_parent)
    parents = _process_list()
    return lambda pid: parents.get(pid, 0)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # pathlib is slower
            state, parent, _ = file.read().rpartition(b")")[2].split(None, 2)
    except OSError:  # it has ended
        return 0
    return 0 if state == b"Z" else int(parent)


def _process_list() -> dict[int, int]:
    """Return every process that is not a zombie, with its parent."""
    done = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=False
    )
    rows = (line.split(None, 3) for line in done.stdout.splitlines())
    return {
        int(pid): int(parent)
        for pid, parent, state, command in rows
        if not state.startswith("Z") and not command.endswith("/ps")
    }


def _is_marked(pid: int, marks: list[str]) -> bool:
    """Return whether the environment of a process contains one of the marks."""
    if not _LINUX or not marks:
        return False
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return False
    return any(mark.encode() in environment for mark in marks)


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "unknown command"
    return b" ".join(words).decode("utf-8", "replace").strip()[:200]


def _open_files() -> set[tuple[int, str]]:
    """Return the open descriptors of this process and their targets."""
    found: set[tuple[int, str]] = set()
    folder = "/proc/self/fd" if _LINUX else "/dev/fd"
    for name in os.listdir(folder):  # noqa: PTH208  # as above
        try:
            os.fstat(int(name))
            target = os.readlink(f"{folder}/{name}") if _LINUX else "a file"  # noqa: PTH115
        except OSError:  # the folder itself, which is already closed
            continue
        found.add((int(name), target))
    return found
