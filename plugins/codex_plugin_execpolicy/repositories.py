"""What a repository of git refers to: programs that git runs, and files of the workspace, which commands may write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from codex_framework.toolkit.files import Files, NotPermittedError
from codex_framework.toolkit.projects import repository_folders
from codex_plugin_execpolicy.amendments import is_banned

__all__ = ["leads_elsewhere", "names_programs", "repositories", "settings_lead_elsewhere"]

_NAMES_FILES = re.compile(rb"hookspath|^\s*\[\s*(?:include|protocol)", re.IGNORECASE | re.MULTILINE)
"""Settings by which a repository's configuration can refer to the workspace: hooks, included files, and URLs that are programs.

The last ones (``ext::PROGRAM``) have to be allowed for a protocol.
"""

_NAMES_PROGRAM = re.compile(
    rb"^\s*(?:\[[^\n]*\])?\s*(?:clean|smudge|process|textconv|command|driver|external|fsmonitor|sshcommand|pager|editor|askpass"
    rb"|alternaterefscommand|helper|program|difffilter|packobjectshook|cmd|gitproxy|uploadpack"
    rb"|receivepack|defaultkeycommand|path)\s*=[ \t]*(?P<value>[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
"""Settings whose value is a program that git runs: filters, drivers, monitors, helpers, and programs that fetch objects.

Even ``git show`` fetches the objects that a partial clone does not have.
"""

_SWITCH = re.compile(r"(true|false|yes|no|on|off|0|1|)", re.IGNORECASE)
_WORD = re.compile(r"[^\s\"';&|!()]+")
_LFS = re.compile(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?")
_GITLINK = b"\0\0\xe0\0"
"""The mode 160000 of a submodule, as an index contains it. If other bytes are the same by chance, a rule is ignored for once."""

_LARGEST_CONFIG = 1 << 20
_LARGEST_INDEX = 1 << 26


def repositories(git: Path) -> Iterator[Path]:
    """Yield the repository at a ``.git``: the folder itself, or those that a file of this name leads to."""
    if git.is_dir():
        yield git
    else:
        yield from map(Path, repository_folders(str(git)))


def leads_elsewhere(repository: Path) -> bool:
    """Return whether submodules, hooks, included files or programs are configured that are in the workspace.

    A submodule that is not checked out is an empty folder, in which a command can create a repository with settings of its own. git
    enters it with commands like ``git status``.
    """
    if (repository / "modules").is_dir() or _has_submodules(repository):
        return True
    return any(
        config is None or _NAMES_FILES.search(config) or any(map(_may_be_of_workspace, _programs(config)))
        for config in _configurations(repository)
    )


def settings_lead_elsewhere(files: Iterable[Path]) -> bool:
    """Return whether settings of the user or the machine have git run programs that may be in the workspace.

    An example is ``python -m NAME``, which looks for the module in the working folder first.
    """
    return any(config is None or any(map(_may_be_of_workspace, _programs(config))) for config in map(_settings, files))


def names_programs(repository: Path) -> bool:
    """Return whether git may run programs or hooks that the repository names."""
    if _has_submodules(repository):
        return True
    return any(
        config is None or _NAMES_FILES.search(config) or any(_programs(config))
        for config in _configurations(repository)
    )


def _configurations(repository: Path) -> Iterator[bytes | None]:
    return map(_settings, (repository / "config", repository / "config.worktree"))


def _settings(file: Path) -> bytes | None:
    """Return the settings in a file, which are empty if it is missing, or None if nobody can say what they are."""
    try:
        content = Files().read(str(file), _LARGEST_CONFIG + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (OSError, NotPermittedError):
        return None
    return content if len(content) <= _LARGEST_CONFIG else None


def _programs(config: bytes) -> Iterator[str]:
    """Yield the programs that a configuration names, without switches and the filters of Git LFS, which is looked for in ``PATH``."""
    for found in _NAMES_PROGRAM.finditer(config):
        value = found["value"].decode("utf-8", "replace").strip()
        if not _SWITCH.fullmatch(value) and not _LFS.fullmatch(value):
            yield value


def _may_be_of_workspace(program: str) -> bool:
    """Return whether a program may be a file of the workspace or read one: it has a relative path, or is an interpreter."""
    words = _WORD.findall(program)
    if not words or program.endswith("\\") or is_banned((words[0],)):
        return True
    return any("/" in word and not word.startswith(("/", "~")) for word in words)


def _has_submodules(repository: Path) -> bool:
    for index in (repository / "index", *repository.glob("sharedindex.*")):
        content = _start_of(index, _LARGEST_INDEX + 1)
        if content is not None and (_GITLINK in content or len(content) > _LARGEST_INDEX):
            return True
    return False


def _start_of(file: Path, limit: int) -> bytes | None:
    """Return the first bytes of a regular file, or None if it cannot be read."""
    try:
        return Files().read(str(file), limit)
    except (OSError, NotPermittedError):
        return None
