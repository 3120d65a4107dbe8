"""Puts restored files into the workspace, where a command that still runs may exchange any folder for a symlink at any time.

So every folder is opened relative to its parent without following a symlink, and git, which opens files by their paths, writes
into a folder of the plugin's own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from codex_plugin_undo.git import SnapshotError

__all__ = ["folder_of", "place"]

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 16
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def place(source: Path, base: Path, paths: Iterable[bytes]) -> None:
    """Copy files and symlinks to the same paths below another folder. Existing paths are replaced.

    A replaced file keeps its permissions, of which git records only one bit.

    Raises:
        SnapshotError: A file could not be written; the text names it.
    """
    origin = os.fsencode(source)
    for path in paths:
        try:
            with folder_of(base, path, make=True) as folder:
                _place(os.path.join(origin, path), folder, os.path.basename(path))  # noqa: PTH118, PTH119
        except OSError as error:
            raise SnapshotError(f"{os.fsdecode(path)} could not be written: {error.strerror}") from error


@contextlib.contextmanager
def folder_of(base: Path, path: bytes, *, make: bool = False) -> Iterator[int]:
    """Open the folder of a path below ``base``, following no symlink.

    Args:
        make: Whether missing folders are created, and files and symlinks in their places removed.
    """
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.split(b"/")[:-1]:
            inner = _enter_folder(descriptor, part) if make else os.open(part, _OPEN, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _enter_folder(folder: int, name: bytes) -> int:
    """Open a folder. Anything that a command puts in its place meanwhile is removed as well."""
    for _ in range(_ATTEMPTS):
        try:
            return os.open(name, _OPEN, dir_fd=folder)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
        except NotADirectoryError:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=folder)
    return os.open(name, _OPEN, dir_fd=folder)


def _place(source: bytes, folder: int, name: bytes) -> None:
    new, old = os.lstat(source), _status(folder, name)
    if old is not None and stat.S_ISDIR(old.st_mode):
        try:
            shutil.rmtree(os.fsdecode(name), dir_fd=folder)
        except RecursionError as error:
            raise OSError(0, "the folder in its place is nested too deeply") from error
    temporary = f".{os.urandom(6).hex()}.restored"
    try:
        if stat.S_ISLNK(new.st_mode):
            os.symlink(os.readlink(source), temporary, dir_fd=folder)  # noqa: PTH115
        else:
            _copy(source, folder, temporary, _mode(new, old))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _copy(source: bytes, folder: int, name: str, mode: int) -> None:
    with open(source, "rb") as content, open(os.open(name, _CREATE, 0o600, dir_fd=folder), "wb") as file:  # noqa: PTH123
        shutil.copyfileobj(content, file)
        os.fchmod(file.fileno(), mode)


def _mode(new: os.stat_result, old: os.stat_result | None) -> int:
    if old is None or not stat.S_ISREG(old.st_mode):
        return stat.S_IMODE(new.st_mode)
    executable = (old.st_mode & 0o444) >> 2 if new.st_mode & 0o100 else 0
    return old.st_mode & 0o666 | executable


def _status(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
