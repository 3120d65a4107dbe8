"""Placeholders: empty folders in place of protected or denied paths that do not exist, so that there is something to mount over.

A sandbox of another process may need the same placeholder at the same time. So each user of a placeholder takes a shared lock
on it, and the last user removes it. An unusual mode distinguishes a placeholder from a user's folder, so the placeholder of a
killed process is removed by its next user, or by :func:`remove_abandoned`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable

__all__ = ["Placeholders", "is_marked", "is_placeholder", "remove_abandoned"]

_MODE = 0o1755
_ATTEMPTS = 50


class Placeholders:
    """The placeholders of one sandbox. They stay locked until :meth:`release`.

    Args:
        paths: Missing paths, and paths at which another sandbox has a placeholder; outer ones first. A path at which something
            else exists is skipped.
        lenient: Whether a path is skipped as well if no placeholder can be created for it: its parent does not exist, or is not
            writable for this user, so no command of this user can create it either.

    Raises:
        SandboxError: A placeholder cannot be created or locked.
    """

    def __init__(self, paths: Iterable[str], *, lenient: bool = False) -> None:
        self._held: list[tuple[str, int]] = []
        for path in paths:
            try:
                descriptor = _hold(path)
            except OSError as error:
                if lenient:
                    continue
                self.release()
                from codex_framework.contract.errors import SandboxError

                raise SandboxError(
                    f"a placeholder for {path} cannot be created: {error.strerror}",
                    hint="create that folder, or remove its parent from the writable folders",
                ) from error
            if descriptor is not None:
                self._held.append((path, descriptor))

    def release(self) -> None:
        """Unlock the placeholders, and remove those without other users, inner ones first. May be called more than once."""
        held, self._held = self._held, []
        for path, descriptor in reversed(held):
            if _try_lock(descriptor, fcntl.LOCK_EX) and _is_at(descriptor, path):
                try:
                    os.rmdir(path)  # noqa: PTH106
                except OSError:  # something was created in it, so it is now an ordinary folder
                    with contextlib.suppress(OSError):
                        os.fchmod(descriptor, _MODE & 0o777)
            os.close(descriptor)


def remove_abandoned(paths: Iterable[str]) -> None:
    """Remove placeholders of this user that no process has locked, because their process was killed.

    Everything else is unchanged. Folders that are not empty are unchanged too, because a placeholder is empty. Errors are
    ignored.

    Args:
        paths: The paths to check; inner paths first.
    """
    for path in paths:
        if not is_placeholder(path):
            continue
        try:
            descriptor = _open_folder(path)
        except OSError:
            continue
        try:
            if is_marked(os.fstat(descriptor)) and _try_lock(descriptor, fcntl.LOCK_EX) and _is_at(descriptor, path):
                with contextlib.suppress(OSError):
                    os.rmdir(path)  # noqa: PTH106
        finally:
            os.close(descriptor)


def is_placeholder(path: str) -> bool:
    """Return whether a placeholder of this user exists at a path. It may be removed at any time."""
    try:
        return is_marked(os.lstat(path))
    except OSError:
        return False


def is_marked(status: os.stat_result) -> bool:
    """Return whether a file's status is the status of a placeholder of this user."""
    return stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == _MODE and status.st_uid == os.geteuid()


def _hold(path: str) -> int | None:
    """Return the descriptor of a locked placeholder, or None if something else exists at the path."""
    for _ in range(_ATTEMPTS):
        try:
            descriptor = _make_folder(path)
        except NotADirectoryError:
            return None
        except FileNotFoundError:
            if not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120
                raise
            continue  # its last user has just removed it
        if not is_marked(os.fstat(descriptor)):
            os.close(descriptor)
            return None
        if _try_lock(descriptor, fcntl.LOCK_SH) and _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)
    raise OSError(0, "other sandboxes create and remove it continually")


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _make_folder(path: str) -> int:
    """Open the folder at a path, which is created if nothing exists there. A command may replace it by a symlink at any time."""
    try:
        os.mkdir(path, _MODE)  # noqa: PTH102
    except FileExistsError:
        return _open_folder(path)
    descriptor = _open_folder(path)
    try:
        os.fchmod(descriptor, _MODE)  # mkdir applies the umask
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether ``path`` is still the opened folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
