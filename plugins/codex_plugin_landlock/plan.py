"""From a turn's access to a plan: plain data that the launcher understands."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from codex_framework import AccessMode, FileAccess, SandboxError
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
    is_below,
    wanted,
)

__all__ = ["Plan", "check_entries", "fits", "plan_for", "signature"]

_KINDS = {AccessMode.WRITE: WRITABLE, AccessMode.READ: READ_ONLY, AccessMode.DENY: DENIED}
_LIMITS = ("processes", "memory_bytes", "file_bytes")

_PLACEHOLDER, _PLACEHOLDER_MODE = "placeholder", 0o1755
"""Folders that the launcher puts in place of missing names look like this (see ``jail.placeholders``)."""


@attrs.frozen(kw_only=True)
class Plan:
    """What a sandbox does, as paths.

    Attributes:
        kinds: Paths with ``writable``, ``read-only`` or ``denied``: the nearest at or above a path decides. Always has ``/``.
        globs: Patterns of what is denied besides. A plan that has some is to be :meth:`resolved` before it is carried out.
        glob_depth: How many folders deep they are looked for.
        network: How the network is reached: ``off``, ``loopback``, ``proxy`` or ``on``.
        limits: ``processes``, ``memory_bytes`` and ``file_bytes``, each a number or None.
        private_tmp: ``/tmp`` may be written, and is the commands' own.
        floor: What has to be held back, in order.
        parts: What differs from its surroundings, and folders that must not be moved; outer ones first.
        key: The whole of it as text; equal plans have equal keys.
    """

    kinds: Mapping[str, str]
    globs: tuple[str, ...] = ()
    glob_depth: int | None = None
    network: str
    limits: Mapping[str, int | None]
    private_tmp: bool = False
    floor: tuple[str, ...] = ()
    parts: tuple[Part, ...] = attrs.field(init=False)
    key: str = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_parts(self.kinds, private_tmp=self.private_tmp)))
        object.__setattr__(self, "key", json.dumps((self.data, self.globs, self.glob_depth)))

    @property
    def data(self) -> dict[str, Any]:
        """As a JSON object; patterns are left out. File names are in UTF-8 there, which the launcher uses whatever the locale."""
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
        """Whether there is something that cannot be read, apart from patterns."""
        return DENIED in self.kinds.values()

    def resolved(self) -> Plan:
        """The plan with what its patterns match now; itself where it has none. Walks through folders.

        A match that is a symlink stands for what it leads to as well, unless a rule opens that or something in it.

        Raises:
            SandboxError: Too much matches.
        """
        if not self.globs:
            return self
        kinds = dict(self.kinds)
        matches = [path for path in self._matches() if not is_below(path, PROC)]
        opened = [path for path, kind in kinds.items() if kind != DENIED]
        for target in filter(None, map(_target, matches)):
            own = is_below(target, DEV) or is_below(target, PROC)
            if not own and not any(path == target or is_below(path, target) for path in opened):
                kinds[target] = DENIED
        kinds |= dict.fromkeys(matches, DENIED)
        return attrs.evolve(self, kinds=kinds, globs=())

    def _matches(self) -> list[str]:
        from codex_framework.globs import MATCH_LIMIT, TooManyMatches, expand

        try:
            found = expand(self.globs, self.glob_depth)
            inside = [path for path in self.kinds if any(is_below(path, match) for match in found)]
            inside = [path for path in inside if os.path.lexists(path)]
            return expand(self.globs, self.glob_depth, reopened=inside) if inside else found
        except TooManyMatches as error:
            raise SandboxError(
                f"the pattern {str(error)!r}, which is denied, matches more than {MATCH_LIMIT} files",
                hint="deny the folder that they are in, or make the pattern narrower (glob_scan_max_depth bounds it as well)",
            ) from None


def plan_for(access: FileAccess) -> Plan:
    """The plan for an access. Looks at no file.

    Raises:
        SandboxError: A rule speaks of something that a sandbox cannot give or take.
    """
    plan = Plan(
        kinds={"/": WRITABLE},
        network=access.network.value,
        limits={name: getattr(access.limits, name) for name in _LIMITS},
        floor=tuple(sorted(access.floor)),
    )
    if access.full:
        return plan
    kinds = {"/": _KINDS[access.otherwise]}
    for rule in access.rules:
        path = str(rule.path)
        if path == PROC or is_below(path, PROC):
            _check_proc(path, rule.access)
        else:
            kinds[path] = _KINDS[rule.access]
    private = access.private_tmp and kinds.get(TMP, kinds["/"]) == WRITABLE
    return attrs.evolve(plan, kinds=kinds, globs=access.denied_globs, glob_depth=access.glob_depth, private_tmp=private)


def _check_proc(path: str, access: AccessMode) -> None:
    if access is not AccessMode.READ:
        raise SandboxError(
            f"{path} cannot be {'denied' if access is AccessMode.DENY else 'made writable'}: "
            f"commands have a {PROC} of their own, read-only, with their own processes in it",
            hint=f"remove the rule for {path} from the permission profile",
        )


def _parts(kinds: Mapping[str, str], *, private_tmp: bool) -> Iterable[Part]:
    """What differs from its surroundings, with the folders between it and them where those may be written.

    Whoever may rename a folder could move what is protected in it away, and put something else in its place; a folder with a
    mount of its own cannot be renamed. Below ``/dev``, which is the sandbox's own, everything differs.
    """
    changed = {"/": kinds["/"]}
    if private_tmp:
        changed[TMP] = WRITABLE
    pinned: dict[str, str] = {}
    for path in sorted(kinds, key=_depth):
        around = enclosing(changed, path)
        own = is_below(path, DEV) and not is_below(around, DEV)
        if path == "/" or (kinds[path] == changed[around] and not own and not (private_tmp and around == TMP)):
            continue
        changed[path] = kinds[path]
        if changed[around] == WRITABLE and not own:
            pinned |= dict.fromkeys(_between(around, path), WRITABLE)
    found = [Part(path, kind) for path, kind in changed.items() if path != "/"]
    found += [Part(path, kind, pinned=True) for path, kind in pinned.items()]
    return sorted(found, key=lambda part: (_depth(part.path), part.path))


def _depth(path: str) -> int:
    return path.count("/") if path != "/" else 0


def _between(folder: str, path: str) -> Iterator[str]:
    """The folders strictly between ``folder`` and ``path``."""
    return (one for one in above(path) if is_below(one, folder))


def _target(path: str) -> str | None:
    """What a symlink leads to, if it is one and leads to something."""
    if not os.path.islink(path) or not os.path.exists(path):  # noqa: PTH110, PTH114
        return None
    return os.path.realpath(path)


def _utf8(path: str) -> str:
    if sys.getfilesystemencoding() == "utf-8":
        return path
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def check_entries(data: Mapping[str, Any]) -> None:
    """Refuse a plan for which too much would have to be allowed entry by entry, where there are no namespaces.

    Args:
        data: The plan's.

    Raises:
        SandboxError: There are too many entries.
    """
    from codex_plugin_landlock.jail.grants import MOST_ENTRIES, count_entries

    count = count_entries(data)
    if count > MOST_ENTRIES:
        raise SandboxError(
            f"{count} files and folders stand beside what is denied or protected, and without namespaces each has to be allowed "
            f"by itself; {MOST_ENTRIES} can be",
            hint="allow user namespaces, or protect whole folders that stand beside fewer entries",
        )


def signature(plan: Plan, *, entries: bool) -> tuple[object, ...]:
    """What a running sandbox depends on: which files stand at its paths. To be compared by :func:`fits`.

    Args:
        plan: The plan.
        entries: Also notice names that come and go in folders whose entries are granted one by one.
    """
    kinds = {"/": plan.kinds["/"], **{part.path: part.kind for part in plan.parts}}
    found: list[object] = []
    for path, kind, _ in plan.parts:
        own = kinds[enclosing(kinds, path)] == DENIED  # mounted on a folder of the sandbox's own, which nobody removes
        found.append(_identity(path) if own or kind == WRITABLE else _form(path))
    if entries:
        from codex_plugin_landlock.jail.grants import enumerated

        found += [_changed(path) for path in enumerated(plan.data)]
    return tuple(found)


def fits(plan: Plan, before: tuple[object, ...], now: tuple[object, ...], *, placed: bool) -> bool:
    """Whether a sandbox can be used again: what it was set up for still stands.

    Args:
        plan: The plan.
        before: The signature when it was started, or when it was used last.
        now: The signature now.
        placed: It has put placeholders in place of missing paths; one that somebody has removed took its mount along.
    """
    if len(before) != len(now):
        return False
    missing = [part.path for part, one in zip(plan.parts, now, strict=False) if one is None] if placed else []
    if missing:
        unprotected = set(wanted(plan.data)).intersection(missing)
        if any(os.access(os.path.dirname(path), os.W_OK) for path in unprotected):  # noqa: PTH120
            return False
    return all(was == one or (was is None and _is_placeholder(one)) for was, one in zip(before, now, strict=True))


def _is_placeholder(entry: object) -> bool:
    return isinstance(entry, tuple) and entry[0] == _PLACEHOLDER


def _identity(path: str) -> object:
    status = _status(path)
    if status is None:
        return None
    if stat.S_IMODE(status.st_mode) == _PLACEHOLDER_MODE:
        return (_PLACEHOLDER, status.st_dev, status.st_ino)
    return (status.st_dev, status.st_ino)


def _form(path: str) -> object:
    """What a mount over a path depends on.

    The mount goes when the path is removed, and a file system gives what is made in its place the same inode number at once. The
    time of the last change tells them apart; a command cannot turn it back, nor change it from within.
    """
    status = _status(path)
    if status is None:
        return None
    form = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return (_PLACEHOLDER, *form) if stat.S_IMODE(status.st_mode) == _PLACEHOLDER_MODE else form


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0
