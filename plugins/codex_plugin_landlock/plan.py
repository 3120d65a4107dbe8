"""From a turn's access to a plan: plain data that the launcher understands."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import attrs

from codex_framework import FileAccess

__all__ = ["Plan", "plan_for", "signature"]

_PLACEHOLDER_MODE = 0o1755
"""Folders that the launcher puts in place of missing names look like this (see ``jail.placeholders``)."""


@attrs.frozen
class Plan:
    """What a sandbox does, as paths.

    Attributes:
        writable: Folders and files that may be written.
        read_only: What in them may not, present or not.
        masked: What may not be read.
        network: How the network is reached: ``off``, ``loopback``, ``proxy`` or ``on``.
        limits: ``processes``, ``memory_bytes`` and ``file_bytes``, each a number or None.
        private_tmp: Where ``/tmp`` may be written, it is the commands' own.
        floor: What has to be held back, in order.
        key: The whole of it as text; equal plans have equal keys.
    """

    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    masked: tuple[str, ...]
    network: str
    limits: Mapping[str, int | None] = attrs.field(factory=dict)
    private_tmp: bool = False
    floor: tuple[str, ...] = ()
    key: str = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "key", json.dumps(self.data))

    @property
    def data(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "writable": self.writable,
            "read_only": self.read_only,
            "masked": self.masked,
            "network": self.network,
            "limits": dict(self.limits),
            "private_tmp": self.private_tmp,
            "floor": self.floor,
        }


def plan_for(access: FileAccess) -> Plan:
    """The plan for an access. Looks at no file."""
    rest: dict[str, Any] = {
        "network": access.network.value,
        "limits": {name: getattr(access.limits, name) for name in ("processes", "memory_bytes", "file_bytes")},
        "private_tmp": access.private_tmp,
        "floor": tuple(sorted(access.floor)),
    }
    if access.full:
        return Plan(writable=("/",), read_only=(), masked=(), **rest)
    writable = tuple(dict.fromkeys(str(root.root) for root in access.roots))
    kept = tuple(dict.fromkeys(str(path) for root in access.roots for path in root.read_only))
    return Plan(
        writable=writable,
        read_only=tuple(path for path in kept if path not in writable),
        masked=tuple(str(path) for path in access.denied),
        **rest,
    )


def signature(plan: Plan, *, entries: bool) -> tuple[object, ...]:
    """What a running sandbox depends on: which files stand at its paths.

    Args:
        plan: The plan.
        entries: Also notice names that come and go right below the writable folders.
    """
    found: list[object] = [_identity(path) for path in plan.writable]
    found += [_form(path) for path in (*plan.read_only, *plan.masked)]
    if entries:
        found += [_changed(path) for path in _enumerated(plan)]
    return tuple(found)


def _enumerated(plan: Plan) -> Iterable[str]:
    """The folders whose entries are granted one by one: those around a kept path that exists, up to its root."""
    folders: dict[str, None] = {}
    for kept in filter(os.path.lexists, plan.read_only):
        around = (str(parent) for parent in PurePosixPath(kept).parents)
        folders |= dict.fromkeys(path for path in around if any(_within(path, root) for root in plan.writable))
    return folders


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith("/") else f"{root}/")


def _identity(path: str) -> object:
    status = _status(path)
    return None if status is None else (status.st_dev, status.st_ino)


def _form(path: str) -> object:
    """What a mount over a path depends on.

    The mount goes when the path is removed, and a file system gives what is made in its place the same inode number at once. The
    time of the last change tells them apart; a command cannot turn it back, nor change it from within.
    """
    status = _status(path)
    return None if status is None else (status.st_dev, status.st_ino, status.st_ctime_ns)


def _status(path: str) -> os.stat_result | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_IMODE(status.st_mode) == _PLACEHOLDER_MODE else status


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0
