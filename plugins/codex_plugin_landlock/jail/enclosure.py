"""Confining a process for good: namespaces, mounts, Landlock and seccomp in their order. Any failure means it may not run commands.

The order matters: mounts need privileges in the new namespaces, Landlock forbids mounting, the filter forbids most of the rest.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from typing import Any

from . import grants, landlock, mounts, namespaces, seccomp
from .syscalls import ATTR_RDONLY, mount_setattr

__all__ = ["LANDLOCK", "NAMESPACES", "Refused", "enclose"]

NAMESPACES = "namespaces"
LANDLOCK = "landlock"
"""The two levels: all layers, and Landlock with seccomp only."""


class Refused(Exception):  # noqa: N818  # a turn of events, not a fault
    """A layer could not be put on.

    Attributes:
        stage: ``namespaces`` (this machine does not grant them), ``mounts``, ``privileges``, ``landlock`` or ``seccomp``.
        error: What the system said.
    """

    def __init__(self, stage: str, error: OSError) -> None:
        super().__init__(f"{stage}: {error.strerror} ({error.filename})")
        self.stage = stage
        self.error = error


@contextlib.contextmanager
def _stage(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(name, error) from error


def enclose(plan: dict[str, Any], level: str, uid: int, gid: int) -> dict[str, str]:
    """Confine this process as the plan says; returns what is enforced, by which layer.

    Args:
        plan: A plan's data (``Plan.data``).
        level: With ``namespaces``, the process has just been started in new ones.
        uid: The user's id outside.
        gid: The group's id outside.

    Raises:
        Refused: A layer could not be put on; the process must end.
    """
    enforced: dict[str, str] = {}
    own = level == NAMESPACES
    network = plan["network"] == "on"
    outer = grants.outer_devices() if own else []
    if own:
        with _stage("namespaces"):
            namespaces.map_identity(uid, gid)
            mounts.separate()
        with _stage("mounts"):
            trees = mounts.copies(plan)
        with _stage("namespaces"):
            mounts.cover(read_only="/" not in plan["writable"])
        with _stage("mounts"):
            mounts.attach(plan, trees)
            if namespaces.limit_processes():
                enforced["number of processes"] = "process namespace"
            mount_setattr("/proc", ATTR_RDONLY, recursive=False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with _stage("privileges"):
        if own:
            namespaces.drop_privileges()
        else:
            namespaces.rule_out_privileges()
    with _stage("landlock"):
        rules = [*grants.rules(plan, own_mounts=own), *outer]
        landlock.restrict(rules, network=network)
        for descriptor, _ in rules:
            os.close(descriptor)
    with _stage("seccomp"):
        seccomp.install(seccomp.assemble(seccomp.rules_for(network=network, own_processes=own)))
    return enforced
