"""References of a git repository: programs that git runs, and files of the workspace, which commands may write."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from codex_framework.contract.permissions.links import home_expanded
from codex_framework.toolkit.files import Files, NotPermittedError
from codex_framework.toolkit.projects import pointer_line, repository_folders
from codex_lib_shell_script.parsing import words_of_all_commands
from codex_plugin_execpolicy.amendments import RUNNERS
from codex_plugin_execpolicy.wrappers import ANY_PROGRAM, WRAPPERS, is_interpreter, name_of

__all__ = ["leads_elsewhere", "names_programs", "repositories", "settings_lead_elsewhere"]

_NAMES_FILES = re.compile(rb"hookspath|\[\s*(?:include|protocol)", re.IGNORECASE)
"""Settings by which a repository's configuration can refer to the workspace: hooks, included files, and URLs that are programs.

Such URLs (``ext::PROGRAM``) must be allowed for a protocol.
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

_EDITORS = frozenset(("vi", "vim", "nvim", "ex", "view", "emacs", "ed"))
_OPTION_OF_EDITOR = re.compile(r"-[fnRtZ]|-nw|-q|-Q|--(?:clean|wait|nofork|no-splash|quick)")
"""Options with which an editor opens the file that git appends, and reads nothing of the working folder."""

_SSH_RUNS = re.compile(r"(?i:(?:proxy|local|knownhosts)command|\b(?:include|match)\b)|-[A-Za-z0-9]*F ?[^/ ]+(?: |$)")
_BUILDERS = frozenset(("make", "gmake", "ninja", "just", "rake", "task", "bundle", "cargo", "mvn", "gradle"))
_SED_FILE = re.compile(r"-[A-Za-z]*f|--f")

_SWITCH = re.compile(r"(true|false|yes|no|on|off|0|1|)", re.IGNORECASE)
_WORD = re.compile(r"[^\s\"';&|!()]+")
_LFS = re.compile(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?")
_GITLINK = b"\0\0\xe0\0"
"""The mode 160000 of a submodule, as an index contains it. If other bytes are the same by chance, a rule is ignored for once."""

_QUOTES = str.maketrans("", "", "\"'\\")
_PARTS = ("config", "config.worktree", "hooks", "info", "info/attributes", "HEAD", "commondir", "modules", "index")
_HOOK_OF_LFS = re.compile(rb"#!/bin/sh|command -v git-lfs [^`$;]*|git lfs [a-z-]+ \"\$@\"|#.*|\s*")
_RELATIVE_HOOKS = re.compile(rb"hookspath\s*=[\s\"]*(?![\s\"/~])", re.IGNORECASE)

_LARGEST_CONFIG = 1 << 20
_LARGEST_INDEX = 1 << 26


def repositories(git: Path) -> Iterator[Path]:
    """Yield the repository at a ``.git``: the folder itself, or the targets of a file of this name."""
    if git.is_dir():
        yield git
        if common := pointer_line(str(git / "commondir")):
            yield git / common
    else:
        yield from map(Path, repository_folders(str(git)))


def leads_elsewhere(repository: Path, may_write: Callable[[Path], bool]) -> bool:
    """Return whether submodules, hooks, included files or programs are configured that are in the workspace.

    A part of the repository may also be a link to a file that commands may write, and a hook may run such files.

    A submodule that is not checked out is an empty folder, in which a command can create a repository with its own settings.
    git enters it with commands like ``git status``.
    """
    if (repository / "modules").is_dir() or _has_submodules(repository):
        return True
    parts = [repository / name for name in _PARTS]
    hooks = [hook for hook in sorted((repository / "hooks").glob("*")) if hook.suffix != ".sample"]
    if any(may_write(place) or may_write(place.resolve()) for place in (*parts, *hooks)):
        return True
    if any(os.access(hook, os.X_OK) and not _is_of_lfs(hook) for hook in hooks):
        return True
    return any(
        config is None
        or _NAMES_FILES.search(config)
        or any(_may_be_of_workspace(program, may_write) for program in _programs(config))
        for config in _configurations(repository)
    )


def _is_of_lfs(hook: Path) -> bool:
    lines = (_settings(hook) or b"?").splitlines()
    return all(_HOOK_OF_LFS.fullmatch(line) for line in lines)


def settings_lead_elsewhere(files: Iterable[Path], may_write: Callable[[Path], bool]) -> bool:
    """Return whether settings of the user or the machine have git run programs that may be in the workspace.

    An example is ``python -m NAME``, which looks for the module in the working folder first.
    """
    return any(
        config is None
        or _RELATIVE_HOOKS.search(config)
        or any(_may_be_of_workspace(program, may_write) for program in _programs(config))
        for config in map(_settings, files)
    )


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
    """Return the settings in a file (empty if it is missing), or None if they cannot be determined."""
    try:
        content = Files().read(str(file), _LARGEST_CONFIG + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (OSError, NotPermittedError):
        return None
    return content.removeprefix(codecs.BOM_UTF8) if len(content) <= _LARGEST_CONFIG else None


def _programs(config: bytes) -> Iterator[str]:
    """Yield the programs that a configuration names, without switches and the filters of Git LFS, which is looked for in ``PATH``."""
    for found in _NAMES_PROGRAM.finditer(config):
        value = found["value"].decode("utf-8", "replace").strip()
        if not _SWITCH.fullmatch(value) and not _LFS.fullmatch(value):
            yield value


def _may_be_of_workspace(program: str, may_write: Callable[[Path], bool]) -> bool:
    """Return whether a program that git runs may be a file of the workspace or run one: it has such a path, or looks for it there."""
    if program.endswith("\\"):
        return True
    for text in (program, program.translate(_QUOTES)):
        for word in _WORD.findall(text):
            if "/" in word and (not word.startswith(("/", "~")) or may_write(Path(home_expanded(word)).resolve())):
                return True
        commands = tuple(words_of_all_commands(text.removeprefix("!")))
        if not commands or any(map(_runs_files, commands)):
            return True
    return False


def _runs_files(command: tuple[str, ...]) -> bool:
    """Return whether a command may run a file found only by its name or the working folder, like ``python3 -m NAME``."""
    if not command or not command[0]:
        return True
    name = name_of(command[0])
    if name == "ssh":
        return _SSH_RUNS.search(" ".join(command)) is not None
    if name in ("sed", "gsed"):
        return any(map(_SED_FILE.match, command))
    if name in _EDITORS:
        return not all(map(_OPTION_OF_EDITOR.fullmatch, command[1:]))
    return is_interpreter(name) or name in RUNNERS or name in WRAPPERS or name in ANY_PROGRAM or name in _BUILDERS


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
