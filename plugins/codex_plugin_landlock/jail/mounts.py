"""The file system as a sandbox sees it: everything read-only but the writable roots, whose protected paths are read-only again.

Copies of all parts are taken first and attached afterwards, outer ones first, so that a root may lie anywhere, below ``/dev`` too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .syscalls import ATTR_NODEV, ATTR_NOSUID, ATTR_RDONLY, mount, mount_setattr, move_mount, open_tree

__all__ = ["Part", "attach", "copies", "cover", "parts", "separate"]

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_UNIX_PATH_DEPTH = "/"

WRITABLE, READ_ONLY, MASKED = "writable", "read-only", "masked"


class Part(NamedTuple):
    """A path that gets a mount of its own. ``kind`` is ``writable``, ``read-only`` or ``masked``."""

    path: str
    kind: str


def parts(plan: dict[str, Any]) -> list[Part]:
    """The mounts of a plan, outer ones first. Pure.

    Folders between a writable root and a protected path in it get a mount too: a mount point cannot be renamed, so
    nobody can move the protected path away with its parent and put something else in its place.
    """
    writable: Sequence[str] = plan["writable"]
    kinds = dict.fromkeys(plan["read_only"], READ_ONLY)
    for kept in plan["read_only"]:
        for root in writable:
            kinds.update(dict.fromkeys((path for path in _between(root, kept) if path not in kinds), WRITABLE))
    kinds.update(dict.fromkeys(writable, WRITABLE))
    kinds.update(dict.fromkeys(plan["masked"], MASKED))
    ordered = (Part(path, kind) for path, kind in kinds.items() if path != "/")
    return sorted(ordered, key=lambda part: (part.path.count(_UNIX_PATH_DEPTH), part.path))


def _between(root: str, path: str) -> Iterable[str]:
    """The folders strictly between ``root`` and ``path``."""
    prefix = root if root.endswith("/") else f"{root}/"
    if not path.startswith(prefix):
        return
    parent = os.path.dirname(path)
    while parent != root:
        yield parent
        parent = os.path.dirname(parent)


def separate() -> None:
    """Let no mount made here be seen outside. The process must be in user, mount and process namespaces of its own.

    Raises:
        OSError: Mounting is refused here.
    """
    mount("", "/", "", _MS_REC | _MS_PRIVATE)


def copies(plan: dict[str, Any]) -> list[tuple[Part, int]]:
    """Detached copies of what a plan keeps writable or read-only, to be attached later.

    Raises:
        OSError: One cannot be copied; the error names it.
    """
    return [(part, _tree(part)) for part in parts(plan) if part.kind != MASKED and os.path.lexists(part.path)]


def cover(*, read_only: bool) -> None:
    """Make everything read-only, without devices and set-uid programs, and mount a ``/dev`` and ``/proc`` of its own.

    Raises:
        OSError: Mounting is refused here.
    """
    devices = [(name, open_tree(f"/dev/{name}", recursive=False)) for name in _DEVICES]
    mount_setattr("/", ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if read_only else 0))
    _mount_devices(devices)
    mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def attach(plan: dict[str, Any], trees: list[tuple[Part, int]]) -> None:
    """Attach the copies, outer ones first, and cover what must not be read.

    Raises:
        OSError: A step failed; the error names it.
    """
    for part, tree in trees:
        _attach(part, tree)
    for part in parts(plan):
        if part.kind == MASKED and os.path.lexists(part.path):
            _mask(part.path)
    mount_setattr("/dev", ATTR_RDONLY, recursive=False)


def _tree(part: Part) -> int:
    tree = open_tree(part.path)
    mount_setattr(tree, ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if part.kind == READ_ONLY else 0))
    return tree


def _attach(part: Part, tree: int) -> None:
    if part.path.startswith("/dev/") and not os.path.lexists(part.path):
        _make_point(part.path, tree)
    move_mount(tree, part.path)
    os.close(tree)


def _make_point(path: str, tree: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _mount_devices(devices: Iterable[tuple[str, int]]) -> None:
    mount("tmpfs", "/dev", "tmpfs", _MS_NOSUID, "mode=755,size=64k")
    for name, tree in devices:
        path = f"/dev/{name}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        move_mount(tree, path)
        os.close(tree)
    for name, mode in (("pts", 0o755), ("shm", 0o1777)):
        os.mkdir(f"/dev/{name}", mode)
    mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")  # noqa: S108
    os.symlink("pts/ptmx", "/dev/ptmx")
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")


def _mask(path: str) -> None:
    """Put something empty and unreadable over a path."""
    if os.path.islink(path):
        return  # what it leads to is masked by its own path
    if os.path.isdir(path):
        mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=000,size=4k")
        mount_setattr(path, ATTR_RDONLY, recursive=False)
        return
    empty = "/dev/.masked"
    if not os.path.lexists(empty):
        os.close(os.open(empty, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))
    tree = open_tree(empty)
    mount_setattr(tree, ATTR_RDONLY)
    move_mount(tree, path)
    os.close(tree)
