"""From a turn's access to mounts: which paths get one, and which folders have to be made first. Looks at files, changes none."""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from codex_contrib_bubblewrap.placeholders import is_placeholder
from codex_framework import AccessMode, FileAccess, SandboxError
from codex_framework.contract.permissions.globs import expand

__all__ = ["Kind", "Layout", "Mount", "layout_of"]

_PRIVATE = "/tmp"  # noqa: S108  # the folder that is replaced, not one that is used


class Kind(enum.Enum):
    """What a mount makes of its path."""

    WRITABLE = "writable"
    READABLE = "readable"
    HIDDEN_FILE = "hidden file"
    HIDDEN_FOLDER = "hidden folder"
    PASSABLE = "passable"
    """A hidden folder in which something further down is not hidden: it may be passed through."""
    PRIVATE = "private"
    """A folder of the sandbox's own in its place."""


class Mount(NamedTuple):
    """One path that gets a mount of its own."""

    path: str
    kind: Kind


class Layout(NamedTuple):
    """A file system.

    Attributes:
        root: What may be done where no mount speaks.
        mounts: Outer ones first.
        placeholders: Folders that do not exist and have to, so that there is something to mount over; also among the mounts.
        links: Symlinks right below the root by name, where the root is hidden and they lead to something that is not.
        devices: The machine's own devices, in place of a few harmless ones.
    """

    root: AccessMode
    mounts: tuple[Mount, ...]
    placeholders: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    devices: bool = False


_UNLIMITED = Layout(AccessMode.WRITE, (), devices=True)


def layout_of(access: FileAccess) -> Layout:
    """The file system for an access, as files stand now.

    Raises:
        SandboxError: Mounts cannot enforce it: a protected symlink could be replaced, or too much matches.
    """
    if access.full:
        return _UNLIMITED
    return _Maker(access).layout()


class _Maker:
    def __init__(self, access: FileAccess) -> None:
        self._access = access
        self._root = access.mode_of(Path("/"))
        self._wanted: dict[str, AccessMode] = {}
        self._pinned: set[str] = set()
        self._placeholders: list[str] = []

    def layout(self) -> Layout:
        for rule in self._access.rules:
            self._want(str(rule.path), self._access.mode_of(rule.path), ruled=True)
        for path in self._matches():
            self._want(path, AccessMode.DENY, ruled=False)
        self._pin()
        mounts = tuple(self._mounts())
        return Layout(self._root, mounts, tuple(self._placeholders), tuple(self._links(mounts)))

    def _matches(self) -> Iterator[str]:
        """What exists and is denied by a pattern, apart from links: what a link leads to is judged by its own path."""
        access = self._access
        if not access.denied_globs:
            return
        shown = [str(rule.path) for rule in access.rules if rule.access is not AccessMode.DENY]
        found = expand(access.denied_globs, access.glob_depth, reopened=shown)
        yield from (
            path for path in found if not os.path.islink(path) and access.mode_of(Path(path)) is AccessMode.DENY
        )

    def _want(self, path: str, mode: AccessMode, *, ruled: bool) -> None:
        """Note a path, or what has to stand in its place where it does not exist."""
        if path == "/":
            return
        try:
            form = os.lstat(path).st_mode
        except OSError:
            self._want_missing(path, mode)
            return
        if is_placeholder(path):  # that of another command: it has to be held by this one too
            self._want_missing(path, mode)
            return
        if stat.S_ISLNK(form):
            self._refuse_link(path, mode, ruled=ruled)
            return
        self._wanted[path] = mode

    def _want_missing(self, path: str, mode: AccessMode) -> None:
        """Hold the place of something that may not come into being. Only the first missing folder on the way can be held."""
        if mode is AccessMode.WRITE:
            return
        while not os.path.lexists(above := os.path.dirname(path)) or is_placeholder(above):
            path = above
        if not os.path.isdir(above) or self._hidden_by_private(path):
            return
        if self._access.mode_of(Path(above)) is AccessMode.WRITE and os.access(above, os.W_OK):
            if path not in self._placeholders:
                self._placeholders.append(path)
            self._wanted[path] = AccessMode.READ

    def _refuse_link(self, path: str, mode: AccessMode, *, ruled: bool) -> None:
        writable = self._access.mode_of(Path(path).parent) is AccessMode.WRITE
        if ruled and mode is not AccessMode.WRITE and (writable or mode is AccessMode.DENY):
            raise SandboxError(
                f"{path} is a symlink, and bubblewrap cannot keep a symlink from being replaced or read",
                hint="put the file or folder itself there, or let another sandbox confine commands (`[framework] sandbox`)",
            )

    def _hidden_by_private(self, path: str) -> bool:
        """Whether the sandbox's own /tmp stands in front of a path."""
        if not self._private or not _below(path, _PRIVATE):
            return False
        return not any(
            _below(path, kept) and _below(kept, _PRIVATE)
            for kept, mode in self._wanted.items()
            if mode != AccessMode.DENY
        )

    @property
    def _private(self) -> bool:
        return self._access.private_tmp and self._access.mode_of(Path(_PRIVATE)) is AccessMode.WRITE

    def _pin(self) -> None:
        """Give the folders between a writable one and what is kept in it a mount too.

        A mount point cannot be renamed, so nobody can move what is kept away with its parent and put something else there.
        """
        for path in [path for path, mode in self._wanted.items() if mode is not AccessMode.WRITE]:
            for above in map(str, Path(path).parents):
                if above == "/" or above in self._wanted or self._access.mode_of(Path(above)) is not AccessMode.WRITE:
                    break
                self._wanted[above] = AccessMode.WRITE
                self._pinned.add(above)

    def _mounts(self) -> Iterator[Mount]:
        made: dict[str, AccessMode] = {}
        if self._private:
            self._wanted.pop(_PRIVATE, None)
        ordered = sorted(self._wanted, key=lambda path: (path.count("/"), path))
        needed: list[tuple[str, AccessMode]] = []
        if self._private:
            made[_PRIVATE] = AccessMode.WRITE
        for path in ordered:
            mode = self._wanted[path]
            around = next((made[above] for above in map(str, Path(path).parents) if above in made), self._root)
            own = self._private and _below(path, _PRIVATE)
            if mode is around and path not in self._pinned and not own:
                continue
            if own and self._hidden_by_private(path) and mode is AccessMode.DENY:
                continue
            made[path] = mode
            needed.append((path, mode))
        shown = [path for path, mode in needed if mode is not AccessMode.DENY]
        if self._private:
            yield Mount(_PRIVATE, Kind.PRIVATE)
        for path, mode in needed:
            yield Mount(path, _kind(path, mode, passable=any(_below(one, path) for one in shown)))

    def _links(self, mounts: tuple[Mount, ...]) -> Iterator[tuple[str, str]]:
        if self._root is not AccessMode.DENY:
            return
        shown = [mount.path for mount in mounts if mount.kind in (Kind.WRITABLE, Kind.READABLE)]
        for entry in sorted(os.scandir("/"), key=lambda entry: entry.name):
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if any(real == path or _below(real, path) or _below(path, real) for path in shown):
                    yield entry.path, os.readlink(entry.path)


def _kind(path: str, mode: AccessMode, *, passable: bool) -> Kind:
    if mode is AccessMode.WRITE:
        return Kind.WRITABLE
    if mode is AccessMode.READ:
        return Kind.READABLE
    if not os.path.isdir(path):
        return Kind.HIDDEN_FILE
    return Kind.PASSABLE if passable else Kind.HIDDEN_FOLDER


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith("/") else f"{folder}/")
