"""Computes the mounts for a turn's access, and the folders to create first. Reads the file system without changing it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from codex_framework import AccessMode, FileAccess
from codex_lib_confinement.mounts import Kind, Mount, MountPlan
from codex_lib_confinement.paths import is_below

__all__ = ["Kind", "Layout", "Mount", "layout_of"]

_PRIVATE = "/tmp"  # noqa: S108  # the folder that is replaced, not one that is used


class Layout(NamedTuple):
    """A file system.

    Attributes:
        root: The mode of paths without a mount.
        mounts: The mounts, outer ones first.
        placeholders: Missing folders that must be created, so that there is something to mount over. The mounts include them.
        links: Symlinks to visible paths directly below a hidden root, by name.
        devices: Whether to use the machine's devices instead of a few harmless ones.
    """

    root: AccessMode
    mounts: tuple[Mount, ...]
    placeholders: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    devices: bool = False


_UNLIMITED = Layout(AccessMode.WRITE, (), devices=True)


def layout_of(access: FileAccess) -> Layout:
    """Return the file system for an access, from the current state of files.

    Raises:
        SandboxError: Mounts cannot enforce it: a protected symlink could be replaced, or too much matches.
    """
    if access.full:
        return _UNLIMITED
    plan = _Plan(access)
    for rule in access.rules:
        plan.want(str(rule.path), access.mode_of(rule.path))
    plan.want_matches(str(rule.path) for rule in access.rules if rule.access is not AccessMode.DENY)
    mounts = tuple(plan.laid_out())
    return Layout(plan.outside, mounts, tuple(plan.placeholders), tuple(_links(plan.outside, mounts)))


class _Plan(MountPlan):
    """The mounts, including the sandbox's own ``/tmp`` if the access requires it."""

    def __init__(self, access: FileAccess) -> None:
        super().__init__(access, access.mode_of(Path("/")))
        self._private = access.private_tmp and self.mode_of(_PRIVATE) is AccessMode.WRITE

    def laid_out(self) -> Iterator[Mount]:
        if not self._private:
            yield from self.mounts()
            return
        yield Mount(_PRIVATE, Kind.PRIVATE)
        yield from self.mounts({_PRIVATE: AccessMode.WRITE})

    def could_create(self, path: str) -> bool:
        return not self._is_covered(path)

    def needs_mount(self, path: str, mode: AccessMode, around: AccessMode) -> bool:
        if self._private and path == _PRIVATE:
            return False
        if self._private and is_below(path, _PRIVATE):
            return mode is not AccessMode.DENY or not self._is_covered(path)
        return super().needs_mount(path, mode, around)

    def refuses_link(self, path: str, mode: AccessMode) -> bool:
        return mode is AccessMode.DENY or super().refuses_link(path, mode)

    def _is_covered(self, path: str) -> bool:
        """Return whether the sandbox's own /tmp covers a path."""
        if not self._private or not is_below(path, _PRIVATE):
            return False
        return not any(
            is_below(path, kept) and is_below(kept, _PRIVATE)
            for kept, mode in self.wanted.items()
            if mode != AccessMode.DENY
        )


def _links(root: AccessMode, mounts: tuple[Mount, ...]) -> Iterator[tuple[str, str]]:
    if root is not AccessMode.DENY:
        return
    shown = [mount.path for mount in mounts if mount.kind in (Kind.WRITABLE, Kind.READABLE)]
    for entry in sorted(os.scandir("/"), key=lambda entry: entry.name):
        if entry.is_symlink():
            real = os.path.realpath(entry.path)
            if any(real == path or is_below(real, path) or is_below(path, real) for path in shown):
                yield entry.path, os.readlink(entry.path)
