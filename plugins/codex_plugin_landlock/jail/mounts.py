"""The file system of a sandbox. The rule for ``/`` applies to everything except the parts of the plan, which have their own rules.

All trees that stay visible are copied first and attached afterwards, outer ones first. Parts can therefore be anywhere: below
``/dev``, below a denied folder, or in a new root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any

from codex_lib_confinement.paths import is_below

from .parts import DENIED, DEV, READ_ONLY, TMP, WRITABLE, Part, above, parts
from .syscalls import (
    ATTR_NODEV,
    ATTR_NOSUID,
    ATTR_RDONLY,
    detach,
    mount,
    mount_setattr,
    move_mount,
    open_tree,
    pivot_root,
)

__all__ = ["attach", "copies", "cover", "separate"]

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}

_STAGE = DEV
"""The folder in which a new root is built until it replaces the old one. Any folder that always exists would work."""

_REAL, _FRESH, _CLOSED = "real", "fresh", "closed"
"""Types of surroundings: files from outside, the sandbox's own folders that commands may write, and its read-only folders."""


def separate() -> None:
    """Make all mounts private, so that later changes are not visible outside.

    The process must have its own user, mount and process namespaces.

    Raises:
        OSError: Mounting is refused here.
    """
    mount("", "/", "", _MS_REC | _MS_PRIVATE)


def copies(plan: dict[str, Any]) -> dict[str, int]:
    """Return detached copies, by path, of the readable and writable parts that come from outside and are not only pinned.

    Raises:
        OSError: A part cannot be copied; the error names it.
    """
    visible = (part for part in parts(plan) if part.kind != DENIED and not part.pinned and not _is_private(plan, part))
    return {part.path: _tree(part) for part in visible if os.path.lexists(part.path)}


def cover(plan: dict[str, Any]) -> None:
    """Apply the plan's rule for ``/`` to everything, disable devices and set-uid programs, and mount a new ``/dev`` and ``/proc``.

    Raises:
        OSError: Mounting is refused here.
    """
    devices = [(name, open_tree(f"/dev/{name}", recursive=False)) for name in _DEVICES]
    base = _base(plan)
    if base:
        links = _links(plan)
        mount("tmpfs", base, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=111,size=16m")
        for name, target in links:
            os.symlink(target, f"{base}/{name}")
        for name in ("dev", "proc"):
            os.mkdir(f"{base}/{name}", 0o755)
    else:
        mount_setattr("/", ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if plan["root"] == READ_ONLY else 0))
    _mount_devices(f"{base}{DEV}", devices)
    mount("proc", f"{base}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def attach(plan: dict[str, Any], trees: dict[str, int]) -> None:
    """Attach the copies, outer ones first, and cover denied paths. If there is a new root, make it ``/``.

    Raises:
        OSError: A step failed; the error names it.
    """
    base = _base(plan)
    listed = parts(plan)
    holding = {folder for part in listed for folder in above(part.path)}
    view = _View(base, closed_root=plan["root"] == DENIED)
    for part in listed:
        if part.path == DEV:
            continue
        if part.path == TMP and plan["private_tmp"]:
            view.add_tmp()
        elif part.kind == DENIED:
            view.deny(part.path, holds_parts=part.path in holding)
        elif part.path in trees:
            view.add(part.path, trees[part.path])
        else:
            view.remount(part)
    view.finish()
    if base:
        mount_setattr(base, ATTR_RDONLY, recursive=False)
        os.chdir(base)
        pivot_root(".", ".")
        detach(".")
        os.chdir("/")


def _base(plan: dict[str, Any]) -> str:
    return _STAGE if plan["root"] == DENIED else ""


def _is_private(plan: dict[str, Any], part: Part) -> bool:
    return part.path == DEV or (part.path == TMP and plan["private_tmp"])


def _tree(part: Part) -> int:
    tree = open_tree(part.path)
    attributes = ATTR_NOSUID | (ATTR_RDONLY if part.kind == READ_ONLY else 0)
    mount_setattr(tree, attributes | (0 if is_below(part.path, DEV) else ATTR_NODEV))
    return tree


def _links(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the symlinks directly below ``/``, such as ``/bin``, unless the target is denied and contains no part of the plan."""
    kinds = {"/": plan["root"], **{part.path: part.kind for part in parts(plan)}}
    links = []
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.is_symlink() and entry.path not in kinds:
                real = os.path.realpath(entry.path)
                kind = next(kinds[path] for path in (real, *above(real)) if path in kinds)
                if kind != DENIED or any(is_below(path, real) for path in kinds):
                    links.append((entry.name, os.readlink(entry.path)))
    return links


class _View:
    """The file system for commands, while it is being built.

    Args:
        base: The folder in which it is built. Empty means ``/``.
        closed_root: Whether its root is a new folder that commands may not write.
    """

    def __init__(self, base: str, *, closed_root: bool) -> None:
        self._base = base
        self._surroundings = {"/": _CLOSED if closed_root else _REAL, DEV: _CLOSED}
        self._unfinished: list[str] = []
        self._masks: set[str] = set()

    def add(self, path: str, tree: int) -> None:
        """Attach a detached copy at a path."""
        if self._surroundings_of(path) != _REAL:
            self._make_point(path, folder=stat.S_ISDIR(os.fstat(tree).st_mode))
        move_mount(tree, self._base + path)
        os.close(tree)
        self._surroundings[path] = _REAL

    def add_tmp(self) -> None:
        """Mount an empty ``/tmp``."""
        if self._surroundings_of(TMP) != _REAL:
            self._make_point(TMP, folder=True)
        mount("tmpfs", self._base + TMP, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
        self._surroundings[TMP] = _FRESH

    def remount(self, part: Part) -> None:
        """Mount a part that has no copy over itself. Such a part is only pinned, or exists only in the sandbox."""
        where = self._base + part.path
        if self._surroundings_of(part.path) == _FRESH:
            self._make_point(part.path, folder=True)
        elif not part.pinned or not os.path.lexists(where):
            return
        tree = open_tree(where)
        if part.kind != WRITABLE:
            mount_setattr(tree, ATTR_RDONLY)
            self._surroundings[part.path] = _REAL
        move_mount(tree, where)
        os.close(tree)

    def deny(self, path: str, *, holds_parts: bool) -> None:
        """Cover a path with something empty and unreadable: a folder that cannot be listed, or a file."""
        where = self._base + path
        if not os.path.lexists(where):
            if self._surroundings_of(path) == _REAL:
                return
            self._make_point(path, folder=True)
        self._surroundings[path] = _CLOSED
        folder = os.path.isdir(where) and not os.path.islink(where)
        if folder and holds_parts:
            mount("tmpfs", where, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=111,size=4m")
            self._unfinished.append(where)
            return
        tree = open_tree(self._mask(folder=folder), recursive=False)
        mount_setattr(tree, ATTR_RDONLY)
        move_mount(tree, where)
        os.close(tree)

    def finish(self) -> None:
        """Make the sandbox's own folders read-only, except for folders that commands may write."""
        for mask in self._masks:
            (os.rmdir if os.path.isdir(mask) else os.unlink)(mask)
        for where in (*self._unfinished, self._base + DEV):
            mount_setattr(where, ATTR_RDONLY, recursive=False)

    def _surroundings_of(self, path: str) -> str:
        return next(self._surroundings[folder] for folder in above(path) if folder in self._surroundings)

    def _make_point(self, path: str, *, folder: bool) -> None:
        """Create a mount point and its parent folders. New folders cannot be listed unless commands may write there."""
        where = self._base + path
        if os.path.lexists(where):
            return
        mode = 0o755 if self._surroundings_of(path) == _FRESH else 0o111
        missing = [parent for parent in above(where) if not os.path.lexists(parent)]
        for parent in reversed(missing):
            os.mkdir(parent, mode)
        if folder:
            os.mkdir(where, mode)
        else:
            os.close(os.open(where, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))

    def _mask(self, *, folder: bool) -> str:
        mask = f"{self._base}{DEV}/.denied{'-folder' if folder else ''}"
        if mask not in self._masks:
            if folder:
                os.mkdir(mask, 0)
            else:
                os.close(os.open(mask, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))
            self._masks.add(mask)
        return mask


def _mount_devices(where: str, devices: Iterable[tuple[str, int]]) -> None:
    mount("tmpfs", where, "tmpfs", _MS_NOSUID, "mode=755,size=64k")
    for name, tree in devices:
        path = f"{where}/{name}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        mount_setattr(
            tree, ATTR_RDONLY | ATTR_NOSUID
        )  # devices can be written anyway, but their modes and times cannot be changed
        move_mount(tree, path)
        os.close(tree)
    for name, mode in (("pts", 0o755), ("shm", 0o1777)):
        os.mkdir(f"{where}/{name}", mode)
    mount("devpts", f"{where}/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    mount("tmpfs", f"{where}/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
    os.symlink("pts/ptmx", f"{where}/ptmx")
    for name, target in _LINKS.items():
        os.symlink(target, f"{where}/{name}")
