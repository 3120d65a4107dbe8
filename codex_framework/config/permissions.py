"""The permissions of ``default_permissions``, ``[permissions.NAME]`` and the older settings, as :class:`Permissions`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from codex_framework.config.checking import IDLE_NETWORK_SETTINGS
from codex_framework.config.config import Config
from codex_framework.config.layers import CREDENTIALS
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.permissions.file_access import Protection, ResourceLimits
from codex_framework.contract.permissions.globs import alternatives, has_wildcards, static_prefix
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.permissions.profile import (
    BUILTIN_PROFILES,
    FULL_ACCESS_ID,
    NO_SECRETS_ID,
    Permissions,
    SandboxOptions,
    builtin_permissions,
    permissions_from_list,
    permissions_of,
)
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
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.contract.value import Value, fields_of

__all__ = ["named_permissions", "profile_names", "starting_permissions"]

_SPECIAL = {
    ":root": Special.ROOT,
    ":minimal": Special.MINIMAL,
    ":workspace_roots": Special.WORKSPACE_ROOTS,
    ":project_roots": Special.WORKSPACE_ROOTS,
    ":tmpdir": Special.TMPDIR,
    ":slash_tmp": Special.SLASH_TMP,
}
_KNOWN = ", ".join(word for word in _SPECIAL if word != ":project_roots")
_DEPTH = "glob_scan_max_depth"


def profile_names(config: Config) -> tuple[str, ...]:
    """Return the names of all profiles: the built-in profiles, then the profiles of ``[permissions]``."""
    return (*BUILTIN_PROFILES, *sorted(config.get("permissions", {})))


def starting_permissions(config: Config) -> Permissions:
    """Return the permissions of a new thread.

    They come from ``default_permissions`` or ``sandbox_mode``, or else from ``sandbox_permissions``. Without any of these, they
    depend on trust. If both of the first two are set, the one in the higher layer is used, and within one layer the profile.

    Raises:
        ConfigError: A profile is unknown or contradicts itself.
    """
    return _choose_permissions(config).evolve(options=sandbox_options(config))


def sandbox_options(config: Config) -> SandboxOptions:
    """Return the options ``sandbox_floor``, ``sandbox_limits``, ``sandbox_private_tmp`` and ``sandbox_loopback`` of ``[framework]``.

    Raises:
        ConfigError: The floor contains an unknown value.
    """
    floor: list[str] = config.get("framework.sandbox_floor", [])
    for index, word in enumerate(floor):
        if word not in tuple(Protection):
            raise config.error(
                ("framework", "sandbox_floor", index),
                f"`framework.sandbox_floor` has the unknown value {word!r}; supported values: {', '.join(Protection)}",
                hint="Fix the value. `codex-framework sandbox doctor` shows what is enforced here.",
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


def _choose_permissions(config: Config) -> Permissions:
    mode, name = config.get("sandbox_mode"), config.get("default_permissions")
    if mode is not None and name is not None:  # as in Codex: the higher layer is used, and within one layer the profile
        for layer in reversed(config.layers):
            if "default_permissions" in layer.table:
                mode = None
                break
            if "sandbox_mode" in layer.table:
                break
    if mode is None and name is not None:
        return named_permissions(config, name)
    if mode is None and (words := config.get("sandbox_permissions")) is not None:
        return _permissions_from_list(config, words)
    if mode is None:
        mode = "read-only" if config.trust is None else "workspace-write"
    if mode == "danger-full-access":
        return permissions_of(DangerFullAccess())
    return permissions_of(ReadOnly() if mode == "read-only" else _workspace_write(config))


def named_permissions(config: Config, name: str) -> Permissions:
    """Return the profile of that name, merged with the profiles that it extends.

    ``[sandbox_workspace_write]`` applies only to that mode and changes no profile, as in Codex.

    Raises:
        ConfigError: The profile does not exist or is invalid; the fact names file and line.
    """
    tables: Mapping[str, Any] = config.get("permissions", {})
    for table_name in tables:
        if table_name.startswith(":"):
            raise config.error(
                ("permissions", table_name),
                f"the name of the permission profile {table_name!r} is reserved for built-in profiles",
                hint="Give it a name without the colon.",
                slug="permissions",
            )
    if name in BUILTIN_PROFILES:
        return _builtin(config, name)
    if name not in tables:
        raise config.error(
            "default_permissions",
            f"there is no permission profile {name!r}; existing profiles: {', '.join(profile_names(config))}",
            hint=f"Use one of them, or add a table [permissions.{name}].",
            slug="permissions",
        )
    return _Reader(config).read(name)


def _builtin(config: Config, name: str) -> Permissions:
    permissions = builtin_permissions(name)
    assert permissions is not None
    if name != NO_SECRETS_ID:
        return permissions
    assert isinstance(permissions.profile, ManagedPermissions)
    logins = (FileEntry(AbsolutePath(str(config.codex_home / file)), AccessMode.DENY) for file in CREDENTIALS)
    return permissions.evolve(
        profile=permissions.profile.evolve(file_system=RestrictedFiles((*permissions.entries, *logins)))
    )


def _permissions_from_list(config: Config, words: list[str]) -> Permissions:
    try:
        return permissions_from_list(words)
    except ValueError as error:
        raise config.error(
            "sandbox_permissions",
            f"`sandbox_permissions` has {str(error)!r}, which is not a permission",
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


def _places_of(permissions: Permissions) -> dict[str, _Word | dict[str, _Word]]:
    """Return the filesystem tables that describe a built-in profile."""
    words = {kind: word for word, kind in _SPECIAL.items() if word != ":project_roots"}
    places: dict[str, _Word | dict[str, _Word]] = {}
    for entry in permissions.entries:
        word = _Word((), entry.access.value)
        if isinstance(entry.path, AbsolutePath):
            places[entry.path.path] = word
        else:
            assert isinstance(entry.path, SpecialPath)
            has_parts = entry.path.kind is Special.WORKSPACE_ROOTS
            places[words[entry.path.kind]] = {".": word} if has_parts else word
    return places


class _Word(Value):
    """A value of a filesystem table, and its key."""

    key: tuple[str, ...]
    value: Any


class _Reader:
    """A reader of a profile and the profiles that it extends.

    Tables are merged before they are read, as in Codex: a key of the child overrides the same key of the parent. If both have a
    table for a path, their entries are merged in the same way. Two notations of one path are two keys, and the stricter one
    applies.
    """

    def __init__(self, config: Config) -> None:
        self._config = config

    def read(self, name: str) -> Permissions:
        """Return the profile of that name."""
        chain = self._chain(name)
        places: dict[str, _Word | dict[str, _Word]] = {}
        roots: dict[str, bool] = {}
        depth: int | None = None
        enabled, rules = False, None
        for profile_name in reversed(chain):
            if profile_name in BUILTIN_PROFILES:
                places |= _places_of(_builtin(self._config, profile_name))
                continue
            table = self._table(profile_name)
            for place, value in (table.get("filesystem") or {}).items():
                if place == _DEPTH:
                    depth = self._depth(profile_name, value)
                else:
                    self._merge(places, profile_name, place, value)
            roots |= {self._root(path): is_root for path, is_root in (table.get("workspace_roots") or {}).items()}
            enabled, rules = self._network(profile_name, table, rules, inherited=enabled)
        profile = ManagedPermissions(
            RestrictedFiles(tuple(dict.fromkeys(self._entries(places))), depth),
            NetworkPermission.ENABLED if enabled else NetworkPermission.RESTRICTED,
        )
        return Permissions(
            profile=profile,
            id=name,
            extends=self._table(name).get("extends"),
            workspace_roots=tuple(path for path, is_root in roots.items() if is_root),
            network_rules=rules if enabled else None,
        )

    def _table(self, name: str) -> Mapping[str, Any]:
        return self._config.get("permissions")[name] or {}

    def _chain(self, name: str) -> list[str]:
        """Return the names of the profile and of all profiles that it extends, starting with itself."""
        chain = [name]
        while chain[-1] not in BUILTIN_PROFILES and (parent := self._table(chain[-1]).get("extends")) is not None:
            last = chain[-1]
            key = ("permissions", last, "extends")
            if parent in chain:
                fact = f"the permission profile {last!r} extends itself ({' -> '.join((*chain, parent))})"
                raise self._error(key, fact, "Remove one `extends`.")
            if parent == FULL_ACCESS_ID:
                raise self._error(
                    key,
                    f"{last!r} extends {parent!r}, which has no limits that could be extended",
                    'Set `":root" = "write"` under its filesystem instead, or extend :workspace.',
                )
            if parent not in BUILTIN_PROFILES and parent not in self._config.get("permissions"):
                known = ", ".join(profile_names(self._config))
                raise self._error(
                    key,
                    f"{last!r} extends {parent!r}, which does not exist; existing profiles: {known}",
                    "Use one of them.",
                )
            chain.append(parent)
        return chain

    def _merge(self, places: dict[str, _Word | dict[str, _Word]], name: str, place: str, value: Any) -> None:
        key = ("permissions", name, "filesystem", place)
        if not isinstance(value, Mapping):
            places[place] = _Word(key, value)
            return
        inner = places.get(place)
        words = {sub: _Word((*key, sub), word) for sub, word in value.items()}
        places[place] = {**inner, **words} if isinstance(inner, dict) else words

    def _entries(self, places: Mapping[str, _Word | dict[str, _Word]]) -> Iterator[FileEntry]:
        for place, value in places.items():
            words = {None: value} if isinstance(value, _Word) else value
            for sub, word in words.items():
                yield self._entry(word.key, self._place(word.key, place, sub), word.value)

    def _root(self, path: str) -> str:
        """Return a workspace root as an absolute path. Relative paths are resolved against the working folder, as in Codex."""
        home = path == "~" or path.startswith("~/")
        return path if home else os.path.normpath(self._config.cwd / path)

    def _depth(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            key = ("permissions", name, "filesystem", _DEPTH)
            raise self._error(
                key,
                f"`{_DEPTH}` is {value!r}, but must be an integer of at least 1",
                "Set it to the depth of the search in folders.",
            )
        return value

    def _entry(self, key: tuple[str, ...], path: FilePath, word: Any) -> FileEntry:
        word = "deny" if word == "none" else word
        if not isinstance(word, str) or word not in tuple(AccessMode):
            raise self._error(key, f"{key[-1]!r} is {word!r}, but must be read, write or deny", "Fix the value.")
        access = AccessMode(word)
        if isinstance(path, SpecialPath) and path.kind is Special.UNKNOWN and access is AccessMode.DENY:
            fact = f"{path.path!r} is not a known path, so it cannot be denied"
            raise self._error(key, fact, f"Use one of {_KNOWN}, or a path.")
        pattern = path.pattern if isinstance(path, GlobPattern) else getattr(path, "subpath", None) or ""
        if has_wildcards(pattern):
            if access is not AccessMode.DENY:
                hint = "Use the folder itself, which includes everything below it, or write deny."
                raise self._error(key, f"the pattern {key[-1]!r} can only be denied, not set to {word!r}", hint)
            self._check_pattern(key, path, pattern)
        return FileEntry(path, access)

    def _check_pattern(self, key: tuple[str, ...], path: FilePath, pattern: str) -> None:
        try:
            expanded = alternatives(pattern)
        except ValueError as error:
            hint = "Fix it. A backslash makes the next character literal."
            raise self._error(key, f"the pattern {key[-1]!r} is invalid: {error}", hint) from None
        if ".." in pattern.split("/"):
            raise self._error(key, f"the pattern {key[-1]!r} contains `..`", "Remove it.")
        if isinstance(path, GlobPattern) and any(
            static_prefix(path) == "/" for path in expanded if path.startswith("/")
        ):
            fact = f"the pattern {key[-1]!r} starts at the root, which would require searching the whole disk"
            raise self._error(key, fact, "Start it with the name of a folder.")

    def _place(self, key: tuple[str, ...], place: str, sub: str | None) -> FilePath:
        sub = None if sub in (None, "", ".") else sub
        if "\0" in place:
            raise self._error(key, f"{place!r} contains a NUL character", "Remove it.")
        if sub is not None:
            sub = self._below(key, sub)
        if place.startswith(":"):
            kind = _SPECIAL.get(place)
            if kind is None:  # a newer Codex may support it; see _entry
                return SpecialPath(Special.UNKNOWN, sub, place)
            if sub is not None and kind is not Special.WORKSPACE_ROOTS:
                raise self._error(key, f"{place} cannot have a table", "Only :workspace_roots and paths can have one.")
            return SpecialPath(kind, sub)
        if not place.startswith(("/", "~/")) and place != "~":
            hint = 'Start it with / or ~/, or put it in a table: ":workspace_roots" = { "PATH" = "deny" }.'
            raise self._error(key, f"{place!r} is not an absolute path", hint)
        path = place if sub is None else f"{place.rstrip('/')}/{sub}"
        path = path.removesuffix("/**") or "/"
        return GlobPattern(path) if has_wildcards(path) else AbsolutePath(path)

    def _below(self, key: tuple[str, ...], sub: str) -> str:
        if sub.startswith(("/", "~")) or ".." in sub.split("/") or "\0" in sub:
            raise self._error(key, f"{sub!r} is not below {key[-2]!r}", "Write a relative path without `..`.")
        return sub.removesuffix("/**").rstrip("/")

    def _network(
        self, name: str, table: Mapping[str, Any], rules: NetworkRules | None, *, inherited: bool
    ) -> tuple[bool, NetworkRules | None]:
        """Return whether the network is enabled, and the proxy's rules, or None.

        Args:
            rules: The rules of the parent profile. None without rules.
            inherited: Whether the parent enables the network.
        """
        given = dict(table.get("network") or {})
        enabled = given.pop("enabled", inherited)
        key = ("permissions", name, "network")
        if not isinstance(enabled, bool):
            raise self._error((*key, "enabled"), f"`enabled` is {enabled!r}", "Write true or false.")
        for word in IDLE_NETWORK_SETTINGS:
            given.pop(word, None)
        all_sockets = given.pop("dangerously_allow_all_unix_sockets", False)
        if not isinstance(all_sockets, bool):
            word = "dangerously_allow_all_unix_sockets"
            raise self._error((*key, word), f"`{word}` is {all_sockets!r}", "Write true or false.")
        known = {field.name for field in fields_of(NetworkRules)}
        for word, value in tuple(given.items()):
            if word not in known:
                if self._config.get("framework.unknown_keys") != "warn":
                    hint = 'Remove it. To have it ignored, set `unknown_keys = "warn"` in [framework].'
                    raise self._error((*key, word), f"`{word}` is not a network setting", hint)
                del given[word]
                continue
            self._check_network((*key, word), word, value)
        if all_sockets:
            given["unix_sockets"] = {"*": "allow", **given.get("unix_sockets", {})}
        if not given:
            return enabled, rules
        base = rules or NetworkRules()
        if "unix_sockets" in given:  # Codex 0.169 has deny, older ones none
            given["unix_sockets"] = {
                path: "allow" if word == "allow" else "none" for path, word in given["unix_sockets"].items()
            }
        for word in ("domains", "unix_sockets"):
            if word in given:
                given[word] = {**getattr(base, word), **given[word]}
        return enabled, base.evolve(**given)

    def _check_network(self, key: tuple[str, ...], word: str, value: Any) -> None:
        if word in ("domains", "unix_sockets"):
            words = ("allow", "deny") if word == "domains" else ("allow", "deny", "none")
            if not isinstance(value, Mapping):
                raise self._error(key, f"`{word}` is {value!r}, not a table", f'Write {{ "NAME" = "{words[0]}" }}.')
            for name, answer in value.items():
                if not isinstance(answer, str) or answer not in words:
                    fact = f"{name!r} is {answer!r}, but must be {' or '.join(words)}"
                    raise self._error((*key, name), fact, "Fix the value.")
                if word == "domains" and answer == "deny" and set(name) == {"*"}:
                    hint = "Remove it, because hosts that are not allowed are refused anyway. Or set `enabled = false`."
                    raise self._error((*key, name), f"{name!r} can only be allowed, not denied", hint)
        elif word == "mode":
            if value not in ("full", "limited"):
                raise self._error(key, f"`mode` is {value!r}", "Write full or limited.")
        elif not isinstance(value, bool):
            raise self._error(key, f"`{word}` is {value!r}", "Write true or false.")

    def _error(self, key: tuple[str, ...], fact: str, hint: str) -> ConfigError:
        return self._config.error(key, fact, hint=hint, slug="permissions")
