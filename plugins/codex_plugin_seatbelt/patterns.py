"""Regular expressions for Seatbelt: case-insensitive names, glob patterns, and the rest of a pattern below a folder.

Mac volumes usually ignore case, but Seatbelt matches the spelling of a *new* ``.GIT``. Therefore, every letter becomes a class
of both cases. The expressions are written in raw strings (``#"..."``), which end at the first ``"`` and have no escapes. They
never contain a ``"``, and they contain backslashes only in pairs. Their bracket syntax means the same in POSIX and Python.
"""

from __future__ import annotations

import re
from functools import lru_cache

from codex_framework.contract.permissions.globs import ANYWHERE, CharacterClass, Dialect, expression, regex_of

__all__ = ["any_case", "below", "components", "residuals"]

_BRACKETED = frozenset(".*+?(){}|$")
"""Operators that are literal inside brackets."""

_ANY_ONE = "[^/]"
"""Any character. This replaces characters that cannot be written safely (``"``, brackets, ``^``, backslash, controls). The
expression then excludes slightly more than intended, never less."""

_UNSPELLABLE = frozenset('"[]^\\')


def components(path: str) -> tuple[str, ...]:
    """Return the names of an absolute path or pattern, from the top."""
    return tuple(part for part in path.split("/") if part)


def any_case(text: str) -> str:
    """Return a case-insensitive expression for a relative path."""
    return "".join(map(_character, text))


def below(parts: tuple[str, ...]) -> str:
    """Return an expression for the matches of a pattern's components below a folder.

    The caller puts the folder and a ``/`` before it. The expression matches like ``globs.regex_of``, but ignores case.
    """
    return expression(parts, _SEATBELT)


def residuals(pattern: str, folder: str) -> tuple[tuple[str, ...], ...]:
    """Return the rest of a pattern for matches strictly below a folder. The result is empty if there can be no such match.

    For example, ``/a/**/b`` leaves ``**/b`` below ``/a/x`` and nothing below ``/z``. If a pattern has several rests, all are
    returned.
    """
    parts = components(pattern)
    states = _add_empty_matches({0}, parts)
    for name in components(folder):
        states = _add_empty_matches({next_state for index in states for next_state in _step(parts, index, name)}, parts)
    # The rest that starts with `**` already covers the rest after it.
    covered = {index + 1 for index in states if index < len(parts) - 1 and parts[index] == ANYWHERE}
    return tuple(parts[index:] for index in sorted(states - covered) if index < len(parts))


def _add_empty_matches(states: set[int], parts: tuple[str, ...]) -> set[int]:
    """Add the states that are reached if ``**`` matches no folder."""
    reached = set(states)
    for index in sorted(states):
        while index < len(parts) - 1 and parts[index] == ANYWHERE:
            index += 1  # noqa: PLW2901
            reached.add(index)
    return reached


def _step(parts: tuple[str, ...], index: int, name: str) -> list[int]:
    if index >= len(parts):
        return []
    if parts[index] == ANYWHERE:
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


_SPELLABLE = re.compile(r"[\w .,:;=+*?(){}|$@#%&~!'<>-]", re.ASCII)
"""Characters that can be used in brackets. With any other, the class matches every character, which denies more, not less."""


def _bracket_class(found: CharacterClass) -> str:
    if not all(map(_spellable, found.members)):
        return _ANY_ONE
    members = list(found.members)
    if not found.negated:
        members += [member.swapcase() for member in members if member.islower() or member.isupper()]
    hyphen = "-" if "-" in members else ""  # at the end, a hyphen is literal
    plain = "".join(dict.fromkeys(member for member in members if member != "-"))
    return f"[^/{plain}{hyphen}]" if found.negated else f"[{plain}{hyphen}]"


def _spellable(member: str) -> bool:
    ends = {member[0], member[-1]}
    return all(map(_SPELLABLE.fullmatch, ends)) and (len(member) == 1 or "-" not in ends)


_SEATBELT = Dialect(_character, _bracket_class)
