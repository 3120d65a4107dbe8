"""Commands that delete files without a question, so that the user should be asked if possible."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codex_plugin_execpolicy.wrappers import Search, TooManyCommandsError, name_of

__all__ = ["dangerous_commands"]

_FORCE = r"--force|-[A-Za-z]*f[A-Za-z]*"


def dangerous_commands(commands: Iterable[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """Return the commands of a line that are ``rm`` with force, or may run one, for example by ``sudo`` or a shell."""
    search = Search()
    return frozenset(command for command in commands if _is_dangerous(command, search))


def _is_dangerous(command: tuple[str, ...], search: Search) -> bool:
    try:
        return _removes_by_force(command) or any(map(_removes_by_force, search.within(command)))
    except TooManyCommandsError:
        return True


def _removes_by_force(command: tuple[str, ...]) -> bool:
    if not command or name_of(command[0]) != "rm":
        return False
    for word in command[1:]:
        if word == "--":
            return False
        if re.fullmatch(_FORCE, word):  # an option may follow a file
            return True
    return False
