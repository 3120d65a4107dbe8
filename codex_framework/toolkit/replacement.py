"""Atomic replacement of a file, in exactly the folder that was checked."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.toolkit.files import Files, NotPermittedError

if TYPE_CHECKING:
    from codex_framework.toolkit.files import Permits

__all__ = ["NotPermittedError", "replace_file"]


def replace_file(
    target: Path,
    data: bytes,
    access: Permits | None = None,
    *,
    mode: int | None = None,
    sync: bool = True,
    ready: Callable[[], None] | None = None,
) -> None:
    """Write a temporary file beside ``target`` and rename it to ``target``, so that readers never see a partial file.

    Missing parent folders are created. The real path is checked, and written relative to folders that were opened without
    following a symlink. So a program that swaps a folder for a symlink in the meantime cannot redirect the write. The new file
    belongs to the owner of the old one, if the process may change the owner.

    Args:
        target: An absolute path. If it is a symlink, its target is replaced.
        data: The new content.
        access: The permissions. By default, every path may be written.
        mode: The permission bits of the new file. None keeps the bits of the old file; a file that did not exist gets the usual
            ones (``0o666`` less the umask).
        sync: Whether the content is on the disk before the old file is gone, so that a power failure leaves the old or the new
            content.
        ready: Called after the new content is written and before the rename. If it raises, the old file stays.

    Raises:
        NotPermittedError: ``access`` refuses the path, or it is in a file system of the operating system (``/proc``, ``/sys``).
        OSError: The file cannot be written; ``IsADirectoryError``, or ``OSError`` with ``EINVAL``, if it is not a regular file.
    """
    files = Files(access)
    files.check_size(len(data))
    files.in_folder_of(str(target), lambda folder, name: _replace(folder, name, data, mode, sync=sync, ready=ready))


def _replace(
    folder: int, name: str, data: bytes, mode: int | None, *, sync: bool, ready: Callable[[], None] | None
) -> None:
    old = _status(folder, name)
    mode = stat.S_IMODE(old.st_mode) if mode is None and old else mode
    temporary = f".{name[:40]}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if old is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if ready is not None:
            ready()
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def _status(folder: int, name: str) -> os.stat_result | None:
    """Return the status of the existing file, if any."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, os.strerror(21))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(22, "not a regular file")
    return found
