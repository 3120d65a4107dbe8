"""Conversion of a turn's access into a plan, which is plain data for the launcher."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codex_framework import AccessMode, FileAccess, SandboxError
from codex_lib_confinement.paths import is_below
from codex_plugin_landlock.jail.parts import (
    DENIED,
    DEV,
    PROC,
    READ_ONLY,
    TMP,
    WRITABLE,
    Part,
    above,
    enclosing,
    wanted,
)

__all__ = ["Plan", "check_entries", "fits", "plan_for", "signature"]

_KINDS = {AccessMode.WRITE: WRITABLE, AccessMode.READ: READ_ONLY, AccessMode.DENY: DENIED}
_LIMITS = ("processes", "memory_bytes", "file_bytes")

_PLACEHOLDER = "placeholder"
"""The mark for placeholders, which are folders that the launcher creates at missing paths."""


class Plan:
    """The permissions of a sandbox, as paths. Immutable.

    Attributes:
        kinds: The kind of each path: ``writable``, ``read-only`` or ``denied``. The nearest path at or above a
            file applies to it. ``/`` is always included.
        globs: Patterns for additional denied paths. A plan with patterns must be :meth:`resolved` before use.
        glob_depth: How many folders deep the patterns are searched. By default, there is no limit.
        network: The network access: ``off``, ``loopback``, ``proxy`` or ``on``.
        limits: ``processes``, ``memory_bytes`` and ``file_bytes``. By default, there is no limit.
        private_tmp: Whether commands have a private, writable ``/tmp``.
        floor: The protections that must be enforced, sorted by name.
        parts: The paths whose kind differs from their surroundings, and folders that must not be moved. Outer paths come
            first.
        key: The whole plan as text. Equal plans have equal keys.
    """

    def __init__(
        self,
        *,
        kinds: Mapping[str, str],
        network: str,
        limits: Mapping[str, int | None],
        globs: tuple[str, ...] = (),
        glob_depth: int | None = None,
        private_tmp: bool = False,
        floor: tuple[str, ...] = (),
    ) -> None:
        self.kinds = kinds
        self.globs = globs
        self.glob_depth = glob_depth
        self.network = network
        self.limits = limits
        self.private_tmp = private_tmp
        self.floor = floor
        self.parts: tuple[Part, ...] = tuple(_parts(kinds, private_tmp=private_tmp))
        self.key = json.dumps((self.data, globs, glob_depth))

    @property
    def data(self) -> dict[str, Any]:
        """The plan as a JSON object, without patterns. File names are in UTF-8, which the launcher uses in every locale."""
        return {
            "root": self.kinds["/"],
            "parts": [(_utf8(path), kind, pinned) for path, kind, pinned in self.parts],
            "network": self.network,
            "limits": dict(self.limits),
            "private_tmp": self.private_tmp,
            "floor": self.floor,
        }

    @property
    def denies(self) -> bool:
        """Whether any path is denied. Patterns are not considered."""
        return DENIED in self.kinds.values()

    def resolved(self) -> Plan:
        """Return a plan with the current matches in place of the patterns, or this plan if it has no patterns.

        This searches folders. If a match is a symlink, its target is denied too, unless a rule allows the target or something
        in it.

        Raises:
            SandboxError: A pattern matches too many paths.
        """
        if not self.globs:
            return self
        from codex_framework.contract.permissions.globs import expand

        kinds = dict(self.kinds)
        matches = [path for path in expand(self.globs, self.glob_depth, reopened=kinds) if not is_below(path, PROC)]
        allowed = [path for path, kind in kinds.items() if kind != DENIED]
        for target in filter(None, map(_target, matches)):
            is_private = is_below(target, DEV) or is_below(target, PROC)
            if not is_private and not any(path == target or is_below(path, target) for path in allowed):
                kinds[target] = DENIED
        kinds |= dict.fromkeys(matches, DENIED)
        return Plan(
            kinds=kinds,
            network=self.network,
            limits=self.limits,
            glob_depth=self.glob_depth,
            private_tmp=self.private_tmp,
            floor=self.floor,
        )


def plan_for(access: FileAccess) -> Plan:
    """Return the plan for ``access``. This reads no files.

    Raises:
        SandboxError: A rule denies ``/proc`` or a path below it, or makes it writable. Commands have their own ``/proc``.
    """
    limits = {name: getattr(access.limits, name) for name in _LIMITS}
    floor = tuple(sorted(access.floor))
    if access.full:
        return Plan(kinds={"/": WRITABLE}, network=access.network.value, limits=limits, floor=floor)
    kinds = {"/": _KINDS[access.otherwise]}
    for rule in access.rules:
        path = str(rule.path)
        if path == PROC or is_below(path, PROC):
            _check_proc(path, rule.access)
        else:
            kinds[path] = _KINDS[rule.access]
    private = access.private_tmp and kinds.get(TMP, kinds["/"]) == WRITABLE
    return Plan(
        kinds=kinds,
        network=access.network.value,
        limits=limits,
        globs=access.denied_globs,
        glob_depth=access.glob_depth,
        private_tmp=private,
        floor=floor,
    )


def _check_proc(path: str, access: AccessMode) -> None:
    if access is not AccessMode.READ:
        raise SandboxError(
            f"{path} cannot be {'denied' if access is AccessMode.DENY else 'made writable'}: "
            f"commands have their own read-only {PROC}, with only their own processes",
            hint=f"remove the rule for {path} from the permission profile",
        )


def _parts(kinds: Mapping[str, str], *, private_tmp: bool) -> Iterable[Part]:
    """Return the paths whose kind differs from their surroundings, and the writable folders between these paths.

    By renaming a folder, a command could move the protected paths in it away and replace them. A folder that is a mount point
    cannot be renamed. The sandbox has its own ``/dev``, so every path below it counts as different.
    """
    changed = {"/": kinds["/"]}
    if private_tmp:
        changed[TMP] = WRITABLE
    pinned: dict[str, str] = {}
    for path in sorted(kinds, key=_depth):
        outer = enclosing(changed, path)
        is_private = is_below(path, DEV) and not is_below(outer, DEV)
        if path == "/" or (kinds[path] == changed[outer] and not is_private and not (private_tmp and outer == TMP)):
            continue
        changed[path] = kinds[path]
        if changed[outer] == WRITABLE and not is_private:
            pinned |= dict.fromkeys(_between(outer, path), WRITABLE)
    result = [Part(path, kind) for path, kind in changed.items() if path != "/"]
    result += [Part(path, kind, pinned=True) for path, kind in pinned.items()]
    return sorted(result, key=lambda part: (_depth(part.path), part.path))


def _depth(path: str) -> int:
    return path.count("/") if path != "/" else 0


def _between(folder: str, path: str) -> Iterator[str]:
    """Return the folders strictly between ``folder`` and ``path``."""
    return (parent for parent in above(path) if is_below(parent, folder))


def _target(path: str) -> str | None:
    """Return the target of a symlink, or None if the path is not a symlink or its target does not exist."""
    if not os.path.islink(path) or not os.path.exists(path):  # noqa: PTH110, PTH114
        return None
    return os.path.realpath(path)


def _utf8(path: str) -> str:
    if sys.getfilesystemencoding() == "utf-8":
        return path
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def check_entries(data: Mapping[str, Any]) -> None:
    """Check that a plan does not need too many rules for individual entries. Only sandboxes without namespaces need them.

    Args:
        data: The data of a plan.

    Raises:
        SandboxError: There are too many entries.
    """
    from codex_plugin_landlock.jail.grants import MAX_ENTRIES, count_entries

    count = count_entries(data)
    if count > MAX_ENTRIES:
        raise SandboxError(
            f"{count} files and folders are next to denied or protected ones. Without namespaces each must be allowed "
            f"individually, which is limited to {MAX_ENTRIES}",
            hint="allow user namespaces, or protect whole folders that have fewer entries next to them",
        )


def signature(plan: Plan, *, entries: bool) -> tuple[object, ...]:
    """Return the facts about the file system that a running sandbox depends on. :func:`fits` compares them.

    Args:
        plan: The plan.
        entries: Whether to include the modification times of folders whose entries are allowed individually.
    """
    kinds = {"/": plan.kinds["/"], **{part.path: part.kind for part in plan.parts}}
    facts: list[object] = []
    for path, kind, _ in plan.parts:
        is_private = (
            kinds[enclosing(kinds, path)] == DENIED
        )  # the mount point belongs to the sandbox, so nobody can remove it
        facts.append(_identity(path) if is_private or kind == WRITABLE else _form(path))
    if entries:
        from codex_plugin_landlock.jail.grants import enumerated

        facts += [_modified_at(path) for path in enumerated(plan.data)]
    return tuple(facts)


def fits(plan: Plan, before: tuple[object, ...], now: tuple[object, ...], *, placed: bool) -> bool:
    """Return whether a sandbox can be reused, that is, whether the facts on which its set-up was based are still true.

    Args:
        plan: The plan.
        before: The signature when it was started or last used.
        now: The current signature.
        placed: Whether the sandbox has placeholders for missing paths. Removing a placeholder also removes its mount.
    """
    if len(before) != len(now):
        return False
    missing = [part.path for part, fact in zip(plan.parts, now, strict=False) if fact is None] if placed else []
    if missing:
        unprotected = set(wanted(plan.data)).intersection(missing)
        if any(os.access(os.path.dirname(path), os.W_OK) for path in unprotected):  # noqa: PTH120
            return False
    return all(old == new or (old is None and _is_placeholder(new)) for old, new in zip(before, now, strict=True))


def _is_placeholder(entry: object) -> bool:
    return isinstance(entry, tuple) and entry[0] == _PLACEHOLDER


def _identity(path: str) -> object:
    status = _status(path)
    if status is None:
        return None
    from codex_framework.toolkit.placeholders import is_marked

    if is_marked(status):
        return (_PLACEHOLDER, status.st_dev, status.st_ino)
    return (status.st_dev, status.st_ino)


def _form(path: str) -> object:
    """Return the facts that a mount over a path depends on.

    The mount disappears when the path is removed, and the file system may immediately reuse the inode number for a new path. The
    time of the last change distinguishes them. A command can neither reset this time nor change it from inside the sandbox.
    """
    status = _status(path)
    if status is None:
        return None
    from codex_framework.toolkit.placeholders import is_marked

    form = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return (_PLACEHOLDER, *form) if is_marked(status) else form


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _modified_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0
