"""Resource limits of a command: the number of processes, and the memory and file size of each process."""

from __future__ import annotations

import resource
from collections.abc import Mapping

from .system import namespaces_can_be_bounded

__all__ = ["bound", "bound_memory", "bound_namespace"]

_RECYCLED_FROM = 300
"""The first process id after a wrap-around (Linux: ``RESERVED_PIDS``). Lower ids are never reused."""

_PID_MAX = "/proc/sys/kernel/pid_max"
_MAX_PROCESSES = 1 << 22
_UNBOUNDED = 1 << 62
"""Limits of this value or more are treated as no limit, because larger numbers do not fit."""


def bound_namespace(processes: int) -> bool:
    """Limit the size of this process namespace to about ``processes`` (at most 300 more). Return whether the kernel supports that."""
    if not namespaces_can_be_bounded():
        return False
    try:
        with open(_PID_MAX, "w") as file:
            file.write(str(min(processes + _RECYCLED_FROM, _MAX_PROCESSES)))
    except OSError:
        return False
    return True


def bound(limits: Mapping[str, int | None], *, counted: bool, has_namespaces: bool) -> bool:
    """Apply all limits except memory to this process and its descendants. Return whether the number of processes is limited.

    Args:
        limits: The limits of a plan.
        counted: The result of :func:`.system.counts_processes` outside of the sandbox.
        has_namespaces: Whether processes are counted in the sandbox's own user namespace. Otherwise, all running processes count
            too, so their number is added to the limit.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    processes = limits["processes"]
    if processes is None or processes >= _UNBOUNDED or not counted:
        return False
    _limit(resource.RLIMIT_NPROC, processes + (1 if has_namespaces else _running()))
    return True


def bound_memory(limits: Mapping[str, int | None]) -> None:
    """Limit the address space of this process, which will become a command, and of its descendants."""
    _limit(resource.RLIMIT_AS, limits["memory_bytes"])


def _limit(kind: int, limit: int | None) -> None:
    if limit is None or limit >= _UNBOUNDED:
        return
    _, hard = resource.getrlimit(kind)
    value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (value, value))


def _running() -> int:
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].partition("/")[2])
