"""The permissions of a thread: a profile, its origin, and the folders of the workspace.

This module converts all older forms (sandbox modes and policies, lists of permissions) into a profile, and a profile back into
the nearest sandbox policy, for clients that support only those.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.permissions.file_access import PROTECTED_NAMES, FileAccess, Protection, ResourceLimits
from codex_framework.contract.permissions.globs import alternatives, has_wildcards, static_prefix
from codex_framework.contract.permissions.links import home_expanded, links_on_the_way
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    AdditionalPermissions,
    DisabledPermissions,
    ExternalPermissions,
    FileEntry,
    FilePath,
    GlobPattern,
    ManagedPermissions,
    NetworkPermission,
    PermissionProfile,
    RestrictedFiles,
    Special,
    SpecialPath,
    UnrestrictedFiles,
)
from codex_framework.contract.protocol.policies import (
    DangerFullAccess,
    ExternalSandbox,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from codex_framework.contract.value import Value

__all__ = [
    "BUILTIN_PROFILES",
    "Permissions",
    "SandboxOptions",
    "additional_from_wire",
    "additional_to_wire",
    "builtin_permissions",
    "permissions_from_list",
    "permissions_of",
]

READ, WRITE = AccessMode.READ, AccessMode.WRITE
ROOT = SpecialPath(Special.ROOT)
MINIMAL = SpecialPath(Special.MINIMAL)
WORKSPACE_ROOTS = SpecialPath(Special.WORKSPACE_ROOTS)
SLASH_TMP = SpecialPath(Special.SLASH_TMP)
TMPDIR = SpecialPath(Special.TMPDIR)

READ_ONLY_ID, WORKSPACE_ID, FULL_ACCESS_ID = ":read-only", ":workspace", ":danger-full-access"
NO_SECRETS_ID = ":workspace-no-secrets"
BUILTIN_PROFILES = (READ_ONLY_ID, WORKSPACE_ID, NO_SECRETS_ID, FULL_ACCESS_ID)
"""Built-in profiles: Codex's, and one of this project."""

SECRET_PLACES = tuple(
    f"~/{place}"
    for place in (
        *(".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".docker/config.json", ".netrc", "_netrc"),
        *(".npmrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".git-credentials", ".config/git/credentials"),
        *(".config/gh", ".config/hub", ".config/glab-cli", ".cargo/credentials", ".cargo/credentials.toml"),
        *(".gem/credentials", ".terraform.d/credentials.tfrc.json", ".vault-token", ".password-store", ".pgpass"),
        *(".my.cnf", ".config/op", ".config/rclone", ".s3cfg", ".boto", ".local/share/keyrings", ".mozilla"),
        *(".config/google-chrome", ".config/chromium", ".codex/auth.json", "Library/Keychains", "Library/Cookies"),
    )
)
"""The usual locations of keys, tokens and passwords, which ``:workspace-no-secrets`` denies."""


class SandboxOptions(Value, kw_only=True):
    """Options of enforcement that do not depend on the profile (config: ``[framework]``, ``sandbox_...``).

    Attributes:
        floor: The required protections. Commands are refused if one is missing.
        loopback: Whether the loopback address works although the network is off.
        fixed: Whether no approval lifts the limits: nothing more can be granted, and no command runs without the sandbox.
    """

    floor: frozenset[Protection] = frozenset()
    limits: ResourceLimits = ResourceLimits()
    private_tmp: bool = False
    loopback: bool = False
    fixed: bool = False


class Permissions(Value, kw_only=True):
    """The permissions of a thread. They do not depend on the file system; see :func:`codex_framework.commands.access.file_access`.

    Attributes:
        profile: The limits.
        id: The profile's name. None if it was derived from a sandbox policy.
        extends: The name of the profile it builds on.
        granted: Permissions granted in addition to the profile. They cannot override an entry or a pattern of the profile that
            denies.
            Entries in it that deny apply as well.
        workspace_roots: Folders that belong to the workspace besides the thread's own, absolute or in the home (``~/...``).
        network_rules: The hosts that may be reached through a proxy. None if only the profile's network setting applies.
        options: The options of enforcement.
    """

    profile: PermissionProfile
    id: str | None = None
    extends: str | None = None
    granted: tuple[FileEntry, ...] = ()
    workspace_roots: tuple[str, ...] = ()
    network_rules: NetworkRules | None = None
    options: SandboxOptions = SandboxOptions()

    @property
    def active(self) -> dict[str, str] | None:
        """The names of the profile and of its parent (wire: ``ActivePermissionProfile``). None if it has no name."""
        if self.id is None:
            return None
        return {"id": self.id} if self.extends is None else {"id": self.id, "extends": self.extends}

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """The entries of a restricted profile and those granted. Empty if files are unrestricted."""
        files = self.profile.file_system if isinstance(self.profile, ManagedPermissions) else None
        return (*files.entries, *self.granted) if isinstance(files, RestrictedFiles) else ()

    @property
    def writes_workspace(self) -> bool:
        """Whether at least a part of the workspace is writable."""
        written = (entry.path for entry in self.entries if entry.access is WRITE)
        return any(isinstance(path, SpecialPath) and path.kind is Special.WORKSPACE_ROOTS for path in written)

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The nearest sandbox policy, for clients and files that do not support profiles.

        It never permits more writing or network access than the profile. A profile that denies writing a part of what
        ``workspace-write`` permits becomes ``read-only``. Only ``:workspace-no-secrets`` becomes ``workspace-write``.
        """
        profile = self.profile
        if isinstance(profile, DisabledPermissions):
            return DangerFullAccess()
        network = profile.network is NetworkPermission.ENABLED and self.network_rules is None
        if isinstance(profile, ExternalPermissions):
            return ExternalSandbox("enabled" if network else "restricted")
        if isinstance(profile.file_system, UnrestrictedFiles):
            return DangerFullAccess() if network else WorkspaceWrite(writable_roots=("/",))
        written = {entry.path for entry in self.entries if entry.access is WRITE}
        denied = (entry for entry in self.granted if entry.access is AccessMode.DENY)
        limits = () if self.id == NO_SECRETS_ID else profile.file_system.entries
        if WORKSPACE_ROOTS not in written or any(map(_holds_back, (*limits, *denied))):
            return ReadOnly(network)
        folders = [path.path for path in written if isinstance(path, AbsolutePath)]
        return WorkspaceWrite(
            writable_roots=tuple(dict.fromkeys((*sorted(folders), *self.workspace_roots))),
            network_access=network,
            exclude_tmpdir_env_var=TMPDIR not in written,
            exclude_slash_tmp=SLASH_TMP not in written,
        )

    def with_entries(self, entries: Iterable[FileEntry], *, network: bool = False) -> Permissions:
        """Return a copy with more permissions, and optionally the network. Paths that the profile denies by name stay denied."""
        if not isinstance(self.profile, ManagedPermissions):
            return self
        profile = self.profile.evolve(network=NetworkPermission.ENABLED) if network else self.profile
        return self.evolve(profile=profile, granted=tuple(dict.fromkeys((*self.granted, *entries))))

    def widened(self, additional: AdditionalPermissions, access: FileAccess, cwd: Path) -> Permissions:
        """Return a copy with the additional permissions of a call.

        Args:
            access: These permissions, resolved. Paths that they deny by name stay denied.

        Raises:
            ValueError: The profile denies some of them, or a path contains a link in a writable folder, for which nothing can
                be granted. The text names it.
        """
        if self.options.fixed:
            raise ValueError("the limits of this thread are fixed, and nothing can be granted")
        for entry in additional.entries:
            if not isinstance(entry.path, AbsolutePath) or entry.access is AccessMode.DENY:
                continue
            if access.elsewhere:
                _check_elsewhere(entry.path.path, access, cwd)
                continue
            named = cwd / home_expanded(entry.path.path)
            wanted = Path(os.path.realpath(named))
            if any(access.mode_of(path) is AccessMode.DENY and access.denies_by_name(path) for path in (wanted, named)):
                raise ValueError(f"{wanted} is denied by the permission profile")
            if access.may_write(wanted) or (entry.access is READ and access.may_read(wanted)):
                continue
            for link in links_on_the_way(str(named)):
                if access.mode_of(Path(link).parent) is WRITE:
                    raise ValueError(f"{link} is a link that a command may have created; request {wanted} itself")
        return self.with_entries(additional.entries, network=additional.network)

    def read_only(self) -> Permissions:
        """Return a copy in which nothing can be written. Read access and network access are unchanged."""
        profile = self.profile
        files = profile.file_system if isinstance(profile, ManagedPermissions) else None
        if isinstance(files, RestrictedFiles):
            kept = files.evolve(entries=_reading(files.entries))
            return self.evolve(profile=profile.evolve(file_system=kept), granted=_reading(self.granted))
        network = getattr(profile, "network", NetworkPermission.ENABLED)  # a disabled profile has all of it
        return self.evolve(profile=ManagedPermissions(RestrictedFiles((FileEntry(ROOT, READ),)), network))

    def without_network(self) -> Permissions:
        """Return a copy without network access, not even to the loopback address. File access is unchanged."""
        off, profile = NetworkPermission.RESTRICTED, self.profile
        files = profile.file_system if isinstance(profile, ManagedPermissions) else UnrestrictedFiles()
        options = self.options.evolve(loopback=False)
        return self.evolve(profile=ManagedPermissions(files, off), network_rules=None, options=options)

    def with_writable(self, folders: Sequence[str]) -> Permissions:
        """Return a copy with further writable folders, as a part of the profile."""
        if not isinstance(self.profile, ManagedPermissions):
            return self
        files = self.profile.file_system
        if not isinstance(files, RestrictedFiles):
            return self
        added = (FileEntry(AbsolutePath(folder), WRITE) for folder in folders)
        entries = tuple(dict.fromkeys((*files.entries, *added)))
        return self.evolve(profile=self.profile.evolve(file_system=files.evolve(entries=entries)))


def _reading(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """Return entries without writing."""
    kept = (entry.evolve(access=READ) if entry.access is WRITE else entry for entry in entries)
    return tuple(dict.fromkeys(kept))


def _check_elsewhere(path: str, access: FileAccess, cwd: Path) -> None:
    """Check a path of another environment, which resolves its symlinks itself. Raises ValueError if nothing can be granted there."""
    if path.startswith("~"):
        raise ValueError(f"{path} is in a home folder of another environment; request the whole path")
    if access.denies_by_name(Path(os.path.normpath(cwd / path))):
        raise ValueError(f"{path} is denied by the permission profile")


def _holds_back(entry: FileEntry) -> bool:
    """Return whether an entry can deny writing in the workspace or the temp folders."""
    path = entry.path
    if entry.access is WRITE or (entry.access is READ and path in (ROOT, MINIMAL)):
        return False
    kept = isinstance(path, SpecialPath) and path.kind is Special.WORKSPACE_ROOTS and path.subpath in PROTECTED_NAMES
    return not kept


def builtin_permissions(name: str) -> Permissions | None:
    """Return the built-in profile of a name."""
    if name == NO_SECRETS_ID:
        limits = permissions_of(WorkspaceWrite())
        denied = (FileEntry(AbsolutePath(place), AccessMode.DENY) for place in SECRET_PLACES)
        return _managed_permissions((*limits.entries, *denied), network=False).evolve(id=name, extends=WORKSPACE_ID)
    policies: dict[str, SandboxPolicy] = {
        READ_ONLY_ID: ReadOnly(),
        WORKSPACE_ID: WorkspaceWrite(),
        FULL_ACCESS_ID: DangerFullAccess(),
    }
    policy = policies.get(name)
    return None if policy is None else permissions_of(policy).evolve(id=name)


def permissions_of(policy: SandboxPolicy) -> Permissions:
    """Convert a sandbox policy to permissions."""
    match policy:
        case DangerFullAccess():
            return Permissions(profile=DisabledPermissions())
        case ExternalSandbox(network_access):
            return Permissions(profile=ExternalPermissions(NetworkPermission(network_access)))
        case ReadOnly(network_access):
            return _managed_permissions((FileEntry(ROOT, READ),), network=network_access)
        case WorkspaceWrite():
            places: list[FilePath] = [WORKSPACE_ROOTS, *(AbsolutePath(root) for root in policy.writable_roots)]
            if not policy.exclude_slash_tmp:
                places.append(SLASH_TMP)
            if not policy.exclude_tmpdir_env_var:
                places.append(TMPDIR)
            entries = (FileEntry(ROOT, READ), *(FileEntry(place, WRITE) for place in dict.fromkeys(places)))
            return _managed_permissions(entries, network=policy.network_access)


def additional_from_wire(raw: Any) -> AdditionalPermissions:
    """Read the additional permissions of a call from the model's JSON.

    Args:
        raw: ``{"network": {"enabled": true}, "file_system": {"read": [PATH], "write": [PATH], "entries": [ENTRY]}}``.

    Raises:
        ValueError: It has another form. The text names the place.
    """
    if raw is None:
        return AdditionalPermissions()
    table = _table(raw, "additional_permissions", ("network", "file_system"))
    network = _table(table.get("network"), "network", ("enabled",)).get("enabled") or False
    if not isinstance(network, bool):
        raise ValueError("network.enabled must be true or false")
    files = _table(table.get("file_system"), "file_system", ("read", "write", "entries", "glob_scan_max_depth"))
    entries: list[FileEntry] = []
    for access in (READ, WRITE):
        paths = files.get(access.value) or []
        if not isinstance(paths, list) or not all(map(_is_path, paths)):
            raise ValueError(f"file_system.{access} must be a list of paths")
        entries.extend(FileEntry(AbsolutePath(path), access) for path in paths)
    entries.extend(_entries_from_wire(files.get("entries") or []))
    return AdditionalPermissions(tuple(dict.fromkeys(entries)), network)


def additional_to_wire(additional: AdditionalPermissions | None) -> Mapping[str, Any] | None:
    """Convert additional permissions to JSON data, if any."""
    if not additional:
        return None
    from codex_framework.contract.protocol.wire import to_wire

    wire: dict[str, Any] = {}
    if additional.network:
        wire["network"] = {"enabled": True}
    if additional.entries:
        wire["file_system"] = {"entries": [to_wire(entry) for entry in additional.entries]}
    return wire


def _entries_from_wire(raw: Any) -> tuple[FileEntry, ...]:
    from codex_framework.contract.protocol.wire import WireError, read

    try:
        found = read(tuple[FileEntry, ...], raw, where="file_system.entries")
    except WireError as error:
        raise ValueError(str(error)) from error
    if any(isinstance(entry.path, GlobPattern) and entry.access is not AccessMode.DENY for entry in found):
        raise ValueError("file_system.entries: a pattern can only be denied")
    for entry in found:
        if isinstance(entry.path, SpecialPath) and entry.path.kind is Special.UNKNOWN:
            raise ValueError(f"file_system.entries: the place {entry.path.path!r} is not known")
        text = _text_of(entry.path)
        if text is not None and not _is_path(text):
            raise ValueError("file_system.entries: a path is empty or has a NUL character in it")
        if text is not None and has_wildcards(text) and not isinstance(entry.path, AbsolutePath):
            _check_pattern(text)
    return found


def _text_of(path: FilePath) -> str | None:
    match path:
        case AbsolutePath(text) | GlobPattern(text):
            return text
        case SpecialPath(_, subpath):
            return subpath


def _check_pattern(pattern: str) -> None:
    try:
        found = alternatives(pattern)
    except ValueError as error:
        raise ValueError(f"file_system.entries: the pattern {pattern!r} is wrong: {error}") from error
    if any(expanded.startswith("/") and static_prefix(expanded) == "/" for expanded in found):
        raise ValueError(f"file_system.entries: the pattern {pattern!r} starts at the root; start it with a folder")


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _table(value: Any, name: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not set(value) <= set(keys):
        raise ValueError(f"{name} must be an object with {' or '.join(keys)}")
    return value


_LISTED: dict[str, tuple[FileEntry, ...]] = {
    "disk-full-read-access": (FileEntry(ROOT, READ),),
    "disk-write-platform-user-temp-folder": (FileEntry(TMPDIR, WRITE),),
    "disk-write-platform-global-temp-folder": (FileEntry(SLASH_TMP, WRITE),),
    "disk-write-cwd": (FileEntry(WORKSPACE_ROOTS, WRITE),),
    "disk-full-write-access": (FileEntry(ROOT, WRITE),),
    "network-full-access": (),
}
"""The keywords of the oldest notation, ``sandbox_permissions`` (spec: the founding protocol)."""

_WRITE_FOLDER = "disk-write-folder="


def permissions_from_list(words: Sequence[str]) -> Permissions:
    """Convert the oldest notation, a list of keywords, to permissions.

    Raises:
        ValueError: A keyword is unknown. The text names it.
    """
    entries: list[FileEntry] = []
    for word in words:
        if word.startswith(_WRITE_FOLDER) and len(word) > len(_WRITE_FOLDER):
            entries.append(FileEntry(AbsolutePath(word.removeprefix(_WRITE_FOLDER)), WRITE))
        elif word in _LISTED:
            entries.extend(_LISTED[word])
        else:
            raise ValueError(word)
    network = "network-full-access" in words
    if FileEntry(ROOT, WRITE) in entries:
        profile = ManagedPermissions(UnrestrictedFiles(), _network(network=network))
        return Permissions(profile=DisabledPermissions() if network else profile)
    return _managed_permissions(tuple(dict.fromkeys(entries)), network=network)


def _managed_permissions(entries: tuple[FileEntry, ...], *, network: bool) -> Permissions:
    return Permissions(profile=ManagedPermissions(RestrictedFiles(entries), _network(network=network)))


def _network(*, network: bool) -> NetworkPermission:
    return NetworkPermission.ENABLED if network else NetworkPermission.RESTRICTED
