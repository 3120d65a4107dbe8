"""Confining a process for good: namespaces, mounts, Landlock and seccomp in their order. Any failure means it may not run commands.

The order matters: mounts need privileges in the new namespaces, Landlock forbids mounting, the filter forbids most of the rest.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import grants, landlock, limits, mounts, namespaces, network, protections, seccomp
from .syscalls import ATTR_RDONLY, mount_setattr

__all__ = ["LANDLOCK", "NAMESPACES", "Refused", "User", "enclose"]

NAMESPACES = "namespaces"
LANDLOCK = "landlock"
"""The two levels: all layers, and Landlock with seccomp only."""

_LOOPBACK_IS_UP = ("loopback", "proxy")
"""Modes with a network of the sandbox's own in which more than nothing works."""


class User(NamedTuple):
    """Who starts a sandbox, as seen from outside. ``counted``: the system counts this user's processes."""

    uid: int
    gid: int
    counted: bool


class Refused(Exception):  # noqa: N818  # a turn of events, not a fault
    """A layer could not be put on.

    Attributes:
        stage: ``namespaces`` (this machine does not grant them), ``mounts``, ``network``, ``limits``, ``privileges``, ``landlock``,
            ``seccomp`` or ``floor``.
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


def enclose(plan: dict[str, Any], level: str, user: User) -> dict[str, str]:
    """Confine this process as the plan says; returns what is held back, by which layer (:mod:`.protections`).

    Args:
        plan: A plan's data (``Plan.data``), and without namespaces the ``ports`` that may be connected to.
        level: With ``namespaces``, the process has just been started in new ones.
        user: The user outside.

    Raises:
        Refused: A layer could not be put on, or does not hold what the plan demands; the process must end.
    """
    own = level == NAMESPACES
    mode = plan["network"]
    bounded = []
    outer = grants.outer_devices() if own else []
    if own:
        with _stage("namespaces"):
            namespaces.map_identity(user.uid, user.gid)
            mounts.separate()
        with _stage("mounts"):
            trees = mounts.copies(plan)
        with _stage("namespaces"):
            mounts.cover(plan)
        with _stage("mounts"):
            mounts.attach(plan, trees)
            if plan["limits"]["processes"] is not None and limits.bound_namespace(plan["limits"]["processes"]):
                bounded.append("process namespace")
            mount_setattr("/proc", ATTR_RDONLY, recursive=False)
        with _stage("network"):
            if mode in _LOOPBACK_IS_UP:
                network.raise_loopback()
    with _stage("network"):
        if not own and mode in _LOOPBACK_IS_UP and not plan.get("ports"):
            raise OSError(errno.EOPNOTSUPP, "there is no network namespace to keep it in", mode)
    with _stage("limits"):
        if limits.bound(plan["limits"], counted=user.counted, own=own):
            bounded.append("resource limit")
    with _stage("privileges"):
        if own:
            namespaces.drop_privileges()
        else:
            namespaces.rule_out_privileges()
    with _stage("landlock"):
        rules = itertools.chain(grants.rules(plan, own_mounts=own), outer)
        open_tcp = mode == "on" or (own and mode in _LOOPBACK_IS_UP)
        abi = landlock.restrict(rules, network=open_tcp, ports=plan.get("ports", ()))
        for descriptor, _ in outer:
            os.close(descriptor)
    with _stage("seccomp"):
        seccomp.install(seccomp.assemble(seccomp.rules_for(network=mode, own=own)))
    enforced = protections.protections(own=own, abi=abi, bounded=", ".join(bounded))
    with _stage("floor"):
        lacking = protections.missing(enforced, plan, own=own)
        if lacking:
            raise OSError(errno.EPERM, "not held back", ", ".join(lacking))
    if plan["limits"]["processes"] is None:
        del enforced["process-count"]  # it was not asked for, so nothing is known
    return enforced
