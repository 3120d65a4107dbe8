"""Permission profiles for a thread's commands and file tools. Wire names as in Codex (spec: ``PermissionProfile``).

A profile is symbolic: "the workspace" and "the temp folder" stay names until a turn resolves them (see ``access.py``).
"""

from __future__ import annotations

import enum
from typing import ClassVar, Literal, TypeAlias

from codex_framework.contract.value import Value

__all__ = [
    "AbsolutePath",
    "AccessMode",
    "AdditionalPermissions",
    "DisabledPermissions",
    "ExternalPermissions",
    "FileEntry",
    "FilePath",
    "FileSystemPermissions",
    "GlobPattern",
    "ManagedPermissions",
    "NetworkPermission",
    "PermissionProfile",
    "RestrictedFiles",
    "Special",
    "SpecialPath",
    "UnrestrictedFiles",
]


class AccessMode(enum.StrEnum):
    """The access to a path. Of two equally specific entries, ``deny`` overrides ``write``, and ``write`` overrides ``read``."""

    READ = "read"
    WRITE = "write"
    DENY = "deny"


class Special(enum.StrEnum):
    """Locations without a fixed path (wire: ``FileSystemSpecialPath.kind``; in config ``:root``, ``:workspace_roots``, ...)."""

    ROOT = "root"
    MINIMAL = "minimal"
    WORKSPACE_ROOTS = "project_roots"
    TMPDIR = "tmpdir"
    SLASH_TMP = "slash_tmp"
    UNKNOWN = "unknown"


class AbsolutePath(Value):
    """A file or folder, and everything below it."""

    type: ClassVar[Literal["path"]] = "path"
    path: str


class GlobPattern(Value):
    """Every matching path and everything below it. A pattern can only be denied. See ``permissions.globs`` for the notation."""

    type: ClassVar[Literal["glob_pattern"]] = "glob_pattern"
    pattern: str


class SpecialPath(Value):
    """A location by its meaning.

    Attributes:
        subpath: A path below each of the locations; only for workspace roots.
        path: The name of an ``unknown`` location, which comes from a newer version and grants nothing.
    """

    type: ClassVar[Literal["special"]] = "special"
    kind: Special
    subpath: str | None = None
    path: str | None = None


FilePath: TypeAlias = AbsolutePath | GlobPattern | SpecialPath


class FileEntry(Value):
    """The access to a location (wire: ``FileSystemSandboxEntry``)."""

    path: FilePath
    access: AccessMode


class RestrictedFiles(Value):
    """File permissions by entries. Paths without an entry are denied.

    Attributes:
        glob_scan_max_depth: How many folder levels are searched for matches of glob patterns. By default, there is no limit.
    """

    type: ClassVar[Literal["restricted"]] = "restricted"
    entries: tuple[FileEntry, ...] = ()
    glob_scan_max_depth: int | None = None


class UnrestrictedFiles(Value):
    """The whole file system."""

    type: ClassVar[Literal["unrestricted"]] = "unrestricted"


FileSystemPermissions: TypeAlias = RestrictedFiles | UnrestrictedFiles


class NetworkPermission(enum.StrEnum):
    """Whether the network may be used (wire: ``NetworkSandboxPolicy``)."""

    RESTRICTED = "restricted"
    ENABLED = "enabled"


class ManagedPermissions(Value):
    """Permissions that the kernel enforces."""

    type: ClassVar[Literal["managed"]] = "managed"
    file_system: FileSystemPermissions
    network: NetworkPermission = NetworkPermission.RESTRICTED


class DisabledPermissions(Value):
    """No confinement."""

    type: ClassVar[Literal["disabled"]] = "disabled"


class ExternalPermissions(Value):
    """Confinement by the environment (a container, a VM). The kernel adds none."""

    type: ClassVar[Literal["external"]] = "external"
    network: NetworkPermission = NetworkPermission.RESTRICTED


PermissionProfile: TypeAlias = ManagedPermissions | DisabledPermissions | ExternalPermissions


class AdditionalPermissions(Value):
    """Permissions of one call, or of the rest of a session, in addition to the profile (wire: ``AdditionalPermissionProfile``).

    Attributes:
        entries: Merged into the entries of the profile. They cannot override a ``deny``.
        network: True requests network access.
    """

    entries: tuple[FileEntry, ...] = ()
    network: bool = False

    def merged(self, other: AdditionalPermissions) -> AdditionalPermissions:
        """Both."""
        entries = tuple(dict.fromkeys((*self.entries, *other.entries)))
        return AdditionalPermissions(entries, self.network or other.network)

    def within(self, asked: AdditionalPermissions) -> AdditionalPermissions:
        """Return the part of this that was requested. A read entry counts if writing was requested."""
        wanted = {entry.path: entry.access for entry in asked.entries}
        kept = (
            entry
            for entry in self.entries
            if entry.path in wanted and (entry.access == wanted[entry.path] or entry.access is AccessMode.READ)
        )
        return AdditionalPermissions(tuple(kept), self.network and asked.network)

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.entries) or self.network
