"""Locks on open files, which other processes respect."""

from __future__ import annotations

import errno

__all__ = ["try_lock"]

_UNSUPPORTED = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS))


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock a file until its descriptor is closed. Return False if another process has locked it.

    On a file system without locks nothing is locked, and the result is True: to write without a lock is better than not at all.

    Raises:
        OSError: The file cannot be locked for another reason.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return True
