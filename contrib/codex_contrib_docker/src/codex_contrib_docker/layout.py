"""Computes which parts of this machine are in a container for a turn's access. Reads the file system without changing it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from codex_framework import AccessMode, FileAccess, SandboxError
from codex_lib_confinement.mounts import Kind, Mount, MountPlan
from codex_lib_confinement.paths import is_below

__all__ = ["Kind", "Layout", "Mount", "covers", "layout_of"]

_OF_THE_IMAGE = (
    "/bin",
    "/sbin",
    "/usr",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/dev",
    "/proc",
    "/sys",
    "/run",
)
"""Folders that come from the image unless the settings name them. Read rules for them are meant for the system's programs."""

_TMP = "/tmp"  # noqa: S108  # one of the container's own, in memory, unless the access shows this machine's


class Layout(NamedTuple):
    """The mounts, outer ones first, and the missing folders to create before, so that there is something to mount over."""

    mounts: tuple[Mount, ...]
    placeholders: tuple[str, ...] = ()


def layout_of(access: FileAccess, cwd: str, folders: Iterable[str] = (), own: Iterable[str] = ()) -> Layout:
    """Return the layout of a container for an access, from the current state of files.

    Args:
        access: The permissions.
        cwd: The real path of the commands' working folder.
        folders: Further folders to show if they may be read.
        own: Our own folders, which no command may see.

    Raises:
        SandboxError: Mounts cannot enforce it, or it includes the whole machine.
    """
    if access.full or access.mode_of(Path("/")) is AccessMode.WRITE:
        raise SandboxError(
            "a container cannot be given all files of this machine",
            hint="choose a profile that names the writable folders, or use another sandbox (`[framework] sandbox`)",
        )
    plan = _Plan(access, (cwd, *folders))
    for rule in access.rules:
        plan.want(str(rule.path), access.mode_of(rule.path))
    plan.want_matches(list(plan.wanted))
    plan.wanted |= dict.fromkeys(own, AccessMode.DENY)
    mounts = tuple(plan.mounts())
    if not any(mount.path == _TMP for mount in mounts):
        mounts = (Mount(_TMP, Kind.PRIVATE), *mounts)
    return Layout(mounts, tuple(plan.placeholders))


class _Plan(MountPlan):
    """The mounts of a container, which shows nothing else of this machine."""

    def __init__(self, access: FileAccess, shared: tuple[str, ...]) -> None:
        super().__init__(access, AccessMode.DENY)
        self._shared = shared
        for path in shared:
            if os.path.isdir(path) and path != "/" and self.mode_of(path) is not AccessMode.DENY:
                self.wanted[path] = self.mode_of(path)

    def want(self, path: str, mode: AccessMode) -> None:
        of_the_image = mode is AccessMode.READ and _is_at_or_below(path, _OF_THE_IMAGE) and path not in self._shared
        if not of_the_image and not (self.access.private_tmp and path == _TMP):
            super().want(path, mode)

    def could_create(self, path: str) -> bool:
        return any(is_below(path, one) for one, mode in self.wanted.items() if mode is AccessMode.WRITE)


def covers(layout: Layout, folder: Path) -> dict[str, str]:
    """Create the folders that cover hidden ones, by path. They are empty except for the mount points of visible paths.

    Args:
        layout: The mounts.
        folder: The empty folder in which to create them.
    """
    made: dict[str, str] = {}
    for path, kind in layout.mounts:
        if kind not in (Kind.HIDDEN_FOLDER, Kind.PASSABLE):
            continue
        cover = folder / str(len(made))
        cover.mkdir(mode=0o755)
        made[path] = str(cover)
        for inner, _ in layout.mounts:
            if is_below(inner, path):
                place = cover / inner[len(path) + 1 :]
                place.parent.mkdir(parents=True, exist_ok=True)
                if os.path.isdir(inner):
                    place.mkdir(exist_ok=True)
                else:
                    place.touch()
    return made


def _is_at_or_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or is_below(path, folder) for folder in folders)
