"""Resolution of a thread's permissions: the real paths that a turn may read and write.

Profiles are symbolic ("the workspace", "the temp folder"). :func:`file_access` reads the file system once per turn and returns
a frozen :class:`~codex_framework.contract.permissions.file_access.FileAccess`, which file tools check and sandboxes enforce.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from codex_framework.commands.protected_paths import ProtectedPaths, find_protected_paths, mode_at
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import (
    MINIMAL_PATHS,
    PROTECTED_NAMES,
    FileAccess,
    NetworkMode,
    PathRule,
)
from codex_framework.contract.permissions.globs import alternatives, deny_matcher, escaped, has_wildcards, static_prefix
from codex_framework.contract.permissions.links import RealPaths, links_on_the_way
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.permissions import (
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
from codex_framework.contract.value import Value
from codex_framework.toolkit.projects import repository_folders

__all__ = ["CREDENTIALS", "FileAccess", "deny_write_text", "file_access"]

_MINIMAL = (
    MINIMAL_PATHS
    if sys.platform != "darwin"
    else ("/bin", "/sbin", "/usr", "/etc", "/dev", "/System", "/Library/Apple", "/Library/Frameworks")
)
"""The parts of the system that programs need in order to run (``:minimal``; Codex's list, if it has one)."""

_OWN_CODE = str(Path(__file__).resolve().parent.parent)
"""The folder of this package and of the bundled plugins."""

CREDENTIALS = ".aws"
"""Credentials, which are protected like the names in ``PROTECTED_NAMES`` (as in Codex), but not named to the model."""

_SEVERITY = {AccessMode.READ: 0, AccessMode.WRITE: 1, AccessMode.DENY: 2}
"""The precedence of two entries for the same path."""

_GIVES = {AccessMode.DENY: 0, AccessMode.READ: 1, AccessMode.WRITE: 2}

_UNLIMITED = FileAccess(full=True, network=NetworkMode.ON)
_interned: dict[tuple[object, ...], FileAccess] = {}
_INTERNED_LIMIT = 256


def file_access(
    permissions: Permissions, cwd: Path, environ: Mapping[str, str], deciding: ProtectedPaths | None = None
) -> FileAccess:
    """Resolve permissions for a turn in ``cwd``.

    Equal results are the same object, so that plans can be looked up by identity. This takes about 30 system calls and writes
    nothing.

    Args:
        permissions: The permissions of the thread.
        cwd: The turn's working folder, as an absolute path.
        environ: The environment of commands. ``TMPDIR`` and ``HOME`` are read.
        deciding: The protected paths, which stay read-only. By default, the protected paths of this process, with the
            ``$CODEX_HOME`` of ``environ``.
    """
    profile = permissions.profile
    if isinstance(profile, DisabledPermissions | ExternalPermissions):
        return _UNLIMITED
    network = _network_mode(profile, permissions)
    if deciding is None:
        deciding = find_protected_paths(environ=environ)
    deciding = deciding.at(cwd)
    options = permissions.options
    network_rules = permissions.network_rules if network is NetworkMode.PROXY else None
    files = profile.file_system
    resolved = None
    if isinstance(files, RestrictedFiles):
        places = _Places(cwd, permissions.workspace_roots, environ)
        resolved = _resolve_restrictions(permissions, files, places, deciding)
    elif network is not NetworkMode.ON:  # otherwise nothing is confined
        modes = {"/": AccessMode.WRITE}
        deciding.make_read_only(modes)
        resolved = _Resolved(tuple(sorted(modes.items())), AccessMode.READ, (), None)
    key = (resolved, network, network_rules, options.floor, options.limits, options.private_tmp, options.fixed)
    access = _interned.get(key)  # strings are hashed and compared faster than the paths of an access
    if access is not None:
        return access
    access = FileAccess(
        full=resolved is None,
        network=network,
        network_rules=network_rules,
        floor=options.floor,
        limits=options.limits,
        private_tmp=options.private_tmp,
        fixed=options.fixed,
    )
    if resolved is not None:
        access = access.evolve(
            rules=tuple(PathRule(Path(path), mode) for path, mode in resolved.modes),
            otherwise=resolved.otherwise,
            denied_globs=resolved.globs,
            glob_depth=resolved.depth,
        )
    if len(_interned) >= _INTERNED_LIMIT:
        _interned.clear()
    return _interned.setdefault(key, access)


def deny_write_text(access: FileAccess) -> str:
    """Return the text that tells the model that a write outside of ``access`` was refused."""
    return "writing outside of the project" if access.roots else "writing is blocked by read-only sandbox"


def _network_mode(profile: PermissionProfile, permissions: Permissions) -> NetworkMode:
    if profile.network is NetworkPermission.RESTRICTED:  # type: ignore[union-attr]  # only managed profiles get here
        return NetworkMode.LOOPBACK if permissions.options.loopback else NetworkMode.OFF
    return NetworkMode.ON if permissions.network_rules is None else NetworkMode.PROXY


class _Places:
    """The real locations of symbolic paths in one turn."""

    def __init__(self, cwd: Path, roots: Iterable[str], environ: Mapping[str, str]) -> None:
        self.cwd = str(cwd)
        homes = (environ.get("HOME", ""), os.path.expanduser("~"))  # noqa: PTH111
        self.home = next((home for home in homes if os.path.isabs(home)), None)  # noqa: PTH117
        self.workspace = (self.cwd, *(place for root in roots for place in self._absolute(root)))
        self.tmpdir = environ.get("TMPDIR", "")

    def of(self, path: AbsolutePath | SpecialPath) -> Iterator[str]:
        """Yield the paths that an entry names. Symlinks are not resolved yet."""
        if isinstance(path, AbsolutePath):
            yield from self._absolute(path.path)
            return
        if _leaves_base(path.subpath):
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
        """Yield the absolute path of an entry, with ``~`` expanded; nothing if the home folder is unknown."""
        if text != "~" and not text.startswith("~/"):
            yield os.path.join(self.cwd, text)  # noqa: PTH118
        elif self.home is not None:
            yield self.home + text[1:]

    def patterns(self, path: GlobPattern | SpecialPath) -> Iterator[str]:
        """Yield patterns with a resolved prefix, in the plain notation of :mod:`codex_framework.contract.permissions.globs`."""
        text = path.pattern if isinstance(path, GlobPattern) else path.subpath or ""
        if isinstance(path, SpecialPath) and _leaves_base(text):
            raise _unenforceable(f"the pattern {text!r} is not below the workspace")
        bases: Iterable[str] = self.workspace if isinstance(path, SpecialPath) else (self.cwd,)
        if isinstance(path, GlobPattern) and text.startswith("~/"):
            if self.home is None:
                raise _unenforceable(f"the home folder in {text!r} is unknown")
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
        raise _unenforceable(f"the pattern {pattern!r} is invalid: {error}") from error


def _unenforceable(fact: str) -> CodexError:
    return CodexError(
        f"the permission profile denies something that cannot be enforced here: {fact}",
        slug="permissions",
        hint="Fix the profile. If a newer version of codex-framework supports it, update.",
    )


class _Resolved(Value):
    """Resolved entries: real paths with their modes in order, the mode of all other paths, and denied patterns."""

    modes: tuple[tuple[str, AccessMode], ...]
    otherwise: AccessMode
    globs: tuple[str, ...]
    depth: int | None


class _Given(Value):
    """The path of an entry, with symlinks not resolved yet.

    ``chosen`` means that the user chose this folder, so symlinks in its path are followed as the user's choice.
    """

    place: str
    access: AccessMode
    chosen: bool = False


def _resolve_restrictions(
    permissions: Permissions, files: RestrictedFiles, places: _Places, deciding: ProtectedPaths
) -> _Resolved:
    real = RealPaths()
    globs: dict[str, None] = {}
    given: list[_Given] = []
    for entry in (*files.entries, *(entry for entry in permissions.granted if entry.access is AccessMode.DENY)):
        if _is_pattern(entry):
            assert not isinstance(entry.path, AbsolutePath)
            for pattern in places.patterns(entry.path) if entry.access is AccessMode.DENY else ():
                path = static_prefix(pattern)
                if escaped(path) == pattern:  # it contains no wildcard
                    given.append(_Given(path, entry.access))
                else:
                    globs[pattern] = None
            continue
        assert not isinstance(entry.path, GlobPattern)
        paths = [place for place in places.of(entry.path) if "\0" not in place]
        if entry.access is AccessMode.DENY and not paths and _may_exist_anyway(entry.path):
            raise _unenforceable(f"the path {_path_text(entry.path)!r} is unknown")
        chosen = isinstance(entry.path, SpecialPath) and not entry.path.subpath
        given += [_Given(place, entry.access, chosen) for place in paths]
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
    deciding.make_read_only(modes)
    return _Resolved(tuple(sorted(modes.items())), otherwise, tuple(globs), files.glob_scan_max_depth)


def _modes(given: Iterable[_Given], real: RealPaths) -> tuple[dict[str, AccessMode], list[str]]:
    """Return the access mode of each real path, and the symlinks to denied paths."""
    modes: dict[str, AccessMode] = {}
    links: list[str] = []
    later: list[tuple[str, str, AccessMode]] = []
    for each in given:
        place, access = each.place, each.access
        path = real(place)
        is_real = path == place or path == os.path.normpath(place)
        if access is AccessMode.DENY and not is_real:
            links += links_on_the_way(place)
        if is_real or each.chosen or access is AccessMode.DENY:
            if path not in modes or _SEVERITY[access] > _SEVERITY[modes[path]]:
                modes[path] = access
        else:
            later.append((place, path, access))
    for place, path, access in later:
        current = mode_at(modes, path) or AccessMode.DENY
        if _GIVES[access] > _GIVES[current] and _is_redirectable(modes, place):
            continue
        if path not in modes or _SEVERITY[access] > _SEVERITY[modes[path]]:
            modes[path] = access
    return modes, links


def _grant(modes: dict[str, AccessMode], globs: tuple[str, ...], place: str, access: AccessMode) -> None:
    """Widen the access to a path, unless it is denied by name or a symlink in it could be redirected."""
    if "\0" in place:
        return
    path = os.path.realpath(place)
    current = mode_at(modes, path)
    matches = deny_matcher(globs)
    if matches is not None and any(
        map(matches, (*_path_and_parents(path), *_path_and_parents(os.path.normpath(place))))
    ):
        return
    if _GIVES[access] <= _GIVES[current or AccessMode.DENY] or _is_redirectable(modes, place):
        return
    if current is not AccessMode.DENY or _is_default(modes, path):
        modes[path] = access


def _is_default(modes: Mapping[str, AccessMode], path: str) -> bool:
    """Return whether only the entry for the root covers a path."""
    return not any(ancestor in modes for ancestor in _path_and_parents(path) if ancestor != "/")


def _path_and_parents(path: str) -> Iterator[str]:
    while True:
        yield path
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return
        path = parent


def _is_redirectable(modes: Mapping[str, AccessMode], place: str) -> bool:
    """Return whether a symlink in the path is in a folder that commands may write, so that it could be redirected."""
    return any(mode_at(modes, os.path.dirname(link)) is AccessMode.WRITE for link in links_on_the_way(place))  # noqa: PTH120


def _is_pattern(entry: FileEntry) -> bool:
    if isinstance(entry.path, SpecialPath):
        return has_wildcards(entry.path.subpath or "")
    return isinstance(entry.path, GlobPattern)


def _leaves_base(subpath: str | None) -> bool:
    return subpath is not None and (subpath.startswith("/") or ".." in subpath.split("/"))


def _may_exist_anyway(path: AbsolutePath | SpecialPath) -> bool:
    """Return whether a path without a known location may still exist: the home of an unknown user, or a newer kind of path."""
    if isinstance(path, AbsolutePath):
        return path.path.startswith("~")
    return path.kind is Special.UNKNOWN or _leaves_base(path.subpath)


def _path_text(path: AbsolutePath | SpecialPath) -> str:
    if isinstance(path, AbsolutePath):
        return path.path
    return path.path or path.subpath or path.kind.value


def _protect(modes: dict[str, AccessMode], links: Iterable[str]) -> None:
    """Protect special names below every writable root, unless an entry names exactly that path, and protect ``links``.

    A path that is not writable anyway is left unchanged, because this step may only take permissions away.
    """
    roots = [path for path, mode in modes.items() if mode is AccessMode.WRITE]
    for path in dict.fromkeys((*(name for root in roots for name in _protected_names(root)), *links)):
        if path not in modes and mode_at(modes, path) is AccessMode.WRITE:
            modes[path] = AccessMode.READ


def _protected_names(root: str) -> Iterator[str]:
    for name in (*PROTECTED_NAMES, CREDENTIALS):
        path = os.path.join(root, name)  # noqa: PTH118
        try:
            mode = os.lstat(path).st_mode
        except NotADirectoryError:  # the root is a file
            return
        except (OSError, ValueError):
            yield path
            continue
        yield path
        if stat.S_ISLNK(mode):  # both the symlink and its target
            path = os.path.realpath(path)
            yield path
        if name == ".git" and not stat.S_ISDIR(mode):
            yield from repository_folders(path)
