"""The permissions of a turn in an environment that is not this machine.

Its file system cannot be read here, so the paths are compared as texts. The environment itself resolves symlinks and enforces the
result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import (
    MINIMAL_PATHS,
    PROTECTED_NAMES,
    FileAccess,
    NetworkMode,
    PathRule,
)
from codex_framework.contract.permissions.globs import alternatives, escaped, has_wildcards
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    DisabledPermissions,
    ExternalPermissions,
    FileEntry,
    FilePath,
    GlobPattern,
    NetworkPermission,
    RestrictedFiles,
    Special,
    SpecialPath,
)
from codex_framework.contract.roles.environments import EnvironmentInfo

__all__ = ["remote_access"]

_SEVERITY = {AccessMode.READ: 0, AccessMode.WRITE: 1, AccessMode.DENY: 2}
_GIVES = {AccessMode.DENY: 0, AccessMode.READ: 1, AccessMode.WRITE: 2}


def remote_access(permissions: Permissions, cwd: str, info: EnvironmentInfo | None) -> FileAccess:
    """Return permissions as they apply in a folder of an environment.

    Args:
        permissions: The permissions. ``workspace_roots`` are folders of the environment.
        info: Facts about the environment, if it was ever connected.

    Raises:
        CodexError: They deny a path that the environment cannot represent.
    """
    profile = permissions.profile
    if isinstance(profile, DisabledPermissions | ExternalPermissions):
        return FileAccess(full=True, network=NetworkMode.ON, elsewhere=True)
    options = permissions.options
    network = NetworkMode.ON if permissions.network_rules is None else NetworkMode.PROXY
    if profile.network is NetworkPermission.RESTRICTED:
        network = NetworkMode.OFF
    access = FileAccess(
        network=network,
        network_rules=permissions.network_rules if network is NetworkMode.PROXY else None,
        floor=options.floor,
        limits=options.limits,
        fixed=options.fixed,
        elsewhere=True,
    )
    if not isinstance(profile.file_system, RestrictedFiles):
        return access.evolve(full=True)
    return _restrict_access(access, permissions, _Places(cwd, permissions.workspace_roots, info))


def _restrict_access(access: FileAccess, permissions: Permissions, places: _Places) -> FileAccess:
    modes: dict[str, AccessMode] = {}
    globs: dict[str, None] = {}
    for entry in permissions.entries:
        if _is_pattern(entry):
            globs |= dict.fromkeys(places.patterns(entry.path)) if entry.access is AccessMode.DENY else {}
            continue
        found = list(places.of(entry.path))
        if entry.access is AccessMode.DENY and not found:
            raise _unenforceable(f"{entry.path}")
        for place in found:
            path = os.path.normpath(place)
            if path not in modes or _SEVERITY[entry.access] > _SEVERITY[modes[path]]:
                modes[path] = entry.access
    otherwise = modes.pop("/", AccessMode.DENY)
    if otherwise is AccessMode.WRITE:
        modes["/"], otherwise = AccessMode.WRITE, AccessMode.READ
    for root in [path for path, mode in modes.items() if mode is AccessMode.WRITE]:
        for name in (*PROTECTED_NAMES, ".aws"):
            modes.setdefault(os.path.join(root, name), AccessMode.READ)  # noqa: PTH118
    rules = tuple(PathRule(Path(path), mode) for path, mode in sorted(modes.items()))
    depth = permissions.profile.file_system.glob_scan_max_depth  # type: ignore[union-attr]  # restricted files
    return access.evolve(rules=rules, otherwise=otherwise, denied_globs=tuple(globs), glob_depth=depth)


class _Places:
    """The locations of symbolic paths in an environment."""

    def __init__(self, cwd: str, roots: tuple[str, ...], info: EnvironmentInfo | None) -> None:
        self._cwd = cwd
        self._home = None if info is None else info.home
        self._temporary = None if info is None else info.temporary
        self._workspace = (cwd, *roots)

    def of(self, path: FilePath) -> Iterator[str]:
        if isinstance(path, AbsolutePath):
            yield from self._absolute(path.path)
        elif isinstance(path, SpecialPath) and not _leaves(path.subpath):
            match path.kind:
                case Special.ROOT:
                    yield "/"
                case Special.MINIMAL:
                    yield from MINIMAL_PATHS
                case Special.WORKSPACE_ROOTS:
                    yield from (os.path.join(root, path.subpath or "") for root in self._workspace)  # noqa: PTH118
                case Special.SLASH_TMP:
                    yield "/tmp"  # noqa: S108
                case Special.TMPDIR:
                    yield from () if self._temporary is None else (self._temporary,)
                case Special.UNKNOWN:
                    pass

    def patterns(self, path: FilePath) -> Iterator[str]:
        text = path.pattern if isinstance(path, GlobPattern) else getattr(path, "subpath", None) or ""
        bases = self._workspace if isinstance(path, SpecialPath) else (self._cwd,)
        if text.startswith("~/"):
            if self._home is None:
                raise _unenforceable(text)
            bases, text = (self._home,), text[2:]
        if _leaves(text) and not isinstance(path, GlobPattern):
            raise _unenforceable(text)
        try:
            found = alternatives(text)
        except ValueError as error:
            raise _unenforceable(f"{text}: {error}") from error
        for pattern in found:
            yield from (os.path.normpath(os.path.join(escaped(base), pattern)) for base in bases)  # noqa: PTH118

    def _absolute(self, text: str) -> Iterator[str]:
        if text != "~" and not text.startswith("~/"):
            yield os.path.join(self._cwd, text)  # noqa: PTH118
        elif self._home is not None:
            yield self._home + text[1:]


def _is_pattern(entry: FileEntry) -> bool:
    if isinstance(entry.path, SpecialPath):
        return has_wildcards(entry.path.subpath or "")
    return isinstance(entry.path, GlobPattern)


def _leaves(subpath: str | None) -> bool:
    return subpath is not None and (subpath.startswith("/") or ".." in subpath.split("/"))


def _unenforceable(what: str) -> CodexError:
    return CodexError(
        f"the permission profile denies something that has no place in the environment: {what}",
        slug="permissions",
        hint="Connect the environment, or fix the profile.",
    )
