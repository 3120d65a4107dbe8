"""The real path of an open folder. Programs of :mod:`codex_framework.toolkit.standalone` may import this module."""

from __future__ import annotations

import os

__all__ = ["folder_path"]

_GET_PATH = 50
"""macOS: ``fcntl(fd, F_GETPATH)``."""


def folder_path(descriptor: int) -> str | None:
    """Return where an open folder really is by now, or None on a system that does not tell."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        pass  # no /proc: macOS, or a very bare sandbox
    try:
        import fcntl

        return os.fsdecode(fcntl.fcntl(descriptor, _GET_PATH, bytes(1024)).split(b"\0", 1)[0])
    except (ImportError, OSError):
        return None
