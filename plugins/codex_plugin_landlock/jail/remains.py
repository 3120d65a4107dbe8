"""Detection of traces that a command leaves in a sandbox with namespaces, where the next command could find them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from .parts import parts

__all__ = ["Remains"]

_MEMORY = "/dev/shm"  # noqa: S108
_OWN = (_MEMORY, "/dev/pts", "/dev/pts/ptmx")
"""Paths that belong to the sandbox but that commands may change. A private ``/tmp`` is excluded, because it is meant to be kept."""

_TABLES = ("shm", "sem", "msg")
_HEADER_BYTES = 1024
"""Number of bytes read from a table. It exceeds the header, so every entry changes the result."""


class Remains:
    """The initial state of a sandbox, for comparison: shared memory, System V objects, and the modes of terminals.

    Limits, priorities and affinities of the process that starts commands are not compared, because the system-call filter
    prevents commands from changing them. It also refuses POSIX message queues.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        granted = {part.path for part in parts(plan)}  # these belong to the machine, so other processes change them too
        self._own = [path for path in _OWN if path not in granted]
        self._tables = []
        for name in _TABLES:
            with contextlib.suppress(FileNotFoundError):  # the kernel does not support these objects
                self._tables.append(os.open(f"/proc/sysvipc/{name}", os.O_RDONLY | os.O_CLOEXEC))
        self._before = self._now()

    def found(self) -> bool:
        """Return whether a command left something behind. Call this only while no process of a command is running."""
        return self._now() != self._before

    def _now(self) -> list[object]:
        state: list[object] = [os.pread(table, _HEADER_BYTES, 0) for table in self._tables]
        for path in self._own:
            status = os.stat(path)
            state.append((status.st_mode, status.st_uid, status.st_gid))
            if path == _MEMORY:
                state += [_look_into(os.listdir, path), _look_into(os.listxattr, path)]
        return state


def _look_into(look: Callable[[str], list[str]], path: str) -> list[str] | None:
    """Return the result of ``look`` for a folder, or None if a command has made it unreadable or the plan denies it."""
    try:
        return look(path)
    except OSError:
        return None
