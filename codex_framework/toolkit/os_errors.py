"""The system's errors as text. Programs of :mod:`codex_lib_confinement.standalone` may import this module."""

from __future__ import annotations

__all__ = ["os_error_text"]


def os_error_text(error: OSError) -> str:
    """Return the system's text for an error with its number, as Codex words it: ``No such file or directory (os error 2)``."""
    return f"{error.strerror} (os error {error.errno})" if error.errno else str(error)
