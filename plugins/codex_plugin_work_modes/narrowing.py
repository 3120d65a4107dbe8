"""The permissions that a mode leaves. They are fixed: no approval lifts them."""

from __future__ import annotations

from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    FileEntry,
    FilePath,
    ManagedPermissions,
    NetworkPermission,
    RestrictedFiles,
    Special,
    SpecialPath,
    UnrestrictedFiles,
)
from codex_plugin_work_modes.modes import ModeRestrictions

__all__ = ["narrowed"]

_READ, _WRITE = AccessMode.READ, AccessMode.WRITE
_ROOT = SpecialPath(Special.ROOT)
_WORKSPACE = (SpecialPath(Special.WORKSPACE_ROOTS), SpecialPath(Special.SLASH_TMP), SpecialPath(Special.TMPDIR))
_GIT = ".git"


def narrowed(permissions: Permissions, restrictions: ModeRestrictions) -> Permissions:
    """Return the permissions, narrowed by the restrictions."""
    if not restrictions.allow_file_write:
        permissions = permissions.read_only()
    elif not restrictions.allow_git_operations:
        permissions = _without_repositories(permissions)
    if not restrictions.allow_network_access:
        permissions = permissions.without_network()
    options = permissions.options.evolve(fixed=True)
    if restrictions.max_file_size is not None and restrictions.allow_file_write:
        limits, size = options.limits, restrictions.max_file_size
        least = size if limits.file_bytes is None else min(size, limits.file_bytes)
        options = options.evolve(limits=limits.evolve(file_bytes=least))
        permissions = _confine(permissions)
    return permissions.evolve(options=options)


def _confine(permissions: Permissions) -> Permissions:
    """Return permissions under which commands run in a sandbox, which limits the size of files. Everything else stays."""
    profile = permissions.profile
    if isinstance(profile, ManagedPermissions) and not isinstance(profile.file_system, UnrestrictedFiles):
        return permissions
    network = getattr(profile, "network", NetworkPermission.ENABLED)
    return permissions.evolve(profile=ManagedPermissions(RestrictedFiles((FileEntry(_ROOT, _WRITE),)), network))


def _without_repositories(permissions: Permissions) -> Permissions:
    """Return permissions under which the repository of the workspace cannot be changed.

    Full write access is reduced to the workspace and the folders for temporary files: their ``.git`` is protected, which a
    sandbox cannot guarantee for each repository of the machine.
    """
    profile = permissions.profile
    files = profile.file_system if isinstance(profile, ManagedPermissions) else UnrestrictedFiles()
    network = getattr(profile, "network", NetworkPermission.ENABLED)
    if not isinstance(files, RestrictedFiles):
        kept = RestrictedFiles((FileEntry(_ROOT, _READ), *(FileEntry(place, _WRITE) for place in _WORKSPACE)))
        return permissions.evolve(profile=ManagedPermissions(kept, network))
    entries = _outside_repositories(files.entries)
    granted = _outside_repositories(permissions.granted)
    return permissions.evolve(profile=ManagedPermissions(files.evolve(entries=entries), network), granted=granted)


def _outside_repositories(entries: tuple[FileEntry, ...]) -> tuple[FileEntry, ...]:
    found: list[FileEntry] = []
    for entry in entries:
        if entry.access is not _WRITE:
            found.append(entry)
        elif entry.path in (_ROOT, AbsolutePath("/")):
            found += (entry.evolve(access=_READ), *(FileEntry(place, _WRITE) for place in _WORKSPACE))
        else:
            found.append(entry.evolve(access=_READ) if _is_of_git(entry.path) else entry)
    return tuple(dict.fromkeys(found))


def _is_of_git(path: FilePath) -> bool:
    match path:
        case AbsolutePath(text):
            return _GIT in text.split("/")
        case SpecialPath(_, subpath):
            return _GIT in (subpath or "").split("/")
    return False
