"""The shell for a script, and its arguments."""

from __future__ import annotations

import functools
import os

__all__ = ["shell_argv", "user_shell"]

_POSIX_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "ksh"})
"""Shells that accept ``-c`` and ``-lc`` and run the scripts that models write."""

_FALLBACK = "/bin/sh"


def _usable(program: str | None) -> str | None:
    if not program or os.path.basename(program) not in _POSIX_SHELLS:  # noqa: PTH119  # may be a name without a folder
        return None
    if os.path.isabs(program):  # noqa: PTH117  # start-up: the import below takes 2 ms
        return program if os.path.isfile(program) and os.access(program, os.X_OK) else None  # noqa: PTH113
    import shutil

    return shutil.which(program)


@functools.lru_cache(maxsize=1)
def user_shell() -> str:
    """Return the absolute path of the user's shell: the account's or ``$SHELL`` if it is a POSIX shell, else ``/bin/sh``."""
    import pwd

    try:
        own = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a numeric user without an account, as in containers
        own = None
    return _usable(own) or _usable(os.environ.get("SHELL")) or _FALLBACK


_NAMED = ("bash", "zsh", "sh")
"""Shells that have a name for models. Other names mean the fallback, as in Codex."""

_NAMED_IN = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/run/current-system/sw/bin"


@functools.lru_cache(maxsize=64)
def _find(shell: str) -> str:
    """Return the shell that a model has named. A file outside the system's folders is not accepted as a shell."""
    own = user_shell()
    if shell in (own, os.path.basename(own)):  # noqa: PTH119  # as above
        return own
    from codex_framework.toolkit.programs import is_shell

    if "/" in shell:
        return (_usable(shell) if is_shell(shell) else None) or _FALLBACK
    import shutil

    return (shutil.which(shell, path=_NAMED_IN) if shell in _NAMED else None) or _FALLBACK


def shell_argv(script: str, *, login: bool = True, shell: str | None = None) -> tuple[str, str, str]:
    """Return the argv that runs ``script``.

    Args:
        script: The script for the shell.
        login: Whether to use a login shell (``-lc``, which reads the user's profile) or a plain one (``-c``).
        shell: ``bash``, ``zsh``, ``sh``, the name of the user's shell, or the path of a POSIX shell that is the user's or in a folder
            of the system. ``/bin/sh`` is used for everything else (``./bash``). By default, the user's shell.
    """
    program = user_shell() if shell is None else _find(shell)
    return (program, "-lc" if login else "-c", script)
