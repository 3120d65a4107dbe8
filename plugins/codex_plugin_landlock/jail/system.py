"""Checks of what this system supports, for reports before any sandbox exists. They avoid expensive imports."""

from __future__ import annotations

import os

from codex_lib_confinement.syscall_numbers import ARCHITECTURE

from .syscalls import prctl

__all__ = ["counts_processes", "has_seccomp", "namespaces_can_be_bounded"]

_PR_GET_SECCOMP = 21

_PID_MAX_PER_NAMESPACE = (6, 14)
"""The first kernel version whose ``kernel.pid_max`` is per process namespace. In older ones it is global."""


def has_seccomp() -> bool:
    """Return whether this kernel supports seccomp and the architecture is known."""
    if not ARCHITECTURE:
        return False
    try:
        prctl(_PR_GET_SECCOMP)
    except OSError:
        return False
    return True


def counts_processes() -> bool:
    """Return whether the system counts this user's processes. It does not count root's processes outside of user namespaces."""
    if os.geteuid() != 0:
        return True
    with open("/proc/self/uid_map") as file:
        return all(line.split()[:2] != ["0", "0"] for line in file)


def namespaces_can_be_bounded() -> bool:
    """Return whether this kernel counts processes per namespace, judged by its version."""
    release = os.uname().release.split("-")[0].split(".")[:2]
    return all(part.isdigit() for part in release) and tuple(map(int, release)) >= _PID_MAX_PER_NAMESPACE
