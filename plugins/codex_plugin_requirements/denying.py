"""Permissions in which some paths are denied, whatever a profile, a workspace or an approval permits there.

In a profile the longest path decides, so paths below a denied path could be allowed again. Here they are denied as well.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from codex_framework.contract.permissions.globs import alternatives, has_wildcards, regex_of
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    FileEntry,
    FilePath,
    GlobPattern,
    ManagedPermissions,
    NetworkPermission,
    RestrictedFiles,
    Special,
    SpecialPath,
)

__all__ = ["Within", "denying"]

_DENY = AccessMode.DENY
_ROOT = SpecialPath(Special.ROOT)


def denying(permissions: Permissions, paths: Iterable[str], cwd: Path) -> Permissions:
    """Return permissions in which paths and patterns are denied, with everything below them.

    Args:
        cwd: The working folder, which is the workspace.
    """
    paths = tuple(paths)
    denied = tuple(FileEntry(_named_path(path), _DENY) for path in paths)
    profile = permissions.profile
    files = profile.file_system if isinstance(profile, ManagedPermissions) else None
    if not isinstance(files, RestrictedFiles):
        network = getattr(profile, "network", NetworkPermission.ENABLED)
        entries = (FileEntry(_ROOT, AccessMode.WRITE), *denied)
        return permissions.evolve(profile=ManagedPermissions(RestrictedFiles(entries), network))
    roots = (str(cwd), *(home_expanded(root) for root in permissions.workspace_roots))
    within = Within(paths)
    held = _without_denied(files.entries, roots, within)
    granted = _without_denied(permissions.granted, roots, within)
    kept = tuple(dict.fromkeys((*held, *denied)))
    if kept == files.entries and granted == permissions.granted:
        return permissions
    return permissions.evolve(profile=profile.evolve(file_system=files.evolve(entries=kept)), granted=granted)


def _named_path(path: str) -> FilePath:
    return GlobPattern(path) if has_wildcards(path) else AbsolutePath(path)


class Within:
    """Decides whether a path is one of these, matches one of them, or is below one."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: set[str] = set()
        self._patterns: list[re.Pattern[str]] = []
        for path in map(home_expanded, paths):
            if has_wildcards(path):
                self._patterns += (re.compile(regex_of(each)) for each in alternatives(path))
            else:
                self._paths |= {os.path.normpath(path), os.path.realpath(path)}

    def __contains__(self, path: str) -> bool:
        return self.has_real(path) or self.has_real(os.path.realpath(path))

    def has_real(self, path: str) -> bool:
        """Return whether a path without symlinks is one of these, matches one, or is below one."""
        return any(self._has(str(place)) for place in _upwards(path))

    def _has(self, path: str) -> bool:
        return path in self._paths or any(pattern.fullmatch(path) for pattern in self._patterns)


def _upwards(path: str) -> tuple[Path, ...]:
    whole = Path(os.path.normpath(path))
    return (whole, *whole.parents)


def _without_denied(entries: tuple[FileEntry, ...], roots: Iterable[str], within: Within) -> tuple[FileEntry, ...]:
    """Return entries without permissions for denied paths.

    A special path to a denied place gets an entry that denies the place.
    """
    found: list[FileEntry] = []
    for entry in entries:
        places = [] if entry.access is _DENY else [place for place in _places(entry.path, roots) if place in within]
        if places and isinstance(entry.path, AbsolutePath):
            found.append(entry.evolve(access=_DENY))
            continue
        found.append(entry)
        found += (FileEntry(AbsolutePath(place), _DENY) for place in places)
    return tuple(dict.fromkeys(found))


def _places(path: FilePath, roots: Iterable[str]) -> Iterator[str]:
    """Yield the paths that a path of an entry means, without paths that contain everything."""
    match path:
        case AbsolutePath(text):
            yield home_expanded(text)
        case SpecialPath(Special.WORKSPACE_ROOTS, subpath):
            yield from (os.path.join(root, subpath or "") for root in roots)  # noqa: PTH118
        case SpecialPath(Special.SLASH_TMP, subpath):
            yield os.path.join("/tmp", subpath or "")  # noqa: PTH118, S108
        case SpecialPath(Special.TMPDIR, subpath):
            yield os.path.join(tempfile.gettempdir(), subpath or "")  # noqa: PTH118
        case _:
            return
