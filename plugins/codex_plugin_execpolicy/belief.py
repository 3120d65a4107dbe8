"""Decides whether a rule that allows a command is trusted: only if commands cannot change that command's effect.

A rule says "git status may run outside of the sandbox". The effect depends on the program that is found under the name, on the
shell and the files that it reads at its start, and for git on the repository's configuration. If commands of the turn may write
one of these, the rule is ignored, and the command runs in the sandbox like any other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codex_framework import CommandRequest, FileAccess, TurnFacts
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.toolkit.programs import is_out_of_reach, program_name
from codex_framework.toolkit.variables import PLAIN_TERMINAL
from codex_plugin_execpolicy.repositories import (
    leads_elsewhere,
    names_programs,
    repositories,
    settings_lead_elsewhere,
)
from codex_plugin_execpolicy.wrappers import place_of_subcommand

__all__ = ["Belief"]

_STARTUP = (
    *("", ".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".zlogin"),
    *(".gitconfig", ".config/git/config"),
)
"""Files that shells and git read in the user's home. ``""`` is the home itself, in which a missing file could be created."""

_OF_REPOSITORY = (
    "-C",
    "-c",
    "--bare",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--namespace",
    "--super-prefix",
    "--work-tree",
)
"""Options of git that select another repository or other settings."""

_RUNS_PROGRAMS = ("--up", "--rec", "--exe", "--open", "-O", "ext::", "fd::")
"""Beginnings of arguments with which subcommands of git run another program."""

_MOST_FOLDERS = 16


class Belief:
    """The trust in the commands of one request.

    Args:
        request: The request.
        facts: The turn.
        environ: The kernel's environment variables.
        shell: The shell of the request's script, if any.
        commands: The commands of the script, or the request's argv alone.
        expands: Whether the shell may replace some words by others.
    """

    def __init__(
        self,
        request: CommandRequest,
        facts: TurnFacts,
        environ: Mapping[str, str],
        *,
        shell: str | None,
        commands: tuple[tuple[str, ...], ...],
        expands: bool,
    ) -> None:
        self._access: FileAccess = facts.access
        self._is_here = facts.environment_id == LOCAL_ENVIRONMENT
        self._request = request
        self._cwd = Path(os.path.normpath(facts.cwd / (request.cwd or "")))
        self._path = _search_path(facts.config, environ)
        self._home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
        other = environ.get("XDG_CONFIG_HOME", "")
        self._git_settings = [
            Path("/etc/gitconfig"),
            Path(self._home, ".gitconfig"),
            Path(self._home, ".config/git/config"),
        ]
        self._git_settings += [Path(other, "git/config")] if os.path.isabs(other) else []  # noqa: PTH117
        self._shell = shell
        self._folders = _folders(self._cwd, self._home, commands, expands=expands)

    def knows(self, command: tuple[str, ...]) -> bool:
        """Return whether a command certainly runs the program that its words name, so that it may count as read-only."""
        if not self._is_plain or not self._runs_as_named(command):
            return False
        return program_name(command[0]) != "git" or self._in_all(self._is_own_repository)

    def allows(self, command: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
        """Return whether a rule for a prefix may let a command run outside of the sandbox."""
        if not self._is_plain or not self._runs_as_named(command):
            return False
        if self._access.full:
            return True
        if any(self._access.may_write(Path(self._home, name)) for name in _STARTUP):
            return False
        return command[0].rsplit("/", 1)[-1] != "git" or self._allows_git(command, prefix)

    @property
    def _is_plain(self) -> bool:
        """Return whether the model has set no variables for the command, which could make it do anything."""
        return self._request.env.items() <= PLAIN_TERMINAL.items()

    def _runs_as_named(self, command: tuple[str, ...]) -> bool:
        # What a name means in another environment cannot be looked up here.
        return self._is_here and all(map(self._is_out_of_reach, filter(None, (self._shell, command[0]))))

    def _is_out_of_reach(self, program: str) -> bool:
        def here(folder: Path) -> bool:
            return is_out_of_reach(program, access=self._access, cwd=folder, path=self._path)

        return here(self._cwd) if "/" not in program or program.startswith("/") else self._in_all(here)

    def _in_all(self, holds: Callable[[Path], bool]) -> bool:
        """Return whether a condition is true in every folder in which a command of the script may run."""
        return bool(self._folders) and all(map(holds, self._folders))

    def _allows_git(self, command: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
        """Return whether git cannot use a repository or a setting that commands may write or create."""
        for word in command[len(prefix) :]:
            if not word.startswith("-"):
                break
            if word.startswith(_OF_REPOSITORY):
                return False
        if any(word.startswith(_RUNS_PROGRAMS) for word in command[len(prefix) :]):
            return False
        if settings_lead_elsewhere(self._git_settings, self._access.may_write):
            return False
        options = prefix[: place_of_subcommand(prefix)]
        if any(
            word.startswith(_OF_REPOSITORY) and word != "-C" for word in options
        ):  # the author of the rule chose them
            return True
        folders = self._folders
        for place, word in enumerate(options):
            if word == "-C" and place + 1 < len(command):
                folders = tuple(found for folder in folders for found in _places(folder / command[place + 1]))
        return bool(folders) and all(map(self._is_protected_repository, folders))

    def _is_protected_repository(self, folder: Path) -> bool:
        """Return whether git uses a repository there that commands can neither write nor replace.

        This means that none can be created in a folder between it and the working folder, and that nothing in its configuration
        refers to the workspace.
        """
        for above in (folder, *folder.parents):
            git = above / ".git"
            if self._access.may_write(git):
                return False
            if os.path.lexists(git):
                return not any(leads_elsewhere(each, self._access.may_write) for each in repositories(git))
        return True

    def _is_own_repository(self, folder: Path) -> bool:
        """Return whether commands cannot write the repository that git finds in a folder.

        With full access, git is not confined: return whether the repository makes git run no programs, because it may be
        untrusted.
        """
        for above in (folder, *folder.parents):
            git = above / ".git"
            if os.path.lexists(git):
                if self._access.full:
                    return not any(map(names_programs, repositories(git)))
                return not self._access.may_write(git / "config")
        return True


def _folders(cwd: Path, home: str, commands: tuple[tuple[str, ...], ...], *, expands: bool) -> tuple[Path, ...]:
    """Return the folders in which commands of a script may run: the request's folder, and folders that it changes to.

    Empty if unknown.
    """
    folders = list({cwd: None, cwd.resolve(): None})
    for program, *arguments in commands:
        if program in ("cd", "pushd", "popd"):
            target = arguments[0] if arguments else home
            unclear = expands or len(arguments) > 1 or target.startswith(("-", "+")) or program == "popd"
            if unclear or len(folders) > _MOST_FOLDERS:
                return ()
            moved = [place for folder in folders for place in _places(folder / target)]
            folders = list(dict.fromkeys((*folders, *moved)))
    return tuple(dict.fromkeys(folders))


def _places(path: Path) -> tuple[Path, Path]:
    """Return the folders to which a path may resolve: ``..`` after a link means either the link's folder or its target's folder."""
    return Path(os.path.normpath(path)), path.resolve()


def _search_path(config: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    policy = config.get("shell_environment_policy")
    variables = policy.get("set") if isinstance(policy, Mapping) else None
    chosen = variables.get("PATH") if isinstance(variables, Mapping) else None
    return chosen if isinstance(chosen, str) else environ.get("PATH") or os.defpath
