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
from typing import NamedTuple

from codex_framework.errors import CodexError
from codex_framework.globs import alternatives, deny_matcher, escaped, has_wildcards, static_prefix
from codex_framework.links import RealPaths, links_on_the_way
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

_PROTECTED_IF_PRESENT = ".aws"
"""Credentials that Codex 0.169 protects as well; where there are none, nothing stands in the way of making some."""

_SEVERITY = {AccessMode.READ: 0, AccessMode.WRITE: 1, AccessMode.DENY: 2}
"""Which of two entries for one path counts."""

_GIVES = {AccessMode.DENY: 0, AccessMode.READ: 1, AccessMode.WRITE: 2}

_UNLIMITED = FileAccess(full=True, network=NetworkMode.ON)
_interned: dict[tuple[object, ...], FileAccess] = {}
_INTERNED_LIMIT = 256


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
    network_rules = permissions.network_rules if network is NetworkMode.PROXY else None
    files = profile.file_system
    found = None
    if isinstance(files, RestrictedFiles):
        found = _restricted(permissions, files, _Places(cwd, permissions.workspace_roots, environ))
    key = (found, network, network_rules, options.floor, options.limits, options.private_tmp)
    access = _interned.get(key)  # the strings of a key are hashed and compared faster than the paths of an access
    if access is not None:
        return access
    access = FileAccess(
        full=found is None,
        network=network,
        network_rules=network_rules,
        floor=options.floor,
        limits=options.limits,
        private_tmp=options.private_tmp,
    )
    if found is not None:
        access = access.evolve(
            rules=tuple(PathRule(Path(path), mode) for path, mode in found.modes),
            otherwise=found.otherwise,
            denied_globs=found.globs,
            glob_depth=found.depth,
        )
    if len(_interned) >= _INTERNED_LIMIT:
        _interned.clear()
    return _interned.setdefault(key, access)


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
        homes = (environ.get("HOME", ""), os.path.expanduser("~"))  # noqa: PTH111
        self.home = next((home for home in homes if os.path.isabs(home)), None)  # noqa: PTH117
        self.workspace = (self.cwd, *(place for root in roots for place in self._absolute(root)))
        self.tmpdir = environ.get("TMPDIR", "")

    def of(self, path: AbsolutePath | SpecialPath) -> Iterator[str]:
        """The paths a place stands for, not yet real."""
        if isinstance(path, AbsolutePath):
            yield from self._absolute(path.path)
            return
        if _leads_out(path.subpath):
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

    def _absolute(self, text: str) -> Iterator[str]:
        """A path of an entry, with the person's home in place of ``~``; nothing where that is not known."""
        if text != "~" and not text.startswith("~/"):
            yield os.path.join(self.cwd, text)  # noqa: PTH118
        elif self.home is not None:
            yield self.home + text[1:]

    def patterns(self, path: GlobPattern | SpecialPath) -> Iterator[str]:
        """Patterns with a real beginning, in the plain notation of :mod:`codex_framework.globs`."""
        text = path.pattern if isinstance(path, GlobPattern) else path.subpath or ""
        if isinstance(path, SpecialPath) and _leads_out(text):
            raise _cannot_hold(f"the pattern {text!r} does not lie below the workspace")
        bases: Iterable[str] = self.workspace if isinstance(path, SpecialPath) else (self.cwd,)
        if isinstance(path, GlobPattern) and text.startswith("~/"):
            if self.home is None:
                raise _cannot_hold(f"the home folder of {text!r} is not known")
            bases, text = (self.home,), text[2:]
        for pattern in _alternatives(text):
            for base in bases:
                yield _with_real_beginning(os.path.join(escaped(base), pattern))  # noqa: PTH118


def _with_real_beginning(pattern: str) -> str:
    start = static_prefix(pattern)
    rest = pattern.split("/")[start.rstrip("/").count("/") + 1 :]
    parts = [part for part in rest if part not in ("", ".")]
    return "/".join((escaped(os.path.realpath(start).rstrip("/")), *parts))


def _alternatives(pattern: str) -> tuple[str, ...]:
    try:
        return alternatives(pattern)
    except ValueError as error:
        raise _cannot_hold(f"the pattern {pattern!r} is wrong: {error}") from error


def _cannot_hold(fact: str) -> CodexError:
    return CodexError(
        f"the permission profile denies something that cannot be kept here: {fact}",
        slug="permissions",
        hint="Correct the profile, or update codex-framework if a newer version knows what is meant.",
    )


class _Found(NamedTuple):
    """What entries come to: real paths with their modes, in order, what holds for the rest, and patterns."""

    modes: tuple[tuple[str, AccessMode], ...]
    otherwise: AccessMode
    globs: tuple[str, ...]
    depth: int | None


class _Given(NamedTuple):
    """An entry's place, not yet real. ``chosen``: a person chose the folder, and what links on the way to it do is their choice."""

    place: str
    access: AccessMode
    chosen: bool = False


def _restricted(permissions: Permissions, files: RestrictedFiles, places: _Places) -> _Found:
    real = RealPaths()
    globs: dict[str, None] = {}
    given: list[_Given] = []
    for entry in (*files.entries, *(one for one in permissions.granted if one.access is AccessMode.DENY)):
        if _is_pattern(entry):
            assert not isinstance(entry.path, AbsolutePath)
            for pattern in places.patterns(entry.path) if entry.access is AccessMode.DENY else ():
                path = static_prefix(pattern)
                if escaped(path) == pattern:  # nothing of it is a wildcard
                    given.append(_Given(path, entry.access))
                else:
                    globs[pattern] = None
            continue
        assert not isinstance(entry.path, GlobPattern)
        found = [place for place in places.of(entry.path) if "\0" not in place]
        if entry.access is AccessMode.DENY and not found and _has_to_be_somewhere(entry.path):
            raise _cannot_hold(f"the place {_named(entry.path)!r} is not known")
        chosen = isinstance(entry.path, SpecialPath) and not entry.path.subpath
        given += [_Given(place, entry.access, chosen) for place in found]
    modes, links = _modes(given, real)
    for entry in permissions.granted:
        if entry.access is not AccessMode.DENY and not _is_pattern(entry):
            assert not isinstance(entry.path, GlobPattern)
            for place in places.of(entry.path):
                _grant(modes, tuple(globs), place, entry.access)
    otherwise = modes.pop("/", AccessMode.DENY)
    if otherwise is AccessMode.WRITE:
        modes["/"], otherwise = AccessMode.WRITE, AccessMode.READ
    _protect(modes, links)
    return _Found(tuple(sorted(modes.items())), otherwise, tuple(globs), files.glob_scan_max_depth)


def _modes(given: Iterable[_Given], real: RealPaths) -> tuple[dict[str, AccessMode], list[str]]:
    """What may be done with each real path, and the links by which something denied is reached."""
    modes: dict[str, AccessMode] = {}
    links: list[str] = []
    later: list[tuple[str, str, AccessMode]] = []
    for place, access, chosen in given:
        path = real(place)
        straight = path == place or path == os.path.normpath(place)
        if access is AccessMode.DENY and not straight:
            links += links_on_the_way(place)
        if straight or chosen or access is AccessMode.DENY:
            if path not in modes or _SEVERITY[access] > _SEVERITY[modes[path]]:
                modes[path] = access
        else:
            later.append((place, path, access))
    for place, path, access in later:
        now = _mode(modes, path) or AccessMode.DENY
        if _GIVES[access] > _GIVES[now] and _can_be_turned(modes, place):
            continue
        if path not in modes or _SEVERITY[access] > _SEVERITY[modes[path]]:
            modes[path] = access
    return modes, links


def _grant(modes: dict[str, AccessMode], globs: tuple[str, ...], place: str, access: AccessMode) -> None:
    """Let something more be done with a place, unless it is denied by name or a link there could be turned elsewhere."""
    if "\0" in place:
        return
    path = os.path.realpath(place)
    now = _mode(modes, path)
    matches = deny_matcher(globs)
    if matches is not None and any(map(matches, (*_upwards(path), *_upwards(os.path.normpath(place))))):
        return
    if _GIVES[access] <= _GIVES[now or AccessMode.DENY] or _can_be_turned(modes, place):
        return
    if now is not AccessMode.DENY or _is_default(modes, path):
        modes[path] = access


def _is_default(modes: Mapping[str, AccessMode], path: str) -> bool:
    """Whether no entry but that of the root speaks of a path."""
    return not any(at in modes for at in _upwards(path) if at != "/")


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)  # noqa: PTH120
        if above == path:
            return
        path = above


def _can_be_turned(modes: Mapping[str, AccessMode], place: str) -> bool:
    """Whether a link on the way to a place lies where commands may write, so that it may lead to anywhere next time."""
    return any(_mode(modes, os.path.dirname(link)) is AccessMode.WRITE for link in links_on_the_way(place))  # noqa: PTH120


def _is_pattern(entry: FileEntry) -> bool:
    if isinstance(entry.path, SpecialPath):
        return has_wildcards(entry.path.subpath or "")
    return isinstance(entry.path, GlobPattern)


def _leads_out(subpath: str | None) -> bool:
    return subpath is not None and (subpath.startswith("/") or ".." in subpath.split("/"))


def _has_to_be_somewhere(path: AbsolutePath | SpecialPath) -> bool:
    """Whether a place that was not found may exist all the same: the home of nobody, a word of a newer version."""
    if isinstance(path, AbsolutePath):
        return path.path.startswith("~")
    return path.kind is Special.UNKNOWN or _leads_out(path.subpath)


def _named(path: AbsolutePath | SpecialPath) -> str:
    if isinstance(path, AbsolutePath):
        return path.path
    return path.path or path.subpath or path.kind.value


def _protect(modes: dict[str, AccessMode], links: Iterable[str]) -> None:
    """Keep protected names below every root that may be written, unless an entry speaks of that very path; and links.

    A path that would not be writable anyway is left as it is: a rule may take away, but not give.
    """
    roots = [path for path, mode in modes.items() if mode is AccessMode.WRITE]
    for path in dict.fromkeys((*(kept for root in roots for kept in _protected(root)), *links)):
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
    for name in (*PROTECTED_NAMES, _PROTECTED_IF_PRESENT):
        path = os.path.join(root, name)  # noqa: PTH118
        try:
            mode = os.lstat(path).st_mode
        except NotADirectoryError:  # the root is a file
            return
        except (OSError, ValueError):
            if name != _PROTECTED_IF_PRESENT:
                yield path
            continue
        yield path
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
