"""Commands that destroy without a question: worth asking a person about, wherever there is one."""

from __future__ import annotations

import re

__all__ = ["is_dangerous", "may_be_dangerous"]

_FORCE = re.compile(r"--force|-[A-Za-z]*f[A-Za-z]*")
_SUDO_VALUES = frozenset(["-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-U", "-u"])
"""Options of ``sudo`` that take the next word."""


def may_be_dangerous(words: tuple[str, ...]) -> bool:
    """A quick look before anything is parsed: can there be a forced ``rm`` in it at all?"""
    text = "\n".join(words)
    return "rm" in text and "f" in text and "-" in text


def is_dangerous(command: tuple[str, ...]) -> bool:
    """Whether it is ``rm`` with force among its options, itself or by ``sudo``."""
    while command and _name(command[0]) == "sudo":
        command = _after_sudo(command[1:])
    if not command or _name(command[0]) != "rm":
        return False
    for word in command[1:]:
        if not word.startswith("-") or word == "--":
            return False
        if _FORCE.fullmatch(word):
            return True
    return False


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _after_sudo(words: tuple[str, ...]) -> tuple[str, ...]:
    place = 0
    while place < len(words) and (words[place].startswith("-") or "=" in words[place]):
        if words[place] == "--":
            return words[place + 1 :]
        place += 2 if words[place] in _SUDO_VALUES else 1
    return words[place:]
