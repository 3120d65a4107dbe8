"""Confining a process for good: namespaces, mounts, Landlock and seccomp in their order. Any failure means it may not run commands.

The order matters: mounts need privileges in the new namespaces, Landlock forbids mounting, the filter forbids most of the rest.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from typing import Any

from . import landlock, mounts, namespaces, seccomp
from .syscalls import ATTR_RDONLY, mount_setattr

__all__ = ["LANDLOCK", "NAMESPACES", "Refused", "allowed_below", "enclose"]

NAMESPACES = "namespaces"
LANDLOCK = "landlock"
"""The two levels: all layers, and Landlock with seccomp only."""

_ALL = -1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_RIGHTS = landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV


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
        plan: ``writable``, ``read_only``, ``masked`` (lists of paths) and ``network``.
        level: With ``namespaces``, the process has just been started in new ones.
        uid: The user's id outside.
        gid: The group's id outside.

    Raises:
        Refused: A layer could not be put on; the process must end.
    """
    enforced: dict[str, str] = {}
    own = level == NAMESPACES
    outer = _outer_devices() if own else []
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
        rules = [*_rules(plan, level), *((descriptor, _DEVICE_RIGHTS) for descriptor in outer)]
        landlock.restrict(rules, network=plan["network"])
        for descriptor, _ in rules:
            os.close(descriptor)
    with _stage("seccomp"):
        seccomp.install(seccomp.assemble(seccomp.rules_for(network=plan["network"], own_processes=own)))
    return enforced


def _outer_devices() -> list[int]:
    """What a command's standard streams may be, so that re-opening them by way of ``/dev/stdout`` works."""
    found = []
    for path in ("/dev/null", "/dev/pts"):
        with contextlib.suppress(OSError):
            found.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
    return found


def _rules(plan: dict[str, Any], level: str) -> Iterator[tuple[int, int]]:
    yield from _rule("/", landlock.READ)
    granted: list[str] = list(plan["writable"])
    if level == LANDLOCK:
        granted = [path for root in granted for path in allowed_below(root, plan["read_only"], plan["writable"])]
    for path in granted:
        yield from _rule(path, _ALL)
    for name in _DEVICES:
        yield from _rule(f"/dev/{name}", _DEVICE_RIGHTS)
    yield from _rule("/dev/pts", _DEVICE_RIGHTS | landlock.READ)
    yield from _rule("/dev/ptmx", _DEVICE_RIGHTS)
    yield from _rule("/dev/shm", _ALL)  # noqa: S108


def _rule(path: str, rights: int) -> Iterator[tuple[int, int]]:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    yield descriptor, rights


def allowed_below(root: str, kept: list[str], roots: list[str]) -> Iterator[str]:
    """What to grant so that ``root`` can be written but what is kept in it can't: the root itself, or else its entries.

    Landlock knows no exceptions below a granted folder. So names that appear in an enumerated folder later are not granted, and
    kept names that do not exist yet can't be kept where their folder is granted as a whole.
    """
    prefix = root if root.endswith("/") else f"{root}/"
    inside = [path for path in kept if path.startswith(prefix) and os.path.lexists(path)]
    if not inside:
        yield root
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(root):
            path = prefix + name
            if path in inside or path in roots or os.path.islink(path):
                continue
            yield from allowed_below(path, inside, roots)
