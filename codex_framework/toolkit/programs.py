"""Programs by name and by path: recognition of shells, and of programs that commands could replace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.links import links_on_the_way
from codex_framework.contract.protocol.permissions import AccessMode

__all__ = [
    "SYSTEM_FOLDERS",
    "found_program",
    "is_out_of_reach",
    "is_shell",
    "program_name",
    "safe_search_path",
    "safe_variables",
]

_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "ksh"})
"""Shells that accept ``-c`` and ``-lc``."""

SYSTEM_FOLDERS = frozenset(
    (
        *("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"),
        *("/opt/homebrew/bin", "/run/current-system/sw/bin"),
    )
)
"""Folders in which a name reliably identifies a program. ``./ls`` could be any program."""

_SEARCHED = """
    PATH LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV ZDOTDIR PYTHONPATH PYTHONSTARTUP
    PERL5LIB RUBYLIB NODE_PATH GIT_EXEC_PATH GIT_TEMPLATE_DIR XDG_CONFIG_HOME
""".split()  # noqa: SIM905


def program_name(word: str) -> str | None:
    """Return the name of a program that is given by name or by its path in a system folder. Return None for other paths."""
    folder, slash, name = word.rpartition("/")
    return name if not slash or folder in SYSTEM_FOLDERS else None


def is_shell(word: str) -> bool:
    """Return whether the first word of a command names a POSIX shell. ``./bash`` does not count."""
    return program_name(word) in _SHELLS


def found_program(name: str, path: str, *, cwd: str | None = None) -> str | None:
    """Return the path of a program that is run without a sandbox, if any.

    Relative folders of the search path are ignored, because their contents depend on the folder in which the session was
    started and may not be trustworthy.

    Args:
        name: A name, an absolute path, or a path from ``cwd``.
        path: The folders in which names are searched for, as in ``PATH``.
        cwd: An absolute folder. Without it, relative paths are not found.
    """
    folders = [cwd or ""] if "/" in name else path.split(os.pathsep)
    for place in filter(os.path.isabs, (os.path.join(folder, name) for folder in folders)):  # noqa: PTH118
        if os.path.isfile(place) and os.access(place, os.X_OK):  # noqa: PTH113
            return place
    return None


def is_out_of_reach(program: str, *, access: FileAccess, cwd: Path, path: str) -> bool:
    """Return whether commands cannot replace a program: they can write neither its file nor a symlink to it.

    A program that does not exist is out of reach too: it is a shell builtin, or it does not run.

    Args:
        program: A name or a path, as in ``argv[0]``.
        access: The paths that commands may write. With full access nothing is checked.
        cwd: The folder in which the program would be started.
        path: The value of ``PATH``.
    """
    if access.full:
        return True
    for candidate, is_certain in _candidates(program, cwd, path):
        if not os.access(candidate, os.X_OK) or os.path.isdir(candidate):  # noqa: PTH112
            continue
        return is_certain and not _is_replaceable(candidate, access)
    return True


def safe_search_path(path: str, access: FileAccess) -> str:
    """Return the folders of a search path (``PATH``, ``PYTHONPATH``, ...) that commands cannot write, in their order.

    Relative folders are left out as well.
    """
    folders = (folder for folder in path.split(os.pathsep) if os.path.isabs(folder))  # noqa: PTH117
    return os.pathsep.join(folder for folder in folders if access.full or not _is_replaceable(folder, access))


def safe_variables(environ: Mapping[str, str], access: FileAccess) -> dict[str, str]:
    """Return the variables with places that programs search for code and settings, without places that commands can write."""
    return {name: safe_search_path(environ[name], access) for name in _SEARCHED if name in environ}


def _candidates(program: str, cwd: Path, path: str) -> Iterator[tuple[str, bool]]:
    """Yield the files that the name may refer to, and whether their folder is the same from every working folder."""
    if "/" in program:
        yield os.path.join(cwd, program), True  # noqa: PTH118
        return
    for folder in path.split(os.pathsep):
        yield os.path.join(cwd, folder, program), os.path.isabs(folder)  # noqa: PTH117, PTH118


def _is_replaceable(place: str, access: FileAccess) -> bool:
    if access.may_write(Path(place)):
        return True
    return any(access.mode_of(Path(link)) is AccessMode.WRITE for link in links_on_the_way(place))
