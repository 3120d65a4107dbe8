"""Empty folders in the place of protected names that do not exist, so that there is something to mount over.

Several sandboxes may need one at the same time: each holds a shared lock on it, and the last one removes it. It tells itself from a
person's folder by its odd mode, so that what a killed process left behind is removed by the next one. The sandbox ``landlock`` does
it the same way, with the same mode; they may share a folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable

from codex_framework import SandboxError

__all__ = ["Placeholders", "is_placeholder"]

_MODE = 0o1755
_ATTEMPTS = 50


class Placeholders:
    """Those of one command, held until :meth:`release`.

    Raises:
        SandboxError: One cannot be made.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._held: list[tuple[str, int]] = []
        try:
            for path in paths:
                descriptor = _hold(path)
                if descriptor is not None:
                    self._held.append((path, descriptor))
        except OSError as error:
            self.release()
            raise SandboxError(
                f"the place of {error.filename} cannot be held: {error.strerror}",
                hint="make that folder, or take the one around it out of the writable folders",
            ) from error

    def release(self) -> None:
        """Give them up, and remove those that nobody else needs. Safe to call twice."""
        held, self._held = self._held, []
        for path, descriptor in held:
            if _locked(descriptor, fcntl.LOCK_EX) and _is_at(descriptor, path):
                try:
                    os.rmdir(path)
                except OSError:  # somebody outside has put something into it: from now on it is an ordinary folder
                    with contextlib.suppress(OSError):
                        os.fchmod(descriptor, _MODE & 0o777)
            os.close(descriptor)


def is_placeholder(path: str) -> bool:
    """Whether a placeholder of this user stands there, which may go at any time."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return _is_marked(found)


def _is_marked(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _MODE and found.st_uid == os.geteuid()


def _hold(path: str) -> int | None:
    """A locked placeholder; None where by now something else stands there, which needs none."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o755)
            os.chmod(path, _MODE)  # mkdir heeds the umask and drops the odd bit
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its last user has just removed it
        except NotADirectoryError:
            return None
        if not _is_marked(os.fstat(descriptor)):
            os.close(descriptor)
            return None
        if _locked(descriptor, fcntl.LOCK_SH) and _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)
    raise OSError(0, "other sandboxes make and remove it all the time", path)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
