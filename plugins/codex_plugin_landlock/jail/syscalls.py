"""System calls that Python lacks, made through ctypes. A failed call raises an :class:`OSError` that names it."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

__all__ = [
    "ATTR_NODEV",
    "ATTR_NOSUID",
    "ATTR_RDONLY",
    "MACHINE",
    "NEW_CGROUP",
    "NEW_IPC",
    "NEW_NET",
    "NEW_NS",
    "NEW_PID",
    "NEW_USER",
    "NEW_UTS",
    "call",
    "clone",
    "close_but",
    "detach",
    "memory_file",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "pidfd_open",
    "pivot_root",
    "prctl",
]

MACHINE = os.uname().machine if sys.platform == "linux" else ""
_X86 = MACHINE == "x86_64"

_CLONE = 56 if _X86 else 220
_MOUNT = 165 if _X86 else 40
_PIVOT_ROOT = 155 if _X86 else 41
_UMOUNT2 = 166 if _X86 else 39
_MEMFD_CREATE = 319 if _X86 else 279
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_PIDFD_OPEN = 434
_CLOSE_RANGE = 436
_MOUNT_SETATTR = 442

NEW_NS = 0x00020000
NEW_CGROUP = 0x02000000
NEW_UTS = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PID = 0x20000000
NEW_NET = 0x40000000

ATTR_RDONLY = 0x1
ATTR_NOSUID = 0x2
ATTR_NODEV = 0x4

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_AT_SYMLINK_NOFOLLOW = 0x100
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4

# PyDLL keeps the interpreter lock, which must be held when a clone returns in the child.
_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.restype = ctypes.c_int


def call(name: str, number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make system call ``number``.

    Raises:
        OSError: The call failed; ``name`` is the error's file name.
    """
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(_syscall(ctypes.c_long(number), *values))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def prctl(option: int, *arguments: int) -> int:
    """Call ``prctl(2)``.

    Raises:
        OSError: The call failed.
    """
    padded = (*arguments, 0, 0, 0, 0)[:4]
    result = int(_prctl(ctypes.c_int(option), *(ctypes.c_ulong(value) for value in padded)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl({option})")
    return result


def clone(flags: int) -> int:
    """Fork into new namespaces. Return 0 in the child and its process id in the parent. Only for single-threaded processes.

    Raises:
        OSError: The namespaces are unavailable; no process was created.
    """
    sigchld = 17
    return call("clone", _CLONE, flags | sigchld, 0, 0, 0, 0)


def close_but(keep: int, first: int = 3) -> None:
    """Close every descriptor from ``first`` on, except ``keep``.

    ``os.closerange`` would try every number if Python was built without this system call.
    """
    if keep > first:
        call("close_range", _CLOSE_RANGE, first, keep - 1, 0)
    call("close_range", _CLOSE_RANGE, keep + 1, 0xFFFFFFFF, 0)


def memory_file(name: str) -> int:
    """Return a file without a path, closed on exec. Not every Python has ``os.memfd_create``."""
    closed_on_exec = 1
    return call("memfd_create", _MEMFD_CREATE, name.encode(), closed_on_exec)


def pidfd_open(pid: int) -> int:
    """Return a descriptor that becomes readable when process ``pid`` ends. Not every Python has ``os.pidfd_open``.

    Raises:
        OSError: The process does not exist.
    """
    return call("pidfd_open", _PIDFD_OPEN, pid, 0)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Call ``mount(2)``.

    Raises:
        OSError: The call failed.
    """
    call(
        f"mount {kind or 'flags'} on {target}",
        _MOUNT,
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        flags,
        options.encode() or None,
    )


def detach(path: str) -> None:
    """Unmount ``path`` with everything below it, as soon as it is no longer in use.

    Raises:
        OSError: The call failed.
    """
    lazily = 2
    call(f"umount {path}", _UMOUNT2, os.fsencode(path), lazily)


def pivot_root(new: str, old: str) -> None:
    """Make the mount ``new`` the root of this mount namespace, and attach the old root at ``old``.

    Raises:
        OSError: The call failed.
    """
    call(f"pivot_root {new}", _PIVOT_ROOT, os.fsencode(new), os.fsencode(old))


def open_tree(path: str, *, recursive: bool = True) -> int:
    """Return a detached copy of the mounts at ``path``, as a descriptor. A symlink is not followed.

    Raises:
        OSError: The call failed.
    """
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_SYMLINK_NOFOLLOW | (_AT_RECURSIVE if recursive else 0)
    return call(f"open_tree {path}", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def move_mount(tree: int, path: str) -> None:
    """Attach a detached copy over ``path``. A symlink is not followed.

    Raises:
        OSError: The call failed.
    """
    call(f"move_mount {path}", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)


def mount_setattr(target: int | str, on: int, *, recursive: bool = True) -> None:
    """Enable mount attributes for a descriptor from :func:`open_tree` or a path.

    Raises:
        OSError: The call failed.
    """
    attributes = struct.pack("QQQQ", on, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    if isinstance(target, int):
        where, path, flags = target, b"", flags | _AT_EMPTY_PATH
    else:
        where, path = _AT_FDCWD, os.fsencode(target)
    call(f"mount_setattr {target}", _MOUNT_SETATTR, where, path, flags, attributes, len(attributes))
