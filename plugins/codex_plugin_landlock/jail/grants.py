"""What Landlock is to allow: folders and files with the rights below them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from . import landlock

__all__ = ["allowed_below", "outer_devices", "rules"]

_ALL = -1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_RIGHTS = landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV


def outer_devices() -> list[tuple[int, int]]:
    """Grants for what a command's standard streams may be, so that re-opening them by way of ``/dev/stdout`` works."""
    found = []
    for path in ("/dev/null", "/dev/pts"):
        with contextlib.suppress(OSError):
            found.append((os.open(path, os.O_PATH | os.O_CLOEXEC), _DEVICE_RIGHTS))
    return found


def rules(plan: dict[str, Any], *, own_mounts: bool) -> Iterator[tuple[int, int]]:
    """Descriptors of folders and files, each with the rights below it (-1: all); the caller closes them.

    Args:
        plan: A plan's data.
        own_mounts: Mounts keep what is protected inside of the writable folders.
    """
    yield from _rule("/", landlock.READ)
    granted: list[str] = list(plan["writable"])
    if not own_mounts:
        granted = [path for root in granted for path in allowed_below(root, plan["read_only"], plan["writable"])]
    for path in granted:
        yield from _rule(path, _ALL)
    for name in _DEVICES:
        yield from _rule(f"/dev/{name}", _DEVICE_RIGHTS)
    yield from _rule("/dev/pts", _DEVICE_RIGHTS | landlock.READ)
    yield from _rule("/dev/ptmx", _DEVICE_RIGHTS)
    yield from _rule("/dev/shm", _ALL)  # noqa: S108


def _rule(path: str, rights: int) -> Iterator[tuple[int, int]]:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    yield descriptor, rights


def allowed_below(root: str, kept: list[str], roots: list[str]) -> Iterator[str]:
    """What to grant so that ``root`` can be written but what is kept in it can't: the root itself, or else its entries.

    Landlock knows no exceptions below a granted folder. So names that appear in an enumerated folder later are not granted, and
    kept names that do not exist yet can't be kept where their folder is granted as a whole.
    """
    prefix = root if root.endswith("/") else f"{root}/"
    inside = [path for path in kept if path.startswith(prefix) and os.path.lexists(path)]
    if not inside:
        yield root
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(root):
            path = prefix + name
            if path in inside or path in roots or os.path.islink(path):
                continue
            yield from allowed_below(path, inside, roots)
