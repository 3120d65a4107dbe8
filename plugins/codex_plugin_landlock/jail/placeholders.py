"""Placeholders: empty folders in place of protected or denied paths that do not exist, so that there is something to mount over.

A sandbox of another process may need the same placeholder at the same time. So each user of a placeholder holds a shared lock
on it, and the last one removes it. An unusual mode distinguishes a placeholder from a user's folder, so one that a killed
process left behind is removed by its next user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable

__all__ = ["hold", "release"]

_MODE = 0o1755
_ATTEMPTS = 50


def hold(paths: Iterable[str]) -> dict[str, int]:
    """Create placeholders for missing ``paths``, outer ones first, lock all placeholders among them, and return their descriptors.

    A path whose parent does not exist, or is not writable for this user, needs no protection and is skipped.
    """
    placeholders: dict[str, int] = {}
    for path in paths:
        descriptor = _hold(path)
        if descriptor is not None:
            placeholders[path] = descriptor
    return placeholders


def _hold(path: str) -> int | None:
    for _ in range(_ATTEMPTS):
        try:
            os.mkdir(path, _MODE)
            os.chmod(path, _MODE)
        except FileExistsError:
            pass
        except OSError:
            return None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its last user has just removed it
        except OSError:
            return None
        if not _is_placeholder(descriptor):
            os.close(descriptor)
            return None
        if _lock(descriptor, fcntl.LOCK_SH) and _same(descriptor, path):
            return descriptor
        os.close(descriptor)
    return None


def release(placeholders: dict[str, int]) -> None:
    """Unlock placeholders, and remove those that nobody else uses, inner ones first."""
    for path, descriptor in reversed(placeholders.items()):
        if _lock(descriptor, fcntl.LOCK_EX) and _same(descriptor, path):
            _remove(path)
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:  # something was created in it, so it is now an ordinary folder
        with contextlib.suppress(OSError):
            os.chmod(path, _MODE & 0o777)


def _is_placeholder(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_IMODE(status.st_mode) == _MODE and status.st_uid == os.geteuid()


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _same(descriptor: int, path: str) -> bool:
    """Return whether ``path`` is still the opened folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
