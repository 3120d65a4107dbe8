"""Paths as Seatbelt sees them: without symlinks, and in the spelling of the volume."""

from __future__ import annotations

import os
import sys

__all__ = ["real_path"]

_PATH_BYTES = 1024
"""``MAXPATHLEN`` of macOS, which its ``F_GETPATH`` fills."""


def real_path(path: str) -> str:
    """The path without symlinks (``/tmp`` is ``/private/tmp`` on a Mac). On a Mac also in the case the volume keeps it."""
    return _spelled(os.path.realpath(path))


if sys.platform == "darwin":
    import fcntl

    def _spelled(path: str) -> str:
        """Ask the kernel for the name of what exists of the path; the rest stays as it is."""
        existing, rest = path, ""
        while True:
            try:
                descriptor = os.open(existing, os.O_EVTONLY | os.O_CLOEXEC)
                break
            except OSError:
                above, name = os.path.split(existing)
                if above == existing:
                    return path
                existing, rest = above, f"/{name}{rest}"
        try:
            found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_PATH_BYTES))
        except OSError:
            return path
        finally:
            os.close(descriptor)
        return os.fsdecode(found.rstrip(b"\0")).rstrip("/") + rest or "/"

else:

    def _spelled(path: str) -> str:
        return path
