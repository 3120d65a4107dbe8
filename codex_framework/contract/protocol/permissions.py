"""Permission profiles: what a thread's commands and file tools may do. Wire names as in Codex (spec: ``PermissionProfile``).

A profile is symbolic: "the workspace" and "the temp folder" stay words until a turn resolves them (see ``access.py``).
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
    """What may be done with a path. Where two entries are equally specific, ``deny`` counts over ``write`` over ``read``."""

    READ = "read"
    WRITE = "write"
    DENY = "deny"


class Special(enum.StrEnum):
    """Places that have no fixed path (wire: ``FileSystemSpecialPath.kind``; in config ``:root``, ``:workspace_roots``, ...)."""

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
    """Every path that matches, and everything below it; only ever denied. See ``permissions.globs`` for the notation."""

    type: ClassVar[Literal["glob_pattern"]] = "glob_pattern"
    pattern: str


class SpecialPath(Value):
    """A place by its meaning.

    Attributes:
        subpath: Below each of the places; only of workspace roots.
        path: The word of an ``unknown`` one, which comes from a newer version and permits nothing.
    """

    type: ClassVar[Literal["special"]] = "special"
    kind: Special
    subpath: str | None = None
    path: str | None = None


FilePath: TypeAlias = AbsolutePath | GlobPattern | SpecialPath


class FileEntry(Value):
    """What may be done with a place (wire: ``FileSystemSandboxEntry``)."""

    path: FilePath
    access: AccessMode


class RestrictedFiles(Value):
    """Entries; what none of them speaks of is denied.

    Attributes:
        glob_scan_max_depth: How many folders deep glob patterns are looked for; None: as deep as it goes.
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
    """We enforce these limits."""

    type: ClassVar[Literal["managed"]] = "managed"
    file_system: FileSystemPermissions
    network: NetworkPermission = NetworkPermission.RESTRICTED


class DisabledPermissions(Value):
    """No confinement at all."""

    type: ClassVar[Literal["disabled"]] = "disabled"


class ExternalPermissions(Value):
    """Somebody else confines us already (a container, a VM)."""

    type: ClassVar[Literal["external"]] = "external"
    network: NetworkPermission = NetworkPermission.RESTRICTED


PermissionProfile: TypeAlias = ManagedPermissions | DisabledPermissions | ExternalPermissions


class AdditionalPermissions(Value):
    """What a single call, or the rest of a session, gets on top of its profile (wire: ``AdditionalPermissionProfile``).

    Attributes:
        entries: Merged into those of the profile; they may not lift a ``deny``.
        network: True asks for the network.
    """

    entries: tuple[FileEntry, ...] = ()
    network: bool = False

    def merged(self, other: AdditionalPermissions) -> AdditionalPermissions:
        """Both."""
        entries = tuple(dict.fromkeys((*self.entries, *other.entries)))
        return AdditionalPermissions(entries, self.network or other.network)

    def within(self, asked: AdditionalPermissions) -> AdditionalPermissions:
        """What of this was asked for; an entry to read where writing was asked for counts."""
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
