"""What Landlock is to allow: folders and files with the rights below them.

Landlock knows no exceptions below what it allows. Where mounts keep the exceptions, as with namespaces, that does not matter. Without
them, what stands around an exception is allowed entry by entry, from the entries that there are.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import landlock
from .parts import DENIED, READ_ONLY, WRITABLE, above, parts

__all__ = ["MOST_ENTRIES", "allowed", "count_entries", "enumerated", "outer_devices", "rules"]

MOST_ENTRIES = 20_000
"""How many entries are allowed one by one at most; each costs some 20 microseconds when a sandbox is set up."""

_ALL = -1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_RIGHTS = landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV
_RIGHTS = {DENIED: 0, READ_ONLY: landlock.READ, WRITABLE: _ALL}
_RANK = {DENIED: 0, READ_ONLY: 1, WRITABLE: 2}

Kinds = Mapping[str, str]
"""Paths, each with what may be done at and below it."""


def outer_devices() -> list[tuple[int, int]]:
    """Grants for what a command's standard streams may be, so that re-opening them by way of ``/dev/stdout`` works."""
    found = []
    for path in ("/dev/null", "/dev/pts"):
        with contextlib.suppress(OSError):
            found.append((os.open(path, os.O_PATH | os.O_CLOEXEC), _DEVICE_RIGHTS))
    return found


def rules(plan: dict[str, Any], *, own_mounts: bool) -> Iterator[tuple[int, int]]:
    """Descriptors of folders and files, each with the rights below it (-1: all); one is closed when the next is asked for.

    Args:
        plan: A plan's data.
        own_mounts: Mounts keep what is protected inside of what is allowed.

    Raises:
        OSError: There are too many entries to allow them one by one.
    """
    kinds = _kinds(plan)
    places = _all_of(kinds) if own_mounts else _entry_by_entry(kinds)
    for path, rights in places:
        yield from _rule(path, rights, os.O_NOFOLLOW)
    if plan["root"] == DENIED:
        yield from _rule("/proc", landlock.READ)
        if own_mounts:
            yield from _rule("/dev", landlock.READ)
    devices = {f"/dev/{name}": _DEVICE_RIGHTS for name in (*_DEVICES, "ptmx")}
    devices |= {"/dev/pts": _DEVICE_RIGHTS | landlock.READ, "/dev/shm": _ALL}  # noqa: S108
    for path, rights in devices.items():
        if kinds.get(path) != DENIED:
            yield from _rule(path, rights)


def _rule(path: str, rights: int, flags: int = 0) -> Iterator[tuple[int, int]]:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nor can the command reach it
    try:
        yield descriptor, rights
    finally:
        os.close(descriptor)


def _kinds(plan: Mapping[str, Any]) -> dict[str, str]:
    return {"/": plan["root"], **{part.path: part.kind for part in parts(plan) if not part.pinned}}


def _all_of(kinds: Kinds) -> Iterator[tuple[str, int]]:
    reads_everything = kinds["/"] != DENIED
    for path, kind in kinds.items():
        if kind == WRITABLE or (kind == READ_ONLY and (path == "/" or not reads_everything)):
            yield path, _RIGHTS[kind]


def _entry_by_entry(kinds: Kinds) -> Iterator[tuple[str, int]]:
    for count, grant in enumerate(allowed(kinds)):
        if count >= MOST_ENTRIES:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), "entries beside what is denied or protected")
        yield grant


def enumerated(plan: Mapping[str, Any]) -> list[str]:
    """The folders whose entries are allowed one by one without mounts: what is allowed depends on what is in them."""
    folders: list[str] = []
    for _ in allowed(_kinds(plan), folders, listing=False):
        pass
    return folders


def count_entries(plan: Mapping[str, Any]) -> int:
    """How many entries stand in those folders."""
    return sum(len(_names(folder)) for folder in enumerated(plan))


def allowed(kinds: Kinds, folders: list[str] | None = None, *, listing: bool = True) -> Iterator[tuple[str, int]]:
    """What to allow so that each existing path can be used as its kind says: paths with rights, outer ones first.

    Names that appear later in an enumerated folder are not allowed; what is protected or denied and does not exist is not kept.
    Denied folders around which something is allowed can be listed.

    Args:
        kinds: What may be done; ``/`` is among them.
        folders: Gets the enumerated folders.
        listing: Look at the entries; otherwise only ways to what is in ``kinds`` are followed, and what is yielded means nothing.
    """
    inside = {path: kind for path, kind in kinds.items() if path != "/" and os.path.lexists(path)}
    return _allowed("/", kinds["/"], inside, 0, [] if folders is None else folders, listing=listing)


def _allowed(
    path: str, kind: str, inside: Kinds, given: int, folders: list[str], *, listing: bool
) -> Iterator[tuple[str, int]]:
    """``inside``: what lies below ``path``. ``given``: the rank of what a folder above was allowed as a whole."""
    whole = min((kind, *inside.values()), key=_RANK.__getitem__)
    if _RANK[whole] > given:
        yield path, _RIGHTS[whole]
        given = _RANK[whole]
    if kind == whole:
        for one, below in _grouped(inside, lambda one: _outermost(one, inside)).items():
            yield from _allowed(one, inside[one], below, given, folders, listing=listing)
        return
    if whole == DENIED:
        yield path, landlock.READ_DIR
    folders.append(path)
    prefix = path if path.endswith("/") else f"{path}/"
    ways = _grouped(inside, lambda one: prefix + one[len(prefix) :].split("/", 1)[0])
    for one, below in ways.items():
        yield from _allowed(one, inside.get(one, kind), below, given, folders, listing=listing)
    for one in (prefix + name for name in (_names(path) if listing else ())):
        if one not in ways and not os.path.islink(one):
            yield one, _RIGHTS[kind]


def _grouped(paths: Kinds, group: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """The paths by group, each without the one that is the group's name."""
    groups: dict[str, dict[str, str]] = {}
    for path, kind in paths.items():
        name = group(path)
        members = groups.setdefault(name, {})
        if path != name:
            members[path] = kind
    return groups


def _outermost(path: str, paths: Kinds) -> str:
    return next((one for one in reversed([*above(path)]) if one in paths), path)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
