"""Limits of a command's processes. They are set on bubblewrap's waiting child and inherited by all its descendants."""

from __future__ import annotations

import os
import re
import resource

from codex_framework.contract.permissions.file_access import ResourceLimits

__all__ = ["counts_by_namespace", "limit"]

_COUNTED_SINCE = (5, 14)
"""The Linux version that counts processes by user namespace. Older versions count all processes of a user together."""


def counts_by_namespace() -> bool:
    """Return whether this system counts processes by user namespace."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= _COUNTED_SINCE


def limit(pid: int, limits: ResourceLimits) -> None:
    """Set the limits of a process.

    Raises:
        OSError: The system refuses it, or the process has ended.
    """
    for which, wanted in _resource_limits(limits).items():
        _, hard = resource.prlimit(pid, which)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.prlimit(pid, which, (most, most))


def _resource_limits(limits: ResourceLimits) -> dict[int, int]:
    wanted: dict[int, int] = {resource.RLIMIT_CORE: 0}
    if limits.processes is not None and counts_by_namespace():
        wanted[resource.RLIMIT_NPROC] = limits.processes
    if limits.memory_bytes is not None:
        wanted[resource.RLIMIT_AS] = limits.memory_bytes
    if limits.file_bytes is not None:
        wanted[resource.RLIMIT_FSIZE] = limits.file_bytes
    return wanted
