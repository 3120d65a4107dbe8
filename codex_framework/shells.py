"""Shells: which one a script runs in, and the argv for it."""

from __future__ import annotations

import functools
import os
import shutil

__all__ = ["shell_argv", "user_shell"]

_POSIX_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "ksh"})
"""Shells that take ``-c`` and ``-lc`` and whose scripts are what a model writes."""

_FALLBACK = "/bin/sh"


def _usable(program: str | None) -> str | None:
    if not program or os.path.basename(program) not in _POSIX_SHELLS:  # noqa: PTH119  # a name, perhaps without a folder
        return None
    return shutil.which(program)


@functools.lru_cache(maxsize=1)
def user_shell() -> str:
    """The absolute path of the person's shell: the account's or ``$SHELL`` if it is a POSIX one, else ``/bin/sh``."""
    import pwd

    try:
        own = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a container's numeric user without an account
        own = None
    return _usable(own) or _usable(os.environ.get("SHELL")) or _FALLBACK


@functools.lru_cache(maxsize=64)
def _resolved(shell: str) -> str:
    return _usable(shell) or _FALLBACK


def shell_argv(script: str, *, login: bool = True, shell: str | None = None) -> tuple[str, str, str]:
    """The argv that runs ``script``.

    Args:
        script: What the shell is to interpret.
        login: As a login shell (``-lc``, reads the person's profile) or a plain one (``-c``).
        shell: Name or path of the shell; one that is not there or no POSIX shell gives ``/bin/sh``. None: the person's.
    """
    program = user_shell() if shell is None else _resolved(shell)
    return (program, "-lc" if login else "-c", script)
