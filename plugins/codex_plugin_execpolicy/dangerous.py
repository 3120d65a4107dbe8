"""Commands that delete files without a question, so that the user should be asked if possible."""

from __future__ import annotations

import re

__all__ = ["is_dangerous", "may_be_dangerous", "unwrapped"]

_FORCE = r"--force|-[A-Za-z]*f[A-Za-z]*"
_SUDO_VALUES = frozenset(["-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-U", "-u"])
"""Options of ``sudo`` that take the next word."""


_ENV_VALUES = frozenset(["-C", "--chdir", "-S", "--split-string", "-u", "--unset"])
"""Options of ``env`` that take the next word."""

_QUOTES = str.maketrans("", "", "'\"\\\n")


def may_be_dangerous(words: tuple[str, ...]) -> bool:
    """Return quickly, before anything is parsed, whether there may be a forced ``rm``."""
    text = " ".join(words).translate(_QUOTES)
    return "rm" in text and "f" in text and "-" in text


def is_dangerous(command: tuple[str, ...]) -> bool:
    """Return whether a command is ``rm`` with force, directly or by ``sudo`` or ``env``."""
    command = unwrapped(command)
    if not command or _name(command[0]) != "rm":
        return False
    for word in command[1:]:
        if word == "--":
            return False
        if re.fullmatch(_FORCE, word):  # an option may follow a file
            return True
    return False


def unwrapped(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that ``sudo`` or ``env`` runs; any other command unchanged."""
    while command:
        if _name(command[0]) == "sudo":
            command = _after_options(command[1:], _SUDO_VALUES)
        elif _name(command[0]) == "env":
            command = _after_options(command[1:], _ENV_VALUES)
        else:
            break
    return command


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _after_options(words: tuple[str, ...], with_value: frozenset[str]) -> tuple[str, ...]:
    place = 0
    while place < len(words) and (words[place].startswith("-") or "=" in words[place]):
        if words[place] == "--":
            return words[place + 1 :]
        place += 2 if words[place] in with_value else 1
    return words[place:]
