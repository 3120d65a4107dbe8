"""From a turn's access to what of this machine is in a container. Looks at files, changes none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from codex_framework import AccessMode, FileAccess, SandboxError
from codex_framework.toolkit.confinement.mounts import Kind, Mount, MountPlan
from codex_framework.toolkit.confinement.paths import is_below

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
"""Folders of which the container has its own, unless the settings name them: read rules for them are about the system's programs."""

_TMP = "/tmp"  # noqa: S108  # one of the container's own, in memory, unless the access shows this machine's


class Layout(NamedTuple):
    """What is mounted, outer ones first, and which folders have to be made before, so that there is something to mount over."""

    mounts: tuple[Mount, ...]
    placeholders: tuple[str, ...] = ()


def layout_of(access: FileAccess, cwd: str, folders: Iterable[str] = (), own: Iterable[str] = ()) -> Layout:
    """What is in a container for an access, as files stand now.

    Args:
        access: The permissions.
        cwd: The folder that commands work in; real.
        folders: Further ones that are shown where they may be read.
        own: Folders of ours that no command may see.

    Raises:
        SandboxError: Mounts cannot enforce it, or it takes in the whole machine.
    """
    if access.full or access.mode_of(Path("/")) is AccessMode.WRITE:
        raise SandboxError(
            "all files of this machine cannot be given to a container",
            hint="choose a profile that names the folders to write, or let another sandbox confine commands (`[framework] sandbox`)",
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
    """The mounts of a container, which shows nothing of this machine but these."""

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
    """Make what is put over hidden folders: empty ones, but for the places of what is shown in them. By path.

    Args:
        layout: The mounts.
        folder: Where to make them; empty.
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
