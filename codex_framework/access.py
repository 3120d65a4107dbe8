"""A thread's permissions, realised: which real paths a turn may read and write, and which it may not.

Profiles are symbolic ("the workspace", "the temp folder"); :func:`file_access` looks at the file system once per turn and gives
a frozen :class:`~codex_framework.roles.sandboxes.FileAccess`, by which file tools decide and sandboxes plan.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from codex_framework.globs import has_wildcards, static_prefix
from codex_framework.permissions import Permissions
from codex_framework.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    DisabledPermissions,
    ExternalPermissions,
    FileEntry,
    GlobPattern,
    NetworkPermission,
    PermissionProfile,
    RestrictedFiles,
    Special,
    SpecialPath,
)
from codex_framework.roles.sandboxes import PROTECTED_NAMES, FileAccess, NetworkMode, PathRule

__all__ = ["FileAccess", "deny_write_text", "file_access"]

_POINTER_LIMIT = 64 * 1024
"""Bytes read of a ``.git`` file; a real one has a single line."""

_MINIMAL = (
    ("/bin", "/sbin", "/usr", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system/sw")
    if sys.platform != "darwin"
    else ("/bin", "/sbin", "/usr", "/etc", "/dev", "/System", "/Library/Apple", "/Library/Frameworks")
)
"""What programs need of the system in order to run at all (``:minimal``; Codex's list, where it has one)."""

_OWN_CODE = str(Path(__file__).resolve().parent.parent)
"""Where this package lies, with the plugins beside it."""

_SEVERITY = {AccessMode.READ: 0, AccessMode.WRITE: 1, AccessMode.DENY: 2}

_UNLIMITED = FileAccess(full=True, network=NetworkMode.ON)
_interned: dict[FileAccess, FileAccess] = {}
_INTERNED_LIMIT = 64


def file_access(permissions: Permissions, cwd: Path, environ: Mapping[str, str]) -> FileAccess:
    """Realise permissions for a turn in ``cwd``.

    Equal answers are one object, so that plans can be found by identity. Some 30 system calls; nothing is written.

    Args:
        permissions: The thread's.
        cwd: The turn's folder, absolute.
        environ: The environment commands get; ``TMPDIR`` and ``HOME`` are read.
    """
    profile = permissions.profile
    if isinstance(profile, DisabledPermissions | ExternalPermissions):
        return _UNLIMITED
    network = _network_mode(profile, permissions)
    options = permissions.options
    rules = permissions.network_rules if network is NetworkMode.PROXY else None
    files = profile.file_system
    if isinstance(files, RestrictedFiles):
        places = _Places(cwd, permissions.workspace_roots, environ)
        access = _restricted(files, places).evolve(network=network, network_rules=rules)
    else:
        access = FileAccess(full=True, network=network, network_rules=rules)
    access = access.evolve(floor=options.floor, limits=options.limits, private_tmp=options.private_tmp)
    if len(_interned) >= _INTERNED_LIMIT:
        _interned.clear()
    return _interned.setdefault(access, access)


def deny_write_text(access: FileAccess) -> str:
    """The words with which a write outside of ``access`` is refused to the model."""
    return "writing outside of the project" if access.roots else "writing is blocked by read-only sandbox"


def _network_mode(profile: PermissionProfile, permissions: Permissions) -> NetworkMode:
    if profile.network is NetworkPermission.RESTRICTED:  # type: ignore[union-attr]  # managed ones only get here
        return NetworkMode.LOOPBACK if permissions.options.loopback else NetworkMode.OFF
    return NetworkMode.ON if permissions.network_rules is None else NetworkMode.PROXY


class _Places:
    """Where symbolic places are, for one turn."""

    def __init__(self, cwd: Path, roots: Iterable[str], environ: Mapping[str, str]) -> None:
        self.cwd = str(cwd)
        self.home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
        self.workspace = (self.cwd, *roots)
        self.tmpdir = environ.get("TMPDIR", "")

    def of(self, path: AbsolutePath | SpecialPath) -> Iterator[str]:
        """The paths a place stands for, not yet real."""
        if isinstance(path, AbsolutePath):
            yield self.absolute(path.path)
            return
        match path.kind:
            case Special.ROOT:
                yield "/"
            case Special.MINIMAL:
                yield from _MINIMAL
                yield from (sys.prefix, sys.base_prefix, _OWN_CODE)  # helpers of plugins are Python programs
            case Special.WORKSPACE_ROOTS:
                yield from (os.path.join(root, path.subpath or "") for root in self.workspace)  # noqa: PTH118
            case Special.SLASH_TMP:
                yield from ["/tmp"] if os.path.isdir("/tmp") else []  # noqa: PTH112, S108
            case Special.TMPDIR:
                yield from [self.tmpdir] if os.path.isabs(self.tmpdir) else []  # noqa: PTH117
            case Special.UNKNOWN:
                pass

    def absolute(self, text: str) -> str:
        """A path of an entry, with the person's home in place of ``~``."""
        if text == "~" or text.startswith("~/"):
            return self.home + text[1:]
        return os.path.join(self.cwd, os.path.expanduser(text))  # noqa: PTH111, PTH118

    def patterns(self, path: GlobPattern | SpecialPath) -> Iterator[str]:
        """Patterns with a real beginning."""
        if isinstance(path, GlobPattern):
            given: Iterable[str] = (self.absolute(path.pattern),)
        else:
            given = self.of(path)
        for pattern in given:
            start = static_prefix(pattern)
            rest = pattern[len(start) :].lstrip("/")
            yield f"{os.path.realpath(start).rstrip('/')}/{rest}"


def _restricted(files: RestrictedFiles, places: _Places) -> FileAccess:
    modes: dict[str, AccessMode] = {}
    globs: dict[str, None] = {}
    for entry in files.entries:
        if _is_pattern(entry):
            if entry.access is AccessMode.DENY:
                assert not isinstance(entry.path, AbsolutePath)
                globs |= dict.fromkeys(places.patterns(entry.path))
            continue
        assert not isinstance(entry.path, GlobPattern)
        for place in places.of(entry.path):
            if "\0" in place:
                continue
            path = os.path.realpath(place)
            if path not in modes or _SEVERITY[entry.access] > _SEVERITY[modes[path]]:
                modes[path] = entry.access
    otherwise = modes.pop("/", AccessMode.DENY)
    if otherwise is AccessMode.WRITE:
        modes["/"], otherwise = AccessMode.WRITE, AccessMode.READ
    _protect(modes)
    return FileAccess(
        rules=tuple(PathRule(Path(path), mode) for path, mode in sorted(modes.items())),
        otherwise=otherwise,
        denied_globs=tuple(globs),
        glob_depth=files.glob_scan_max_depth,
    )


def _is_pattern(entry: FileEntry) -> bool:
    if isinstance(entry.path, SpecialPath):
        return has_wildcards(entry.path.subpath or "")
    return isinstance(entry.path, GlobPattern)


def _protect(modes: dict[str, AccessMode]) -> None:
    """Keep protected names below every root that may be written, unless an entry speaks of that very path.

    A path that would not be writable anyway is left as it is: a rule may take away, but not give.
    """
    roots = [path for path, mode in modes.items() if mode is AccessMode.WRITE]
    for path in dict.fromkeys(kept for root in roots for kept in _protected(root)):
        if path not in modes and _mode(modes, path) is AccessMode.WRITE:
            modes[path] = AccessMode.READ


def _mode(modes: Mapping[str, AccessMode], path: str) -> AccessMode | None:
    while path not in modes:
        above = os.path.dirname(path)  # noqa: PTH120
        if above == path:
            return None
        path = above
    return modes[path]


def _protected(root: str) -> Iterator[str]:
    for name in PROTECTED_NAMES:
        path = os.path.join(root, name)  # noqa: PTH118
        yield path
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(mode):  # both the link and what it leads to
            path = os.path.realpath(path)
            yield path
        if name == ".git" and not stat.S_ISDIR(mode):
            yield from _pointed_folders(path)


def _pointed_folders(pointer: str) -> Iterator[str]:
    """Where a ``gitdir: FOLDER`` file points, and the repository that a linked worktree there shares."""
    target = _first_line(pointer)
    if not target.startswith("gitdir:"):
        return
    folder = os.path.realpath(os.path.join(os.path.dirname(pointer), target.removeprefix("gitdir:").strip()))  # noqa: PTH118, PTH120
    yield folder
    common = _first_line(os.path.join(folder, "commondir"))  # noqa: PTH118
    if common:
        yield os.path.realpath(os.path.join(folder, common))  # noqa: PTH118


def _first_line(path: str) -> str:
    """The first line of a small regular file, or ``""`` where there is none to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        data = os.read(descriptor, _POINTER_LIMIT)
    finally:
        os.close(descriptor)
    line = os.fsdecode(data).split("\n", 1)[0].strip()
    return "" if "\0" in line else line
