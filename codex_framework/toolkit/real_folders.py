"""Opening of folders by their real paths, without following any symlink.

Programs of :mod:`codex_lib_confinement.standalone` may import this module.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LinkInTheWayError", "link_in_the_way", "open_folder"]

_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCH = 0x40000000 | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""macOS: ``O_SEARCH``, for folders that may be entered but not listed. Linux has ``O_PATH``."""

_OPENAT2 = 437
"""The number of the system call, on every processor."""
_NO_MAGICLINKS, _NO_SYMLINKS = 0x02, 0x04
_AT_FDCWD = -100


class LinkInTheWayError(OSError):
    """A component of the path is a symlink."""


def link_in_the_way(path: str) -> LinkInTheWayError:
    """Return the error for a path that is a symlink."""
    return LinkInTheWayError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def open_folder(path: str, *, make: bool = False) -> int:
    """Open a folder and return a descriptor, for use as ``dir_fd`` only. The caller closes it.

    If the system has ``openat2`` and ``ctypes`` is already loaded, a single call opens the folder. (Loading ``ctypes`` takes as
    long as walking 400 paths.) Otherwise each folder on the way is opened relative to its parent.

    Args:
        path: Absolute, without ``.`` and ``..``.
        make: Whether missing folders are created.

    Raises:
        LinkInTheWayError: A component is a symlink.
        OSError: A component does not exist, is not a folder or cannot be opened.
    """
    call = _openat2()
    if call is not None:
        descriptor = call(path)
        if descriptor >= 0:
            return descriptor
    return _walk(path, make=make)


def _walk(path: str, *, make: bool) -> int:
    parts = [part for part in path.split("/") if part]
    if "." in parts or ".." in parts:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    at = os.open("/", _FLAGS)
    try:
        for part in parts:
            try:
                below = os.open(part, _FLAGS, dir_fd=at)
            except OSError as error:
                below = _enter(at, part, error, make=make)
            os.close(at)
            at = below
    except BaseException:
        os.close(at)
        raise
    return at


def _enter(at: int, part: str, error: OSError, *, make: bool) -> int:
    """Open a folder for which the usual call failed, or raise the right error."""
    if error.errno == errno.ENOENT:
        if not make:
            raise error
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=at)
    elif _is_link(at, part):
        raise link_in_the_way(part) from error
    elif error.errno == errno.EACCES and sys.platform == "darwin":
        return os.open(part, _SEARCH, dir_fd=at)
    else:
        raise error
    try:
        return os.open(part, _FLAGS, dir_fd=at)
    except OSError as error:
        raise (link_in_the_way(part) if _is_link(at, part) else error) from None


def _is_link(at: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return True  # it has just been replaced


_call: Callable[[str], int] | None = None
_is_tried = False


def _openat2() -> Callable[[str], int] | None:
    """Return the system call as a function that returns a descriptor, or a negative number if the path must be walked instead."""
    global _call, _is_tried  # the system's support is checked once
    if not _is_tried and "ctypes" in sys.modules:
        _call, _is_tried = _found_openat2(), True
    return _call


def _found_openat2() -> Callable[[str], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes
    import struct

    function = ctypes.CDLL(None).syscall
    how = struct.pack("QQQ", _FLAGS, 0, _NO_SYMLINKS | _NO_MAGICLINKS)

    def call(path: str) -> int:
        return int(function(_OPENAT2, _AT_FDCWD, os.fsencode(path), how, len(how)))

    descriptor = call("/")
    if descriptor < 0:  # the system is old, or forbids the call
        return None
    os.close(descriptor)
    return call
