"""Limits of a command's processes, put on bubblewrap's child while it waits, and so inherited by all that comes of it."""

from __future__ import annotations

import os
import re
import resource

from codex_framework.contract.permissions.file_access import ResourceLimits

__all__ = ["counts_by_namespace", "limit"]

_COUNTED_SINCE = (5, 14)
"""Linux that counts processes by user namespace; before, a user's processes all counted together."""


def counts_by_namespace() -> bool:
    """Whether this system counts so."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= _COUNTED_SINCE


def limit(pid: int, limits: ResourceLimits) -> None:
    """Put the limits on a process.

    Raises:
        OSError: It is refused, or the process is gone.
    """
    for which, wanted in _wanted(limits).items():
        _, hard = resource.prlimit(pid, which)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.prlimit(pid, which, (most, most))


def _wanted(limits: ResourceLimits) -> dict[int, int]:
    wanted: dict[int, int] = {resource.RLIMIT_CORE: 0}
    if limits.processes is not None and counts_by_namespace():
        wanted[resource.RLIMIT_NPROC] = limits.processes
    if limits.memory_bytes is not None:
        wanted[resource.RLIMIT_AS] = limits.memory_bytes
    if limits.file_bytes is not None:
        wanted[resource.RLIMIT_FSIZE] = limits.file_bytes
    return wanted
