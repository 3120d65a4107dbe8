"""Open files that the model or the workspace names. The opened file is always the checked file.

If a path is checked and then opened by name, a concurrent command can replace it with a symlink in between. Therefore
:class:`Files` resolves the symlinks of a path first, checks the real path against the permissions, and opens exactly that real
path: folder by folder, relative to open descriptors, without following any further symlink. If a symlink appears in the path,
    the procedure restarts with the new target, which is checked again.

Only regular files and folders are opened, and opening never waits (``O_NONBLOCK``), so that a pipe cannot hang a turn. The file
systems of the kernel of the operating system (``/proc``, ``/sys`` and others, wherever they are mounted) are never opened,
because ``/proc/self`` is this process, with its environment and its keys. The files of :func:`keep_private` are never opened
either.

Programs of :mod:`codex_lib_confinement.standalone` may import this module.
"""

from __future__ import annotations

import errno
import os
import stat

from codex_framework.contract.permissions.links import resolved
from codex_framework.toolkit.off_limits import NotPermittedError, check_device, check_path, keep_private, refusal_text
from codex_framework.toolkit.real_folders import LinkInTheWayError, link_in_the_way, open_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol, Self, TypeVar

    T = TypeVar("T")

    class Permits(Protocol):
        """Permissions, such as a ``FileAccess``. The methods get real paths and the symlinks that were followed."""

        def permits_reading(self, path: str, links: Iterable[str] = ()) -> bool:
            """Return whether a file may be read."""
            ...

        def permits_writing(self, path: str, links: Iterable[str] = ()) -> bool:
            """Return whether a file may be written."""
            ...


__all__ = ["Files", "Folder", "NotAFileError", "NotPermittedError", "keep_private", "refusal_text"]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHANGE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_IS_LINK = (errno.ELOOP, errno.EMLINK)
"""The error codes of ``O_NOFOLLOW`` for a symlink."""

_ELSEWHERE = "it is a path of another environment"

_ATTEMPTS = 16
"""How often a path is resolved again if it changes while it is opened."""


class NotAFileError(OSError):
    """A path resolves to something other than a regular file or folder."""


class Folder:
    """An open folder. Close it, or use it as a context manager.

    Attributes:
        path: Its real path when it was opened.
    """

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the folder. The types of its entries are then no longer available."""
        os.close(self._descriptor)

    def entries(self) -> list[os.DirEntry[str]]:
        """Return the folder's entries, sorted by name. The ``path`` of an entry is only its name."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entries, key=lambda entry: entry.name)

    def folder(self, name: str) -> Folder:
        """Open a folder in this folder.

        Raises:
            OSError: It is no folder, or a symlink, or it cannot be listed.
        """
        return _listable(self._descriptor, name, f"{self.path.rstrip('/')}/{name}")


class Files:
    """An opener of files and folders, within permissions.

    All paths are absolute. Symlinks are followed, unless a method says otherwise; neither the target nor a symlink on the way
    may be denied. All methods raise :class:`NotPermittedError` if the permissions do not allow a path, ``OSError`` if the
    system refuses the operation, and ``ValueError`` for a path with a NUL.

    Args:
        access: The permissions. By default, everything the system allows is permitted.
    """

    def __init__(self, access: Permits | None = None) -> None:
        self._access = access

    def open(self, path: str) -> int:
        """Open a regular file for reading and return the descriptor, which the caller closes.

        Raises:
            NotAFileError: It is a pipe, a socket or a device.
            IsADirectoryError: It is a folder.
        """
        return self._at(path, self._check_reading, _open_to_read)

    def read(self, path: str, limit: int = -1) -> bytes:
        """Return the first ``limit`` bytes of a regular file, or all of it if ``limit`` is -1. Raises as :meth:`open`."""
        descriptor = self.open(path)
        try:
            return b"".join(_parts(descriptor, limit))
        finally:
            os.close(descriptor)

    def folder(self, path: str) -> Folder:
        """Open a folder for listing."""
        return self._at(path, self._check_reading, lambda at: _listable(at.folder, at.name or ".", at.path))

    def write(self, path: str, data: bytes) -> None:
        """Write a file in place, which keeps its mode, owner, links and attributes. The file and its folders are created if missing.

        Raises:
            OSError: It cannot be written; the previous content is still there.
        """
        self.check_size(len(data))
        self._at(path, self._check_writing, lambda at: _write(at, data), make=True)

    def remove(self, path: str) -> None:
        """Delete a file, or a symlink, whose target stays."""
        self._at(path, self._check_writing, lambda at: os.unlink(at.name, dir_fd=at.folder), follow=False)

    def rename(self, path: str, to: str) -> None:
        """Rename a file, a folder or a symlink, replacing a file or symlink at ``to``. Only symlinks in parent folders are followed.

        Raises:
            OSError: It cannot be renamed, for example because ``to`` is on another file system.
        """

        def rename_from(old: _Place) -> None:
            def rename_to(new: _Place) -> None:
                os.replace(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)

            self._at(to, self._check_writing, rename_to, follow=False)

        self._at(path, self._check_writing, rename_from, follow=False)

    def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents. An existing folder is unchanged."""
        self._at(path, self._check_writing, _make_folder, make=True)

    def in_folder_of(self, path: str, action: Callable[[int, str], T]) -> T:
        """Resolve ``path``, and call ``action`` with the open parent folder of the file and its name, to replace it.

        Missing folders are created. ``action`` must use the name relative to the descriptor and must not follow a symlink.
        """
        return self._at(path, self._check_writing, lambda at: action(at.folder, at.name), make=True)

    def check_size(self, size: int) -> None:
        """Refuse to write a file of this many bytes if the permissions limit the size of files. Raises NotPermittedError."""
        limits = getattr(self._access, "limits", None)
        most: int | None = None if limits is None else limits.file_bytes
        if most is not None and size > most:
            raise NotPermittedError(f"it has {size:,} bytes, and files of more than {most:,} bytes may not be written")

    # Implementation

    def _at(
        self,
        path: str,
        check: Callable[[str, Sequence[str]], None],
        action: Callable[[_Place], T],
        *,
        make: bool = False,
        follow: bool = True,
    ) -> T:
        """Call ``action`` with the real, checked place of ``path``.

        Args:
            make: Whether missing parent folders are created.
            follow: Whether a symlink in the last component is followed.
        """
        if getattr(self._access, "elsewhere", False):
            raise NotPermittedError(_ELSEWHERE)
        if "\0" in path:
            raise ValueError("embedded null byte")
        real: str
        links: Sequence[str]
        real, links = (path, ()) if follow and _is_plain(path) else _resolve(path, follow=follow)
        for _ in range(_ATTEMPTS):
            try:
                at = _open_parent(real, links, check, make=make)
                try:
                    if follow and at.about is not None and stat.S_ISLNK(at.about.st_mode):
                        raise link_in_the_way(real)
                    check(real, links)
                    return action(at)
                finally:
                    os.close(at.folder)
            except LinkInTheWayError:
                real, links = _resolve(path, follow=follow)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _check_reading(self, real: str, links: Sequence[str]) -> None:
        check_path(real)
        if self._access is not None and not self._access.permits_reading(real, links):
            raise NotPermittedError

    def _check_writing(self, real: str, links: Sequence[str]) -> None:
        check_path(real)
        if self._access is not None and not self._access.permits_writing(real, links):
            raise NotPermittedError


class _Place:
    """A name in an open folder.

    Attributes:
        folder: The descriptor of the folder.
        path: The real path.
        about: The status of the entry with this name, not of a symlink's target. None if there is no such entry.
    """

    __slots__ = ("about", "folder", "name", "path")

    def __init__(self, folder: int, name: str, path: str) -> None:
        self.folder = folder
        self.name = name
        self.path = path
        self.about: os.stat_result | None
        try:
            self.about = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            self.about = None


def _is_plain(path: str) -> bool:
    """Return whether an absolute path is the real one if there is no symlink in it."""
    return (
        path.startswith("/")
        and not path.endswith(("/", "/.", "/.."))
        and not ("//" in path or "/./" in path or "/../" in path)
    )


def _resolve(path: str, *, follow: bool) -> tuple[str, Sequence[str]]:
    """Return the real path and the symlinks on the way to it. Without ``follow``, the last component is not resolved."""
    parent, name = os.path.split(path)
    if follow or name in ("", ".", ".."):  # such a name stands for the folder around it
        return resolved(path)
    folder, links = resolved(parent)
    return os.path.join(folder, name), links  # noqa: PTH118


def _open_parent(real: str, links: Sequence[str], check: Callable[[str, Sequence[str]], None], *, make: bool) -> _Place:
    """Open the parent folder of a real path. If it does not exist, ``check`` is called before anything is created or reported."""
    parent, name = os.path.split(real)
    try:
        folder = open_folder(parent)
    except LinkInTheWayError:
        raise
    except OSError as error:
        check(real, links)
        if not make or error.errno != errno.ENOENT:
            raise
        folder = open_folder(parent, make=True)
    try:
        check_device(os.fstat(folder))
        return _Place(folder, name, real)
    except BaseException:
        os.close(folder)
        raise


def _open_to_read(at: _Place) -> int:
    _demand_file(at)  # first, because opening some devices has side effects
    return _open_file(at, _READ)


def _open_file(at: _Place, flags: int) -> int:
    """Open a file, and check on the descriptor that it is a regular file."""
    try:
        descriptor = os.open(at.name, flags, dir_fd=at.folder)
    except OSError as error:
        if error.errno in _IS_LINK:  # a symlink took the place of the file
            raise link_in_the_way(at.path) from error
        if error.errno == errno.ENXIO:  # a pipe or socket took its place
            raise _not_a_file(at.path) from error
        raise
    try:
        at.about = os.fstat(descriptor)
        _demand_file(at)
        check_device(at.about)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _listable(folder: int, name: str, path: str) -> Folder:
    try:
        descriptor = os.open(name, _LIST, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise link_in_the_way(path) from None
        raise
    except OSError as error:
        if error.errno in _IS_LINK:
            raise link_in_the_way(path) from error
        raise
    try:
        check_device(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return Folder(descriptor, path)


def _demand_file(at: _Place) -> None:
    """Raise an error unless the place contains a regular file."""
    if at.about is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), at.path)
    if stat.S_ISDIR(at.about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), at.path)
    if not stat.S_ISREG(at.about.st_mode):
        raise _not_a_file(at.path)


def _not_a_file(path: str) -> NotAFileError:
    return NotAFileError(f"path `{path}` is not a file")


def _make_folder(at: _Place) -> None:
    if at.about is None:
        try:
            os.mkdir(at.name, dir_fd=at.folder)
        except FileExistsError:  # just now: perhaps by a symlink
            raise link_in_the_way(at.path) from None
    elif not stat.S_ISDIR(at.about.st_mode):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), at.path)


def _write(at: _Place, data: bytes) -> None:
    if at.about is not None:
        _demand_file(at)
        _overwrite(at, data)
        return
    try:
        descriptor = os.open(at.name, _CREATE, 0o666, dir_fd=at.folder)
    except FileExistsError:  # just now: perhaps by a symlink
        raise link_in_the_way(at.path) from None
    try:
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
    except BaseException:
        os.unlink(at.name, dir_fd=at.folder)
        raise


def _overwrite(at: _Place, data: bytes) -> None:
    """Write in place. If that fails, restore the old content."""
    descriptor = _open_file(at, _CHANGE)
    try:
        old = b"".join(_parts(descriptor, -1))
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            _write_all(descriptor, data)
            os.ftruncate(descriptor, len(data))
        except BaseException:
            os.lseek(descriptor, 0, os.SEEK_SET)
            _write_all(descriptor, old)
            os.ftruncate(descriptor, len(old))
            raise
    finally:
        os.close(descriptor)


def _parts(descriptor: int, limit: int) -> Iterator[bytes]:
    """Yield the content from the descriptor's position on, at most ``limit`` bytes of it unless that is negative."""
    size = max(os.fstat(descriptor).st_size + 1, 65536)
    while limit and (part := os.read(descriptor, size if limit < 0 else min(size, limit))):
        yield part
        limit = limit if limit < 0 else limit - len(part)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
