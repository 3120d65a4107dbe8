"""From a turn's access to what of this machine is in a container. Looks at files, changes none."""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from codex_contrib_docker.placeholders import is_placeholder
from codex_framework import AccessMode, FileAccess, SandboxError
from codex_framework.contract.permissions.globs import expand

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


class Kind(enum.Enum):
    """What a mount makes of its path."""

    WRITABLE = "writable"
    READABLE = "readable"
    HIDDEN_FILE = "hidden file"
    HIDDEN_FOLDER = "hidden folder"
    PASSABLE = "passable"
    """A hidden folder in which something further down is not hidden."""
    EMPTY = "empty"
    """A new folder in memory, which may be written."""


class Mount(NamedTuple):
    """One path that gets a mount of its own."""

    path: str
    kind: Kind


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
    return _Maker(access, cwd, tuple(folders), tuple(own)).layout()


class _Maker:
    def __init__(self, access: FileAccess, cwd: str, folders: tuple[str, ...], own: tuple[str, ...]) -> None:
        self._access = access
        self._shared = (cwd, *folders)
        self._own = own
        self._wanted: dict[str, AccessMode] = {}
        self._pinned: set[str] = set()
        self._placeholders: list[str] = []

    def layout(self) -> Layout:
        for path in self._shared:
            if os.path.isdir(path) and path != "/" and self._access.mode_of(Path(path)) is not AccessMode.DENY:
                self._wanted[path] = self._access.mode_of(Path(path))
        for rule in self._access.rules:
            self._want(str(rule.path), self._access.mode_of(rule.path))
        for path in (*self._matches(), *self._own):
            self._wanted[path] = AccessMode.DENY
        self._pin()
        mounts = list(self._mounts())
        if not any(mount.path == "/tmp" for mount in mounts):  # noqa: S108
            mounts.insert(0, Mount("/tmp", Kind.EMPTY))  # noqa: S108
        return Layout(tuple(mounts), tuple(self._placeholders))

    def _matches(self) -> Iterator[str]:
        access = self._access
        if not access.denied_globs:
            return
        found = expand(access.denied_globs, access.glob_depth, reopened=list(self._wanted))
        for path in found:
            if not os.path.islink(path) and access.mode_of(Path(path)) is AccessMode.DENY:
                yield path

    def _want(self, path: str, mode: AccessMode) -> None:
        if path == "/" or (
            mode is AccessMode.READ and _is_at_or_below(path, _OF_THE_IMAGE) and path not in self._shared
        ):
            return
        if self._access.private_tmp and path == "/tmp":  # noqa: S108
            return  # one of its own, in memory
        try:
            form = os.lstat(path).st_mode
        except OSError:
            self._want_missing(path, mode)
            return
        if is_placeholder(path):  # that of another command: it has to be held by this one too
            self._want_missing(path, mode)
            return
        if not stat.S_ISLNK(form):
            self._wanted[path] = mode
        elif mode is not AccessMode.WRITE and self._access.mode_of(Path(path).parent) is AccessMode.WRITE:
            raise SandboxError(
                f"{path} is a symlink, and a mount cannot keep a symlink from being replaced",
                hint="put the file or folder itself there, or let another sandbox confine commands (`[framework] sandbox`)",
            )

    def _want_missing(self, path: str, mode: AccessMode) -> None:
        """Hold the place of something that may not come into being; of several missing folders on the way, the first."""
        if mode is AccessMode.WRITE:
            return
        while not os.path.lexists(above := os.path.dirname(path)) or is_placeholder(above):
            path = above
        shown = any(_is_at_or_below(above, (one,)) for one, found in self._wanted.items() if found is AccessMode.WRITE)
        writable = self._access.mode_of(Path(above)) is AccessMode.WRITE and os.access(above, os.W_OK)
        if shown and writable and os.path.isdir(above):
            if path not in self._placeholders:
                self._placeholders.append(path)
            self._wanted[path] = AccessMode.READ

    def _pin(self) -> None:
        """Give folders between a writable one and what is kept in it a mount too: a mount point cannot be renamed."""
        for path in [path for path, mode in self._wanted.items() if mode is not AccessMode.WRITE]:
            for above in map(str, Path(path).parents):
                if above == "/" or above in self._wanted or self._access.mode_of(Path(above)) is not AccessMode.WRITE:
                    break
                self._wanted[above] = AccessMode.WRITE
                self._pinned.add(above)

    def _mounts(self) -> Iterator[Mount]:
        made: dict[str, AccessMode] = {}
        for path in sorted(self._wanted, key=lambda path: (path.count("/"), path)):
            mode = self._wanted[path]
            around = next((made[above] for above in map(str, Path(path).parents) if above in made), AccessMode.DENY)
            if mode is not around or path in self._pinned:
                made[path] = mode
        shown = [path for path, mode in made.items() if mode is not AccessMode.DENY]
        for path, mode in made.items():
            yield Mount(path, _kind(path, mode, passable=any(_is_at_or_below(one, (path,)) for one in shown)))


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
            if inner != path and _is_at_or_below(inner, (path,)):
                place = cover / inner[len(path) + 1 :]
                place.parent.mkdir(parents=True, exist_ok=True)
                if os.path.isdir(inner):
                    place.mkdir(exist_ok=True)
                else:
                    place.touch()
    return made


def _kind(path: str, mode: AccessMode, *, passable: bool) -> Kind:
    if mode is AccessMode.WRITE:
        return Kind.WRITABLE
    if mode is AccessMode.READ:
        return Kind.READABLE
    if not os.path.isdir(path):
        return Kind.HIDDEN_FILE
    return Kind.PASSABLE if passable else Kind.HIDDEN_FOLDER


def _is_at_or_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
