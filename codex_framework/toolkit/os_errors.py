"""The system's errors as text. Programs of :mod:`codex_lib_confinement.standalone` may import this module."""

from __future__ import annotations

import errno
import os

__all__ = ["os_error_text", "start_error_text"]


def os_error_text(error: OSError) -> str:
    """Return the system's text for an error with its number, as Codex words it: ``No such file or directory (os error 2)``."""
    return f"{error.strerror} (os error {error.errno})" if error.errno else str(error)


def start_error_text(error: OSError, program: str, cwd: str, search: str) -> str:
    """Return the text for a program that could not be started.

    The system also says that permission is denied if a folder on the search path cannot be searched. A program that is in none of
    the other folders is missing.
    """
    if error.errno == errno.EACCES and error.filename != cwd and "/" not in program:
        paths = (os.path.join(cwd, folder, program) for folder in search.split(os.pathsep))  # noqa: PTH118  # not normalised
        if not any(map(os.path.lexists, paths)):
            error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return os_error_text(error)
