"""The system-call filter: what a command is refused besides what mounts and namespaces keep from it. Given to ``--seccomp``.

A list of what is refused, with ``EPERM``; all else passes. What it leaves is named in the README.
"""

from __future__ import annotations

import functools
import platform

from codex_framework import NetworkMode
from codex_framework.toolkit.confinement.seccomp import Instruction, assemble, common_rules, packed
from codex_framework.toolkit.confinement.syscall_numbers import MACHINES

__all__ = ["filter_for", "instructions", "supported"]


def supported() -> bool:
    """Whether the system-call numbers of this machine are known."""
    return platform.machine() in MACHINES


@functools.lru_cache(maxsize=8)
def filter_for(network: NetworkMode) -> bytes:
    """The program for this machine, as ``--seccomp`` wants it; empty where its numbers are not known."""
    return packed(instructions(network, platform.machine())) if supported() else b""


def instructions(network: NetworkMode, machine: str) -> list[Instruction]:
    """The program: one block for each refused system call that the machine has."""
    architecture, numbers = MACHINES[machine]
    return assemble(common_rules(network.value), numbers, architecture)
