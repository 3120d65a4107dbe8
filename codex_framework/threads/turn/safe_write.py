"""Replacing a file whole or not at all, in the folder that was checked and no other."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["NotPermittedError", "replace_file"]


class NotPermittedError(Exception):
    """The file lies, or now lies, where it may not be written."""


def replace_file(target: Path, data: bytes, may_write: Callable[[Path], bool]) -> None:
    """Write a file by way of a temporary one beside it, keeping its mode. Missing parent folders are made.

    The parent folder is opened first, and it is the open folder's own path that is checked and written in: somebody who swaps
    a folder for a symlink in between cannot redirect the write.

    Args:
        target: Absolute. If it is a symlink, what it leads to is replaced.
        may_write: Whether a real path may be written.

    Raises:
        NotPermittedError: It may not.
        OSError: It cannot; ``IsADirectoryError`` and ``OSError`` with ``EINVAL`` for what is no regular file.
    """
    real = Path(os.path.realpath(target))
    if not may_write(real):
        raise NotPermittedError
    real.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not may_write(_path_of(folder, real.parent) / real.name):
            raise NotPermittedError
        _replace(folder, real.name, data)
    finally:
        os.close(folder)


def _replace(folder: int, name: str, data: bytes) -> None:
    mode = _mode(folder, name)
    temporary = f".{name[:40]}.{os.urandom(6).hex()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def _mode(folder: int, name: str) -> int | None:
    """The mode of the file that is there; None where there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, os.strerror(21))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(22, "not a regular file")
    return stat.S_IMODE(found.st_mode)


def _path_of(folder: int, asked: Path) -> Path:
    """Where an open folder really is; where the system does not tell, the path by which it was opened."""
    if sys.platform == "linux":
        path = Path(f"/proc/self/fd/{folder}").readlink()
    elif sys.platform == "darwin":
        import fcntl

        path = Path(os.fsdecode(fcntl.fcntl(folder, fcntl.F_GETPATH, b"\0" * 1024).rstrip(b"\0")))
    else:
        path = asked
    return path
