"""Permanent confinement of a process: namespaces, mounts, Landlock and seccomp, in this order.

The order matters: mounts need privileges in the new namespaces, Landlock forbids mounting, and the filter forbids most of the
remaining steps. After a failure the process must not run commands.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from codex_lib_confinement.seccomp import assemble

from . import grants, landlock, limits, mounts, namespaces, network, protections, seccomp
from .syscalls import ATTR_RDONLY, mount_setattr

__all__ = ["LANDLOCK", "NAMESPACES", "Refused", "User", "enclose"]

NAMESPACES = "namespaces"
LANDLOCK = "landlock"
"""The two levels: ``namespaces`` uses all layers, ``landlock`` only Landlock and seccomp."""

_LOOPBACK_IS_UP = ("loopback", "proxy")
"""Network modes that, with namespaces, have a working loopback interface."""


class User(NamedTuple):
    """The user who starts a sandbox, as seen from outside. ``counted`` means that the system counts this user's processes."""

    uid: int
    gid: int
    counted: bool


class Refused(Exception):  # noqa: N818  # an event, not an error
    """A layer could not be applied.

    Attributes:
        stage: ``namespaces`` (unavailable on this machine), ``mounts``, ``network``, ``limits``, ``privileges``, ``landlock``,
            ``seccomp`` or ``floor``.
        error: The system's error.
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
    """Confine this process, and return the layer that enforces each protection (:mod:`.protections`).

    Args:
        plan: The data of a plan (``Plan.data``). Without namespaces, it may also contain the allowed ``ports`` of connections.
        level: The level. ``namespaces`` requires that the process has just been started in new namespaces.
        user: The user outside of the sandbox.

    Raises:
        Refused: A layer could not be applied, or the plan's floor is not satisfied. The process must end.
    """
    has_namespaces = level == NAMESPACES
    mode = plan["network"]
    bounded = []
    outer = grants.outer_devices() if has_namespaces else []
    if has_namespaces:
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
        if not has_namespaces and mode in _LOOPBACK_IS_UP and not plan.get("ports"):
            raise OSError(errno.EOPNOTSUPP, "this requires a network namespace", mode)
    with _stage("limits"):
        if limits.bound(plan["limits"], counted=user.counted, has_namespaces=has_namespaces):
            bounded.append("resource limit")
    with _stage("privileges"):
        if has_namespaces:
            namespaces.drop_privileges()
        else:
            namespaces.rule_out_privileges()
    with _stage("landlock"):
        granted = itertools.chain(grants.rules(plan, own_mounts=has_namespaces), outer)
        open_tcp = mode == "on" or (has_namespaces and mode in _LOOPBACK_IS_UP)
        abi = landlock.restrict(granted, network=open_tcp, ports=plan.get("ports", ()))
        for descriptor, _ in outer:
            os.close(descriptor)
    with _stage("seccomp"):
        services = "unix-sockets" not in plan["floor"]
        rules = seccomp.rules_for(network=mode, has_namespaces=has_namespaces, services=services)
        seccomp.install(assemble(rules))
    enforced = protections.protections(has_namespaces=has_namespaces, abi=abi, bounded=", ".join(bounded))
    with _stage("floor"):
        lacking = protections.missing(enforced, plan, has_namespaces=has_namespaces)
        if lacking:
            raise OSError(errno.EPERM, "not enforced", ", ".join(lacking))
    if plan["limits"]["processes"] is None:
        del enforced["process-count"]  # it was not requested, so nothing is known about it
    return enforced
