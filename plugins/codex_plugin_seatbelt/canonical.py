"""Paths in the form that Seatbelt uses: without symlinks, and in the spelling of the volume."""

from __future__ import annotations

import os
import sys

__all__ = ["real_path"]

_PATH_BYTES = 1024
"""``MAXPATHLEN`` of macOS, the size of the result of ``F_GETPATH``."""


def real_path(path: str) -> str:
    """Return the path without symlinks (``/tmp`` is ``/private/tmp`` on a Mac). On a Mac, its case is as stored on the volume."""
    return _spelled(os.path.realpath(path))


if sys.platform == "darwin":
    import fcntl

    def _spelled(path: str) -> str:
        """Return the kernel's spelling of the existing part of the path; the rest is unchanged."""
        existing, rest = path, ""
        while True:
            try:
                descriptor = os.open(existing, os.O_EVTONLY | os.O_CLOEXEC)
                break
            except OSError:
                parent, name = os.path.split(existing)
                if parent == existing:
                    return path
                existing, rest = parent, f"/{name}{rest}"
        try:
            name_bytes = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_PATH_BYTES))
        except OSError:
            return path
        finally:
            os.close(descriptor)
        return os.fsdecode(name_bytes.rstrip(b"\0")).rstrip("/") + rest or "/"

else:

    def _spelled(path: str) -> str:
        return path
