"""``default_permissions``, ``[permissions.NAME]`` and the older ways to say what may be done, as :class:`Permissions`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from codex_framework.config.layers import Config
from codex_framework.errors import ConfigError
from codex_framework.globs import has_wildcards, regex_of
from codex_framework.permissions import (
    BUILTIN_PROFILES,
    NO_SECRETS_ID,
    WORKSPACE_ID,
    Permissions,
    SandboxOptions,
    builtin_permissions,
    permissions_from_list,
    permissions_of,
)
from codex_framework.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    DisabledPermissions,
    FileEntry,
    FilePath,
    GlobPattern,
    ManagedPermissions,
    NetworkPermission,
    RestrictedFiles,
    Special,
    SpecialPath,
)
from codex_framework.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.roles.networks import NetworkRules
from codex_framework.roles.sandboxes import Protection, ResourceLimits

__all__ = ["named_permissions", "profile_names", "starting_permissions"]

_SPECIAL = {
    ":root": Special.ROOT,
    ":minimal": Special.MINIMAL,
    ":workspace_roots": Special.WORKSPACE_ROOTS,
    ":project_roots": Special.WORKSPACE_ROOTS,
    ":tmpdir": Special.TMPDIR,
    ":slash_tmp": Special.SLASH_TMP,
}
_DEPTH = "glob_scan_max_depth"
_NETWORK_ACCEPTED = {"proxy_url", "socks_url", "dangerously_allow_non_loopback_proxy", "mitm"}
"""Settings of Codex's network table that have no effect here: the proxy's ports are always its own."""


def profile_names(config: Config) -> tuple[str, ...]:
    """Every profile that can be named: the built-in ones, then those of ``[permissions]``."""
    return (*BUILTIN_PROFILES, *sorted(config.get("permissions", {})))


def starting_permissions(config: Config) -> Permissions:
    """What a new thread may do: ``sandbox_mode``, else ``default_permissions``, else ``sandbox_permissions``, else by trust.

    Raises:
        ConfigError: A profile is not known or contradicts itself.
    """
    return _chosen(config).evolve(options=sandbox_options(config))


def sandbox_options(config: Config) -> SandboxOptions:
    """``[framework] sandbox_floor``, ``sandbox_limits``, ``sandbox_private_tmp`` and ``sandbox_loopback``.

    Raises:
        ConfigError: A word of the floor is not known.
    """
    floor: list[str] = config.get("framework.sandbox_floor", [])
    for index, word in enumerate(floor):
        if word not in tuple(Protection):
            raise config.error(
                ("framework", "sandbox_floor", index),
                f"`framework.sandbox_floor` has {word!r}; it can have: {', '.join(Protection)}",
                hint="Correct the word. `codex-framework sandbox doctor` shows what holds here.",
                slug="permissions",
            )
    table: Mapping[str, Any] = config.get("framework.sandbox_limits", {})
    return SandboxOptions(
        floor=frozenset(map(Protection, floor)),
        limits=ResourceLimits(
            processes=table.get("processes", ResourceLimits().processes) or None,
            memory_bytes=_megabytes(table.get("memory_mb")),
            file_bytes=_megabytes(table.get("file_size_mb")),
        ),
        private_tmp=config.get("framework.sandbox_private_tmp", default=False),
        loopback=config.get("framework.sandbox_loopback", default=False),
    )


def _megabytes(value: int | None) -> int | None:
    return value * 1024 * 1024 if value else None


def _chosen(config: Config) -> Permissions:
    mode = config.get("sandbox_mode")
    if mode is None and (name := config.get("default_permissions")) is not None:
        return named_permissions(config, name)
    if mode is None and (words := config.get("sandbox_permissions")) is not None:
        return _from_list(config, words)
    if mode is None:
        mode = "read-only" if config.trust is None else "workspace-write"
    if mode == "danger-full-access":
        return permissions_of(DangerFullAccess())
    return permissions_of(ReadOnly() if mode == "read-only" else _workspace_write(config))


def named_permissions(config: Config, name: str) -> Permissions:
    """The profile of that name, with what it extends.

    Raises:
        ConfigError: There is none, or it cannot be applied; the fact names file and line.
    """
    if name == WORKSPACE_ID:
        return permissions_of(_workspace_write(config)).evolve(id=name)
    if name == NO_SECRETS_ID:
        login = FileEntry(AbsolutePath(str(config.codex_home / "auth.json")), AccessMode.DENY)
        denied = (entry for entry in _builtin(name).entries if entry.access is AccessMode.DENY)
        limits = permissions_of(_workspace_write(config)).with_entries((*denied, login))
        return limits.evolve(id=name, extends=WORKSPACE_ID)
    if name in BUILTIN_PROFILES:
        return _builtin(name)
    if not isinstance(config.get("permissions"), Mapping) or name not in config.get("permissions"):
        raise config.error(
            "default_permissions",
            f"there is no permission profile {name!r}; there are: {', '.join(profile_names(config))}",
            hint=f"Name one of them, or add a table [permissions.{name}].",
            slug="permissions",
        )
    return _Reader(config).read(name)


def _builtin(name: str) -> Permissions:
    found = builtin_permissions(name)
    assert found is not None
    return found


def _from_list(config: Config, words: list[str]) -> Permissions:
    try:
        return permissions_from_list(words)
    except ValueError as error:
        raise config.error(
            "sandbox_permissions",
            f"`sandbox_permissions` has {str(error)!r}, which is no permission",
            hint="Use default_permissions or sandbox_mode instead.",
            slug="permissions",
        ) from None


def _workspace_write(config: Config) -> WorkspaceWrite:
    table = config.get("sandbox_workspace_write", {})
    return WorkspaceWrite(
        writable_roots=tuple(table.get("writable_roots", ())),
        network_access=table.get("network_access", False),
        exclude_tmpdir_env_var=table.get("exclude_tmpdir_env_var", False),
        exclude_slash_tmp=table.get("exclude_slash_tmp", False),
    )


class _Reader:
    """Reads a profile and those it builds on."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._reading: list[str] = []

    def read(self, name: str) -> Permissions:
        """The profile of that name, from its table."""
        table: Mapping[str, Any] = self._config.get("permissions")[name] or {}
        parent = self._parent(name, table)
        files, network = self._inherited(name, parent)
        entries = {entry.path: entry for entry in files.entries}
        depth = files.glob_scan_max_depth
        for key, value in (table.get("filesystem") or {}).items():
            if key == _DEPTH:
                depth = self._depth(name, value)
                continue
            for entry in self._entries(name, key, value):
                entries[entry.path] = entry
        enabled, rules = self._network(name, table, parent, inherited=network)
        profile = ManagedPermissions(
            RestrictedFiles(tuple(entries.values()), depth),
            NetworkPermission.ENABLED if enabled else NetworkPermission.RESTRICTED,
        )
        roots = table.get("workspace_roots") or {}
        own = [str(path) for path, wanted in roots.items() if wanted]
        dropped = {path for path, wanted in roots.items() if not wanted}
        kept = [path for path in (parent.workspace_roots if parent else ()) if path not in dropped]
        return Permissions(
            profile=profile,
            id=name,
            extends=table.get("extends"),
            workspace_roots=tuple(dict.fromkeys((*kept, *own))),
            network_rules=rules if enabled else None,
        )

    def _parent(self, name: str, table: Mapping[str, Any]) -> Permissions | None:
        wanted = table.get("extends")
        if wanted is None:
            return None
        key = ("permissions", name, "extends")
        if wanted == name or wanted in self._reading:
            chain = " -> ".join((*self._reading, name, wanted))
            raise self._error(key, f"the permission profile {name!r} extends itself ({chain})", "Remove one `extends`.")
        if wanted in BUILTIN_PROFILES:
            return named_permissions(self._config, wanted)
        if wanted not in self._config.get("permissions"):
            known = ", ".join(profile_names(self._config))
            raise self._error(
                key, f"{name!r} extends {wanted!r}, which does not exist; there are: {known}", "Name one of them."
            )
        self._reading.append(name)
        try:
            return self.read(wanted)
        finally:
            self._reading.pop()

    def _inherited(self, name: str, parent: Permissions | None) -> tuple[RestrictedFiles, bool]:
        if parent is None:
            return RestrictedFiles(), False
        if isinstance(parent.profile, DisabledPermissions):
            raise self._error(
                ("permissions", name, "extends"),
                f"{name!r} extends {parent.id!r}, which has no limits that something could be added to",
                'Set `":root" = "write"` under its filesystem instead, or extend :workspace.',
            )
        assert isinstance(parent.profile, ManagedPermissions)
        files = parent.profile.file_system
        assert isinstance(files, RestrictedFiles)
        return files, parent.profile.network is NetworkPermission.ENABLED

    def _depth(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            key = ("permissions", name, "filesystem", _DEPTH)
            raise self._error(
                key, f"`{_DEPTH}` is {value!r}, not a number from 1 on", "Write how many folders deep to look."
            )
        return value

    def _entries(self, name: str, place: str, value: Any) -> Iterator[FileEntry]:
        key = ("permissions", name, "filesystem", place)
        if isinstance(value, Mapping):
            for sub, word in value.items():
                yield self._entry((*key, sub), self._place((*key, sub), place, str(sub)), word)
        else:
            yield self._entry(key, self._place(key, place, None), value)

    def _entry(self, key: tuple[str, ...], path: FilePath, word: Any) -> FileEntry:
        word = "deny" if word == "none" else word
        if word not in tuple(AccessMode):
            raise self._error(key, f"{key[-1]!r} is {word!r}; it has to be read, write or deny", "Correct the word.")
        access = AccessMode(word)
        pattern = path.pattern if isinstance(path, GlobPattern) else getattr(path, "subpath", None) or ""
        if has_wildcards(pattern):
            if access is not AccessMode.DENY:
                hint = "Name the folder itself (everything below it is meant), or write deny."
                raise self._error(key, f"the pattern {key[-1]!r} can only be denied, not given {word!r}", hint)
            try:
                re.compile(regex_of(pattern))
            except re.error as error:
                raise self._error(key, f"the pattern {key[-1]!r} is wrong: {error}", "Correct it.") from None
        return FileEntry(path, access)

    def _place(self, key: tuple[str, ...], place: str, sub: str | None) -> FilePath:
        sub = None if sub in (None, "", ".") else sub
        if sub is not None:
            sub = self._below(key, sub)
        if place.startswith(":"):
            kind = _SPECIAL.get(place)
            if kind is None:
                known = ", ".join(word for word in _SPECIAL if word != ":project_roots")
                raise self._error(key, f"{place!r} is no place that is known here", f"Use one of {known}, or a path.")
            if sub is not None and kind is not Special.WORKSPACE_ROOTS:
                raise self._error(key, f"{place} has no parts of its own", "Only :workspace_roots can have a table.")
            return SpecialPath(kind, sub)
        if not place.startswith(("/", "~/")) and place != "~":
            hint = 'Begin it with / or ~/, or put it into a table: ":workspace_roots" = { "PATH" = "deny" }.'
            raise self._error(key, f"{place!r} is not an absolute path", hint)
        path = place if sub is None else f"{place.rstrip('/')}/{sub}"
        path = path.removesuffix("/**") or "/"
        return GlobPattern(path) if has_wildcards(path) else AbsolutePath(path)

    def _below(self, key: tuple[str, ...], sub: str) -> str:
        if sub.startswith(("/", "~")) or ".." in sub.split("/") or "\0" in sub:
            raise self._error(key, f"{sub!r} does not lie below {key[-2]!r}", "Write a relative path without `..`.")
        return sub.removesuffix("/**").rstrip("/")

    def _network(
        self, name: str, table: Mapping[str, Any], parent: Permissions | None, *, inherited: bool
    ) -> tuple[bool, NetworkRules | None]:
        """Whether there is a network, and the rules that it has if it goes by way of a proxy."""
        given = dict(table.get("network") or {})
        enabled = given.pop("enabled", inherited)
        key = ("permissions", name, "network")
        if not isinstance(enabled, bool):
            raise self._error((*key, "enabled"), f"`enabled` is {enabled!r}", "Write true or false.")
        rules = parent.network_rules if parent is not None else None
        for word in _NETWORK_ACCEPTED:
            given.pop(word, None)
        if given.pop("dangerously_allow_all_unix_sockets", False):
            given["unix_sockets"] = {"*": "allow", **given.get("unix_sockets", {})}
        known = attrs.fields_dict(NetworkRules)
        for word, value in given.items():
            if word not in known:
                raise self._error((*key, word), f"`{word}` is no setting of the network", "Remove it.")
            self._check_network((*key, word), word, value)
        if not given:
            return enabled, rules
        base = rules or NetworkRules()
        for word in ("domains", "unix_sockets"):
            if word in given:
                given[word] = {**getattr(base, word), **given[word]}
        return enabled, base.evolve(**given)

    def _check_network(self, key: tuple[str, ...], word: str, value: Any) -> None:
        if word in ("domains", "unix_sockets"):
            words = ("allow", "deny") if word == "domains" else ("allow", "none")
            if not isinstance(value, Mapping):
                raise self._error(key, f"`{word}` is {value!r}, not a table", f'Write {{ "NAME" = "{words[0]}" }}.')
            for name, answer in value.items():
                if answer not in words:
                    fact = f"{name!r} is {answer!r}; it has to be {' or '.join(words)}"
                    raise self._error((*key, name), fact, "Correct the word.")
        elif word == "mode":
            if value not in ("full", "limited"):
                raise self._error(key, f"`mode` is {value!r}", "Write full or limited.")
        elif not isinstance(value, bool):
            raise self._error(key, f"`{word}` is {value!r}", "Write true or false.")

    def _error(self, key: tuple[str, ...], fact: str, hint: str) -> ConfigError:
        return self._config.error(key, fact, hint=hint, slug="permissions")
