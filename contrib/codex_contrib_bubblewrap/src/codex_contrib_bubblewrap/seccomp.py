"""The system-call filter for ``--seccomp``, in addition to mounts and namespaces.

It lists the calls to refuse with ``EPERM``; all others pass. The README names its limits.
"""

from __future__ import annotations

import functools
import platform

from codex_framework import NetworkMode
from codex_lib_confinement.seccomp import Instruction, assemble, common_rules, packed
from codex_lib_confinement.syscall_numbers import MACHINES

__all__ = ["filter_for", "instructions", "supported"]


def supported() -> bool:
    """Return whether the system-call numbers of this machine are known."""
    return platform.machine() in MACHINES


@functools.lru_cache(maxsize=8)
def filter_for(network: NetworkMode, *, services: bool = True) -> bytes:
    """Return the program for this machine in the form of ``--seccomp``; empty if its numbers are unknown.

    Args:
        network: The network access.
        services: Whether unix sockets with a name are allowed with the network ``on``.
    """
    return packed(instructions(network, platform.machine(), services=services)) if supported() else b""


def instructions(network: NetworkMode, machine: str, *, services: bool = True) -> list[Instruction]:
    """Return the program, with one block for each refused system call that the machine has."""
    architecture, numbers = MACHINES[machine]
    return assemble(common_rules(network.value, services=services), numbers, architecture)
