"""The lock of the one process that writes a thread.

It is Codex's: an exclusive lock of ``$CODEX_HOME/thread-writer-locks/<thread id>.lock``. So neither program continues a thread
that the other one has open. The system releases the lock when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from codex_framework.contract.errors import ThreadError

__all__ = ["WriterLock", "lock_thread"]

_FOLDER = "thread-writer-locks"


class WriterLock:
    """A lock that is kept until it is released or garbage collected."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. Safe to call twice. The empty file stays: removing it could let two processes lock one name."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        """Release the lock of a recorder that was not closed."""
        self.release()


def lock_thread(thread_id: str, codex_home: Path) -> WriterLock:
    """Lock a thread for writing.

    If the lock is unavailable for another reason (a read-only home, a file system without locks, a process with more than half
    of its permitted files open), nothing is locked: the thread continues without this protection, and each write still has its
    own lock.

    Raises:
        ThreadError: Another process, or another recorder of this one, has the thread open.
    """
    if not thread_id or "/" in thread_id or "\0" in thread_id:
        return WriterLock(None)
    path = codex_home / _FOLDER / f"{thread_id}.lock"
    descriptor = _open_lock(path)
    if descriptor is None:
        return WriterLock(None)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return WriterLock(None)
        raise ThreadError(
            f"thread {thread_id} already has an active writer{_holder(path)}",
            slug="session-in-use",
            hint=f"Wait until it ends or stop it. To continue separately, copy the thread: codex-framework fork {thread_id}",
        ) from error
    if descriptor > _most_files() // 2:
        os.close(descriptor)
        return WriterLock(None)
    return WriterLock(descriptor)


def _open_lock(path: Path) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        pass
    except OSError:
        return None
    try:
        path.parent.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError:  # the home itself is missing, or cannot be written
        return None
    try:
        return os.open(path, flags, 0o600)
    except OSError:
        return None


def _most_files() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def _holder(path: Path) -> str:
    """Return the process that has the lock, if the system reports it."""
    try:
        inode = f":{path.stat().st_ino} "
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if inode in f"{line} " and len(words) > 4 and words[1] == "FLOCK" and words[4].isdigit():
                return f" (process {words[4]})"
    except (OSError, ValueError):
        pass
    return ""
