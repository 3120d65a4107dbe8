"""Detection of what code leaves behind: tasks, processes, open files."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from codex_framework.commands.process.watcher import WATCHER

__all__ = ["LeftBehind", "Leftovers"]

GRACE_S = 2.0
"""How long things may take to end by themselves, in seconds."""


class LeftBehind(AssertionError):  # noqa: N818  # it is what has been found, in the words of a test
    """Something was left behind.

    Attributes:
        things: What was left behind, as sentences.
    """

    def __init__(self, things: list[str]) -> None:
        super().__init__("left behind:\n" + "\n".join(f"  {number}. {text}" for number, text in enumerate(things, 1)))
        self.things = tuple(things)


class Leftovers:
    """Compares the present state with that at the creation of this object. Create it in the event loop to watch.

    Attributes:
        marks: Texts to look for in the environment of processes. Processes that contain one are included, whatever their parent is.
    """

    def __init__(self) -> None:
        self.marks: list[str] = []
        self._tasks = asyncio.all_tasks()
        self._processes = set(_descendants(os.getpid()))
        self._files = _open_files()

    async def found(self) -> list[str]:
        """Return what was left behind, after waiting at most the grace period for things that are about to end."""
        things = await _settled(self._new_tasks)
        things += await _settled(self._new_processes)
        things += await _settled(self._new_files)
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
        return [f"the task {_described(task)} is still running" for task in new if not task.done()]

    def _new_processes(self) -> list[str]:
        new = set(_descendants(os.getpid())) - self._processes
        if self.marks:
            new |= {pid for pid in _marked(self.marks) if pid not in self._processes}
        return [f"the process {pid} ({_command(pid)}) is still running" for pid in sorted(new - {os.getpid()})]

    def _new_files(self) -> list[str]:
        gc.collect()  # unreferenced files are closed by the collector
        of_process = WATCHER.descriptors  # which all kernels share
        return [
            f"{target} is still open (descriptor {number})"
            for number, target in sorted(_open_files() - self._files)
            if number not in of_process and not WATCHER.is_list(number)
        ]


async def _settled(look: Callable[[], list[str]]) -> list[str]:
    end = time.monotonic() + GRACE_S
    pause = 0.0
    while (things := look()) and time.monotonic() < end:
        await asyncio.sleep(pause)
        pause = min(pause * 2 + 0.001, 0.05)
    return things


def _described(task: asyncio.Task[Any]) -> str:
    work = task.get_coro()
    code = getattr(work, "cr_code", None)
    name = getattr(work, "__qualname__", repr(work))
    stack = task.get_stack(limit=1)
    if stack:
        return f"{name} ({stack[0].f_code.co_filename}, line {stack[0].f_lineno})"
    return name if code is None else f"{name} ({code.co_filename}, line {code.co_firstlineno})"


def _descendants(root: int) -> Iterator[int]:
    """Return the descendants of a process, without zombies."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            yield pid
            waiting.append(pid)


def _processes() -> Iterator[tuple[int, int]]:
    """Return every process that is not a zombie, with its parent."""
    if not sys.platform.startswith("linux"):
        done = subprocess.run(
            ["/bin/ps", "-A", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=False
        )
        for line in done.stdout.splitlines():
            pid, parent, state, command = line.split(None, 3)
            if not state.startswith("Z") and not command.endswith("/ps"):
                yield int(pid), int(parent)
        return
    for name in os.listdir("/proc"):  # noqa: PTH208  # pathlib takes three times as long, and every check looks at all of them
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    state, parent, _ = file.read().rpartition(b")")[2].split(None, 2)
            except OSError:  # it has ended
                continue
            if state != b"Z":
                yield int(name), int(parent)


def _marked(marks: list[str]) -> Iterator[int]:
    if not sys.platform.startswith("linux"):
        return
    wanted = [mark.encode() for mark in marks]
    for pid, _ in _processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it has ended, or is another user's
            continue
        if any(mark in environment for mark in wanted):
            yield pid


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "unknown command"
    return b" ".join(words).decode("utf-8", "replace").strip()[:200]


def _open_files() -> set[tuple[int, str]]:
    """Return the open descriptors of this process and their targets."""
    found: set[tuple[int, str]] = set()
    linux = sys.platform.startswith("linux")
    for path in list(Path("/proc/self/fd" if linux else "/dev/fd").iterdir()):
        try:
            os.fstat(int(path.name))
            target = str(path.readlink()) if linux else "a file"
        except OSError:  # the folder itself, which is already closed
            continue
        found.add((int(path.name), target))
    return found
