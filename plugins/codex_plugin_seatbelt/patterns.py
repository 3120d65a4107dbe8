"""Regular expressions for Seatbelt: names in upper and lower case, glob patterns, and the rest of a pattern below a folder.

Volumes of a Mac usually ignore case, but a *new* ``.GIT`` is matched as it is spelled. So every letter becomes a class of both
cases. The expressions are in raw strings (``#"..."``), which end at the first ``"`` and have no escapes. So they never contain a
``"``, and backslashes only in pairs. They use only syntax on which POSIX brackets and Python's agree.
"""

from __future__ import annotations

import re
from functools import lru_cache

from codex_framework.contract.permissions.globs import class_end, regex_of

__all__ = ["any_case", "below", "components", "residuals"]

_BRACKETED = frozenset(".*+?(){}|$")
"""Operators that lose their meaning in brackets."""

_ANY_ONE = "[^/]"
"""The replacement for a character that has no safe spelling (``"``, brackets, ``^``, backslash, controls): any character. It
excludes slightly more than it should, never less."""

_UNSPELLABLE = frozenset('"[]^\\')

_ANYWHERE = "**"


def components(path: str) -> tuple[str, ...]:
    """Return the names of an absolute path or pattern, from the top."""
    return tuple(part for part in path.split("/") if part)


def any_case(text: str) -> str:
    """Return an expression for a relative path, with letters in upper and lower case."""
    return "".join(map(_character, text))


def below(parts: tuple[str, ...]) -> str:
    """Return an expression for the matches of a pattern's components below a folder, which is put before it with a ``/``."""
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == _ANYWHERE:
            text += ".*" if last else "(.*/)?"
        else:
            text += _component(part) + ("" if last else "/")
    return text


def residuals(pattern: str, folder: str) -> tuple[tuple[str, ...], ...]:
    """Return the rest of a pattern for matches strictly below a folder; empty if there can be no such match.

    ``/a/**/b`` below ``/a/x`` gives ``**/b``, and below ``/z`` nothing. If there are several possibilities, all are returned.
    """
    parts = components(pattern)
    states = _closed({0}, parts)
    for name in components(folder):
        states = _closed({next_state for index in states for next_state in _step(parts, index, name)}, parts)
    # After a matching `**`, the same rest with one folder less is also possible; it is already covered.
    covered = {index + 1 for index in states if index < len(parts) - 1 and parts[index] == _ANYWHERE}
    return tuple(parts[index:] for index in sorted(states - covered) if index < len(parts))


def _closed(states: set[int], parts: tuple[str, ...]) -> set[int]:
    """Add the states that are reached if ``**`` matches no folder."""
    reached = set(states)
    for index in sorted(states):
        while index < len(parts) - 1 and parts[index] == _ANYWHERE:
            index += 1  # noqa: PLW2901
            reached.add(index)
    return reached


def _step(parts: tuple[str, ...], index: int, name: str) -> list[int]:
    if index >= len(parts):
        return []
    if parts[index] == _ANYWHERE:
        return [index]
    return [index + 1] if _matcher(parts[index]).fullmatch(name) else []


@lru_cache(maxsize=256)
def _matcher(part: str) -> re.Pattern[str]:
    return re.compile(regex_of(part), re.DOTALL | re.IGNORECASE)


def _character(character: str) -> str:
    if character.isascii() and character.isalpha():
        return f"[{character.lower()}{character.upper()}]"
    if character in _BRACKETED:
        return f"[{character}]"
    if character in _UNSPELLABLE or not character.isprintable():
        return _ANY_ONE
    return character


def _component(part: str) -> str:
    """Return an expression for one component of a pattern. It matches like ``globs.regex_of``, but ignores case."""
    text = ""
    index = 0
    while index < len(part):
        character = part[index]
        if character == "*":
            text += "[^/]*"
            while part[index + 1 : index + 2] == "*":
                index += 1
        elif character == "?":
            text += _ANY_ONE
        elif character == "[" and (end := class_end(part, index)) is not None:
            text += _class(part[index + 1 : end])
            index = end
        else:
            text += _character(character)
        index += 1
    return text


_SPELLABLE = re.compile(r"[\w .,:;=+*?(){}|$@#%&~!'<>-]", re.ASCII)
"""Characters that can be used in brackets. Any other makes a class that matches every character, which denies more, not less."""


def _class(inner: str) -> str:
    negated = inner[:1] in ("!", "^")
    members = _members(inner[1:] if negated else inner)
    if not all(map(_spellable, members)):
        return _ANY_ONE
    if not negated:
        members += [member.swapcase() for member in members if member.islower() or member.isupper()]
    hyphen = "-" if "-" in members else ""  # at the end, a hyphen is literal
    plain = "".join(dict.fromkeys(member for member in members if member != "-"))
    return f"[^/{plain}{hyphen}]" if negated else f"[{plain}{hyphen}]"


def _members(text: str) -> list[str]:
    """Return the members of a class: single characters, and ranges of three characters (parsed like ``globs.regex_of``)."""
    members = []
    index = 0
    while index < len(text):
        length = 3 if text[index + 1 : index + 2] == "-" and index + 2 < len(text) else 1
        members.append(text[index : index + length])
        index += length
    return members


def _spellable(member: str) -> bool:
    ends = {member[0], member[-1]}
    return all(map(_SPELLABLE.fullmatch, ends)) and (len(member) == 1 or "-" not in ends)
