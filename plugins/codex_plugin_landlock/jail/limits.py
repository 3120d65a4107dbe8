"""How much a command may use: the number of processes, and the memory and file size of each."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

__all__ = ["bound", "bound_memory", "bound_namespace", "counts_processes", "namespaces_can_be_bounded"]

_RECYCLED_FROM = 300
"""Once process ids have gone round they start here again (Linux: ``RESERVED_PIDS``), so those below are lost."""

_PID_MAX_PER_NAMESPACE = (6, 14)
"""The first kernel on which ``kernel.pid_max`` belongs to the process namespace; before, it is everybody's."""

_PID_MAX = "/proc/sys/kernel/pid_max"
_MOST_PROCESSES = 1 << 22
_UNBOUNDED = 1 << 62
"""From here on a limit is none; greater numbers do not fit."""


def counts_processes() -> bool:
    """Whether the system counts this user's processes: it counts nobody's who is root outside of every user namespace."""
    if os.geteuid() != 0:
        return True
    with open("/proc/self/uid_map") as file:
        return all(line.split()[:2] != ["0", "0"] for line in file)


def namespaces_can_be_bounded() -> bool:
    """Whether this kernel counts processes by namespace, as its version says."""
    release = os.uname().release.split("-")[0].split(".")[:2]
    return all(part.isdigit() for part in release) and tuple(map(int, release)) >= _PID_MAX_PER_NAMESPACE


def bound_namespace(processes: int) -> bool:
    """Let this process namespace hold about ``processes`` (at most 300 more); whether this kernel can do that."""
    if not namespaces_can_be_bounded():
        return False
    try:
        with open(_PID_MAX, "w") as file:
            file.write(str(min(processes + _RECYCLED_FROM, _MOST_PROCESSES)))
    except OSError:
        return False
    return True


def bound(limits: Mapping[str, int | None], *, counted: bool, own: bool) -> bool:
    """Limit this process and its descendants, all but their memory; whether the number of processes is bounded by that.

    Args:
        limits: A plan's.
        counted: The answer of :func:`counts_processes`, outside of the sandbox.
        own: The count starts in this sandbox's user namespace. Otherwise everything that runs already counts as well, so the
            command gets so many on top of that.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    processes = limits["processes"]
    if processes is None or processes >= _UNBOUNDED or not counted:
        return False
    _limit(resource.RLIMIT_NPROC, processes + (1 if own else _running()))
    return True


def bound_memory(limits: Mapping[str, int | None]) -> None:
    """Limit the address space of this process, which is to become a command, and of its descendants."""
    _limit(resource.RLIMIT_AS, limits["memory_bytes"])


def _limit(kind: int, most: int | None) -> None:
    if most is None or most >= _UNBOUNDED:
        return
    _, hard = resource.getrlimit(kind)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))


def _running() -> int:
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].partition("/")[2])
