"""Opening regular files, and nothing else: to open a pipe would block, and to read a device may never end."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["open_regular", "read_regular"]


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file, and return its descriptor. It can be the ``opener`` of :func:`open`.

    Args:
        mode: The permissions of a file that is created.

    Raises:
        OSError: It cannot be opened; ``IsADirectoryError``, or ``OSError`` with ``EINVAL``, if it is not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the content of a regular file.

    Args:
        limit: The maximum size in bytes.

    Raises:
        OSError: As for :func:`open_regular`; with ``EFBIG`` if the file is larger, also if it has grown in the meantime.
    """
    with open(path, "rb", opener=open_regular) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", os.fspath(path))
    return data
