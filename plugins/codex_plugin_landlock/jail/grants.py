"""The rules for Landlock: folders and files, each with the rights for everything below it.

Landlock does not support exceptions below an allowed folder. With namespaces, mounts provide the exceptions. Without them,
each existing entry next to an exception is allowed individually.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import landlock
from .parts import DENIED, READ_ONLY, WRITABLE, above, parts

__all__ = ["MAX_ENTRIES", "allowed", "count_entries", "enumerated", "outer_devices", "rules"]

MAX_ENTRIES = 20_000
"""Maximum number of entries that are allowed individually. Each costs about 20 microseconds when a sandbox is set up."""

_ALL = -1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_RIGHTS = landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV
_RIGHTS = {DENIED: 0, READ_ONLY: landlock.READ, WRITABLE: _ALL}
_RANK = {DENIED: 0, READ_ONLY: 1, WRITABLE: 2}

Kinds = Mapping[str, str]
"""The kind of each path, which applies at and below it."""


def outer_devices() -> list[tuple[int, int]]:
    """Return rules for the devices that may be standard streams, so that a command can reopen them through ``/dev/stdout``."""
    devices = []
    for path in ("/dev/null", "/dev/pts"):
        with contextlib.suppress(OSError):
            devices.append((os.open(path, os.O_PATH | os.O_CLOEXEC), _DEVICE_RIGHTS))
    return devices


def rules(plan: dict[str, Any], *, own_mounts: bool) -> Iterator[tuple[int, int]]:
    """Yield descriptors of folders and files with the rights below each; -1 means all rights.

    A descriptor is closed when the next one is requested.

    Args:
        plan: The data of a plan.
        own_mounts: Whether mounts protect the exceptions in allowed folders.

    Raises:
        OSError: There are too many entries to allow them individually.
    """
    kinds = _kinds(plan)
    grants = _whole(kinds) if own_mounts else _entry_by_entry(kinds)
    for path, rights in grants:
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
        return  # the command cannot reach it either
    try:
        yield descriptor, rights
    finally:
        os.close(descriptor)


def _kinds(plan: Mapping[str, Any]) -> dict[str, str]:
    return {"/": plan["root"], **{part.path: part.kind for part in parts(plan) if not part.pinned}}


def _whole(kinds: Kinds) -> Iterator[tuple[str, int]]:
    reads_everything = kinds["/"] != DENIED
    for path, kind in kinds.items():
        if kind == WRITABLE or (kind == READ_ONLY and (path == "/" or not reads_everything)):
            yield path, _RIGHTS[kind]


def _entry_by_entry(kinds: Kinds) -> Iterator[tuple[str, int]]:
    for count, grant in enumerate(allowed(kinds)):
        if count >= MAX_ENTRIES:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), "entries next to denied or protected paths")
        yield grant


def enumerated(plan: Mapping[str, Any]) -> list[str]:
    """Return the folders whose entries must be allowed individually if there are no mounts. The rules depend on their content."""
    folders: list[str] = []
    for _ in allowed(_kinds(plan), folders, listing=False):
        pass
    return folders


def count_entries(plan: Mapping[str, Any]) -> int:
    """Return the number of entries in the folders that :func:`enumerated` returns."""
    return sum(len(_names(folder)) for folder in enumerated(plan))


def allowed(kinds: Kinds, folders: list[str] | None = None, *, listing: bool = True) -> Iterator[tuple[str, int]]:
    """Yield paths with their rights, outer ones first, so that each existing path can be used according to its kind.

    Names that are created later in an enumerated folder are not allowed. Protected or denied paths that do not exist are not
    protected. Denied folders that contain an allowed path can be listed.

    Args:
        kinds: The kind of each path. ``/`` is included.
        folders: A list to which the enumerated folders are added. None if they are not needed.
        listing: Whether to list the entries of folders. Otherwise, only parents of paths in ``kinds`` are visited, and the
            yielded rules are meaningless.
    """
    inside = {path: kind for path, kind in kinds.items() if path != "/" and os.path.lexists(path)}
    return _path_rules("/", kinds["/"], inside, 0, [] if folders is None else folders, listing=listing)


def _path_rules(
    path: str, kind: str, inside: Kinds, given: int, folders: list[str], *, listing: bool
) -> Iterator[tuple[str, int]]:
    """Yield the rules for one path. ``inside`` has the kinds below it, and ``given`` is the rank that a parent folder allows."""
    whole = min((kind, *inside.values()), key=_RANK.__getitem__)
    if _RANK[whole] > given:
        yield path, _RIGHTS[whole]
        given = _RANK[whole]
    if kind == whole:
        for child, below in _group_paths(inside, lambda name: _outermost(name, inside)).items():
            yield from _path_rules(child, inside[child], below, given, folders, listing=listing)
        return
    if whole == DENIED:
        yield path, landlock.READ_DIR
    folders.append(path)
    prefix = path if path.endswith("/") else f"{path}/"
    children = _group_paths(inside, lambda name: prefix + name[len(prefix) :].split("/", 1)[0])
    for child, below in children.items():
        yield from _path_rules(child, inside.get(child, kind), below, given, folders, listing=listing)
    for entry in (prefix + name for name in (_names(path) if listing else ())):
        if entry not in children and not os.path.islink(entry):
            yield entry, _RIGHTS[kind]


def _group_paths(paths: Kinds, group: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """Group the paths by the result of ``group``. A path that equals its group's name is omitted."""
    groups: dict[str, dict[str, str]] = {}
    for path, kind in paths.items():
        name = group(path)
        members = groups.setdefault(name, {})
        if path != name:
            members[path] = kind
    return groups


def _outermost(path: str, paths: Kinds) -> str:
    return next((folder for folder in reversed([*above(path)]) if folder in paths), path)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
