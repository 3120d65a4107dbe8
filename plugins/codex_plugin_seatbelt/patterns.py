"""Regular expressions for Seatbelt: names in either case, glob patterns, and what is left of a pattern below a folder.

Volumes of a Mac usually do not tell upper from lower case, and a *new* ``.GIT`` is matched as it is spelled: so every letter
becomes a class of both. The texts stand in raw strings (``#"..."``), which end at the first ``"`` and know no escapes: there is
never a ``"`` in them, and no backslash but a doubled one. They keep to what POSIX brackets and Python's agree on.
"""

from __future__ import annotations

import re
from functools import lru_cache

from codex_framework.globs import class_end, regex_of

__all__ = ["any_case", "below", "components", "residuals"]

_BRACKETED = frozenset(".*+?(){}|$")
"""Operators that lose their meaning in brackets."""

_ANY_ONE = "[^/]"
"""What stands for a character that has no safe spelling (``"``, brackets, ``^``, backslash, controls): any one. It excludes a
little more than it should, never less."""

_UNSPELLABLE = frozenset('"[]^\\')

_ANYWHERE = "**"


def components(path: str) -> tuple[str, ...]:
    """The names of an absolute path or pattern, from the top."""
    return tuple(part for part in path.split("/") if part)


def any_case(text: str) -> str:
    """An expression for a text (a path below something), with letters in either case."""
    return "".join(map(_character, text))


def below(parts: tuple[str, ...]) -> str:
    """An expression for what a pattern's components match, below a folder that is named before it with a ``/``."""
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == _ANYWHERE:
            text += ".*" if last else "(.*/)?"
        else:
            text += _component(part) + ("" if last else "/")
    return text


def residuals(pattern: str, folder: str) -> tuple[tuple[str, ...], ...]:
    """What is left of a pattern for matches strictly below a folder; none where there can be no such match.

    ``/a/**/b`` below ``/a/x`` leaves ``**/b``; below ``/z`` nothing. Several ways to go on are all given.
    """
    parts = components(pattern)
    states = _closed({0}, parts)
    for name in components(folder):
        states = _closed({after for at in states for after in _step(parts, at, name)}, parts)
    # after a `**` that has matched something comes the same with one folder less, which it covers
    covered = {at + 1 for at in states if at < len(parts) - 1 and parts[at] == _ANYWHERE}
    return tuple(parts[at:] for at in sorted(states - covered) if at < len(parts))


def _closed(states: set[int], parts: tuple[str, ...]) -> set[int]:
    """With the states that are reached by letting ``**`` stand for no folder."""
    reached = set(states)
    for at in sorted(states):
        while at < len(parts) - 1 and parts[at] == _ANYWHERE:
            at += 1  # noqa: PLW2901
            reached.add(at)
    return reached


def _step(parts: tuple[str, ...], at: int, name: str) -> list[int]:
    if at >= len(parts):
        return []
    if parts[at] == _ANYWHERE:
        return [at]
    return [at + 1] if _matcher(parts[at]).fullmatch(name) else []


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
    """One component of a pattern; the same matches as :func:`codex_framework.globs.regex_of`, and those in the other case."""
    text = ""
    at = 0
    while at < len(part):
        character = part[at]
        if character == "*":
            text += "[^/]*"
            while part[at + 1 : at + 2] == "*":
                at += 1
        elif character == "?":
            text += _ANY_ONE
        elif character == "[" and (end := class_end(part, at)) is not None:
            text += _class(part[at + 1 : end])
            at = end
        else:
            text += _character(character)
        at += 1
    return text


_SPELLABLE = re.compile(r"[\w .,:;=+*?(){}|$@#%&~!'<>-]", re.ASCII)
"""What may stand in brackets as it is. Anything else makes a class that matches any character: it denies more, not less."""


def _class(inner: str) -> str:
    negated = inner[:1] in ("!", "^")
    members = _members(inner[1:] if negated else inner)
    if not all(map(_spellable, members)):
        return _ANY_ONE
    if not negated:
        members += [member.swapcase() for member in members if member.islower() or member.isupper()]
    hyphen = "-" if "-" in members else ""  # at the end it is itself
    plain = "".join(dict.fromkeys(member for member in members if member != "-"))
    return f"[^/{plain}{hyphen}]" if negated else f"[{plain}{hyphen}]"


def _members(text: str) -> list[str]:
    """The members of a class: single characters, and ranges as three (read as :func:`codex_framework.globs.regex_of` does)."""
    found = []
    at = 0
    while at < len(text):
        length = 3 if text[at + 1 : at + 2] == "-" and at + 2 < len(text) else 1
        found.append(text[at : at + length])
        at += length
    return found


def _spellable(member: str) -> bool:
    ends = {member[0], member[-1]}
    return all(map(_SPELLABLE.fullmatch, ends)) and (len(member) == 1 or "-" not in ends)
