"""Reads and writes the files of a patch, without anything that would be slow to import.

A file is overwritten in place: that keeps its mode, owner, links and attributes, and costs a tenth of a temporary file and a
rename. Its old content needs no new room on the disk, so it is put back when writing fails half way.

Paths are made real once, when the plan is made; a write goes through the opened folder after a look at where that folder really
is. So a command that runs at the same time cannot lead a write elsewhere by putting a symlink in its way.
"""

from __future__ import annotations

import os
import stat

from codex_framework.toolkit.open_folder import folder_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Disk"]

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_PLACE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST = 256 * 1024 * 1024
"""Bytes of a file beyond which it is not read: a patch is for text, and all of it is held in memory."""


class Disk:
    """The files as seen from a folder.

    Args:
        cwd: Absolute; relative paths start from it.
        may_read: Whether an absolute path may be read; None: all of them.
    """

    def __init__(self, cwd: str, *, may_read: Callable[[str], bool] | None = None) -> None:
        self._cwd = cwd
        self._may_read = may_read
        self._real_folders: dict[str, str] = {}

    def absolute(self, path: str) -> str:
        """The absolute path, without ``.`` and ``..`` (taken away by text alone, as Codex does)."""
        return os.path.normpath(os.path.join(self._cwd, path))  # noqa: PTH118  # pathlib costs the command 5 ms

    def place(self, path: str) -> str:
        """Where ``path`` itself really stands: symlinks on the way to it are followed, the last name is not."""
        folder, name = os.path.split(path)
        real = self._real_folders.get(folder)
        if real is None:
            real = self._real_folders[folder] = os.path.realpath(folder)
        return os.path.join(real, name)  # noqa: PTH118

    def target(self, path: str) -> str:
        """The file that ``path`` stands for: symlinks are followed to the end."""
        place = self.place(path)
        return os.path.realpath(place) if os.path.islink(place) else place  # noqa: PTH114

    def read(self, path: str) -> str:
        """A file's text. Bytes that are no UTF-8 survive the way back (``surrogateescape``).

        Raises:
            OSError: It cannot be read; a folder or a device is no file, and a huge one is not for patches.
        """
        if "\0" in path:
            raise OSError("the path contains a NUL character")
        if self._may_read is not None and not self._may_read(path):
            raise PermissionError(13, "Permission denied")
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(f"path `{path}` is not a file")
            if about.st_size > _LARGEST:
                raise OSError(f"path `{path}` has {about.st_size:,} bytes; at most {_LARGEST:,} can be patched")
            return _read_all(file, about.st_size).decode("utf-8", "surrogateescape")
        finally:
            os.close(file)

    def write(self, path: str, text: str) -> None:
        """Give the file this text; missing folders are made.

        Args:
            path: Absolute and real (see :meth:`target`).

        Raises:
            OSError: It could not be written; what stood there before still does.
        """
        data = text.encode("utf-8", "surrogateescape")
        folder, name = os.path.split(path)
        handle = self._open_folder(folder, make=True)
        try:
            try:
                about = os.lstat(name, dir_fd=handle)
            except FileNotFoundError:
                _create(handle, name, data, 0o666)
                return
            if not stat.S_ISREG(about.st_mode):
                raise OSError(f"path `{path}` is not a file")
            _overwrite(handle, name, data)
        finally:
            os.close(handle)

    def remove(self, path: str) -> None:
        """Delete a file, or a symlink.

        Args:
            path: Absolute, its folder real (see :meth:`place`).

        Raises:
            OSError: It could not be deleted.
        """
        folder, name = os.path.split(path)
        handle = self._open_folder(folder, make=False)
        try:
            os.unlink(name, dir_fd=handle)
        finally:
            os.close(handle)

    def _open_folder(self, folder: str, *, make: bool) -> int:
        try:
            handle = os.open(folder, _FOLDER_FLAGS)
        except FileNotFoundError:
            if not make:
                raise
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            handle = os.open(folder, _FOLDER_FLAGS)
        if folder_path(handle) not in (folder, None):
            os.close(handle)
            raise OSError(f"folder `{folder}` was moved while the patch was applied")
        return handle


def _read_all(file: int, size: int) -> bytes:
    parts = []
    while part := os.read(file, max(size + 1, 65536)):
        parts.append(part)
    return b"".join(parts)


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _create(folder: int, name: str, data: bytes, mode: int) -> None:
    file = os.open(name, _NEW_FLAGS, mode, dir_fd=folder)
    try:
        try:
            _write_all(file, data)
        finally:
            os.close(file)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise


def _overwrite(folder: int, name: str, data: bytes) -> None:
    """Write in place; put the old content back when that fails."""
    file = os.open(name, _IN_PLACE_FLAGS, dir_fd=folder)
    try:
        old = _read_all(file, os.fstat(file).st_size)
        os.lseek(file, 0, os.SEEK_SET)
        try:
            _write_all(file, data)
            os.ftruncate(file, len(data))
        except BaseException:
            os.lseek(file, 0, os.SEEK_SET)
            _write_all(file, old)
            os.ftruncate(file, len(old))
            raise
    finally:
        os.close(file)
