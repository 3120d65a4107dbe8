"""Computes the mounts that enforce a turn's access. Reads the file system without changing it."""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.globs import expand
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.toolkit.placeholders import is_placeholder
from codex_lib_confinement.paths import is_below

__all__ = ["Kind", "Mount", "MountPlan"]


class Kind(enum.Enum):
    """The effect of a mount on its path."""

    WRITABLE = "writable"
    READABLE = "readable"
    HIDDEN_FILE = "hidden file"
    HIDDEN_FOLDER = "hidden folder"
    PASSABLE = "passable"
    """A hidden folder that contains visible paths further down, so commands may pass through it."""
    PRIVATE = "private"
    """A writable folder of the sandbox in place of the real one."""


class Mount(NamedTuple):
    """A path with a separate mount."""

    path: str
    kind: Kind


class MountPlan:
    """Collects the modes of paths, and returns the mounts that enforce them.

    Derive a class from it for a sandbox that differs in :meth:`could_create`, :meth:`needs_mount` or :meth:`refuses_link`.

    Args:
        access: The permissions.
        outside: The mode of paths that are below no mount.

    Attributes:
        wanted: The mode of each path that is noted so far.
        placeholders: Missing folders that must be created, so that there is something to mount over. They are wanted too.
    """

    def __init__(self, access: FileAccess, outside: AccessMode) -> None:
        self.access = access
        self.outside = outside
        self.wanted: dict[str, AccessMode] = {}
        self.placeholders: list[str] = []
        self._pinned: set[str] = set()

    def want(self, path: str, mode: AccessMode) -> None:
        """Note a path, or a placeholder for it if it does not exist and must not be created.

        Raises:
            SandboxError: The path is a symlink, and mounts cannot protect it.
        """
        if path == "/":
            return
        try:
            form = os.lstat(path).st_mode
        except OSError:
            self._want_missing(path, mode)
            return
        if is_placeholder(path):  # that of another command, so this one must hold it too
            self._want_missing(path, mode)
        elif not stat.S_ISLNK(form):
            self.wanted[path] = mode
        elif self.refuses_link(path, mode):
            raise SandboxError(
                f"{path} is a symlink, and a mount cannot protect a symlink from being replaced or read",
                hint="replace it by the file or folder itself, or use another sandbox (`[framework] sandbox`)",
            )

    def want_matches(self, reopened: Iterable[str]) -> None:
        """Note the existing matches of denied patterns. Symlinks are skipped, because their targets are judged by their own paths.

        Args:
            reopened: Paths that may be reached although they are below a match.

        Raises:
            SandboxError: A pattern matches too many paths.
        """
        if not self.access.denied_globs:
            return
        for path in expand(self.access.denied_globs, self.access.glob_depth, reopened=reopened):
            if not os.path.islink(path) and self.mode_of(path) is AccessMode.DENY:  # noqa: PTH114
                self.want(path, AccessMode.DENY)

    def mounts(self, regions: Mapping[str, AccessMode] | None = None) -> Iterator[Mount]:
        """Return the mounts, outer ones first.

        Args:
            regions: Folders that the sandbox mounts in any case, with their modes.
        """
        self._pin()
        made = dict(regions or {})
        needed: dict[str, AccessMode] = {}
        for path in sorted(self.wanted, key=lambda path: (path.count("/"), path)):
            mode = self.wanted[path]
            around = next((made[above] for above in map(str, Path(path).parents) if above in made), self.outside)
            if self.needs_mount(path, mode, around):
                made[path] = needed[path] = mode
        shown = [path for path, mode in needed.items() if mode is not AccessMode.DENY]
        for path, mode in needed.items():
            yield Mount(path, _kind(path, mode, passable=any(is_below(visible, path) for visible in shown)))

    def mode_of(self, path: str) -> AccessMode:
        """Return the mode that the access has for a path."""
        return self.access.mode_of(Path(path))

    def could_create(self, path: str) -> bool:
        """Return whether commands could create a missing path, given that its parent is a writable folder outside."""
        del path
        return True

    def needs_mount(self, path: str, mode: AccessMode, around: AccessMode) -> bool:
        """Return whether a path needs a mount in surroundings of this mode."""
        return mode is not around or path in self._pinned

    def refuses_link(self, path: str, mode: AccessMode) -> bool:
        """Return whether a symlink makes it impossible to enforce this mode for its path."""
        return mode is not AccessMode.WRITE and self.mode_of(os.path.dirname(path)) is AccessMode.WRITE  # noqa: PTH120

    def _want_missing(self, path: str, mode: AccessMode) -> None:
        """Note a placeholder for a path that must not be created; if parents are missing as well, for the uppermost of them."""
        if mode is AccessMode.WRITE:
            return
        while not os.path.lexists(above := os.path.dirname(path)) or is_placeholder(above):  # noqa: PTH120
            path = above
        if not os.path.isdir(above) or not self.could_create(path):  # noqa: PTH112
            return
        if self.mode_of(above) is AccessMode.WRITE and os.access(above, os.W_OK):
            if path not in self.placeholders:
                self.placeholders.append(path)
            self.wanted[path] = AccessMode.READ

    def _pin(self) -> None:
        """Give the folders between a writable folder and a protected path in it a mount too.

        A mount point cannot be renamed, so the protected path cannot be moved away with its parent and replaced.
        """
        for path in [path for path, mode in self.wanted.items() if mode is not AccessMode.WRITE]:
            for above in map(str, Path(path).parents):
                if above == "/" or above in self.wanted or self.mode_of(above) is not AccessMode.WRITE:
                    break
                self.wanted[above] = AccessMode.WRITE
                self._pinned.add(above)


def _kind(path: str, mode: AccessMode, *, passable: bool) -> Kind:
    if mode is AccessMode.WRITE:
        return Kind.WRITABLE
    if mode is AccessMode.READ:
        return Kind.READABLE
    if not os.path.isdir(path):  # noqa: PTH112
        return Kind.HIDDEN_FILE
    return Kind.PASSABLE if passable else Kind.HIDDEN_FOLDER
