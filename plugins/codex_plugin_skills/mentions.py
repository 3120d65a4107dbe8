"""The skills that an input names: ``$name``, ``[$name](path)``, and items of kind ``skill``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from codex_plugin_skills.reading import Skill

__all__ = ["Mentioned", "mentioned"]

_MENTION = re.compile(r"\[\$[\w:-]+\]\s*\(([^)\n]*)\)|\$([\w:-]+)", re.ASCII)
_SCHEME = "skill://"

_VARIABLES = frozenset(
    ("PATH", "HOME", "USER", "SHELL", "PWD", "TMPDIR", "TEMP", "TMP", "LANG", "TERM", "XDG_CONFIG_HOME")
)
"""Environment variables that people write about. In any case, they name no skill (as in Codex)."""


class Mentioned(NamedTuple):
    """The mentions in an input.

    Attributes:
        skills: The skills, without repetitions: first from items, then from the text in the order of the catalog.
        problems: Ambiguous and unknown names, as sentences for the user.
    """

    skills: Sequence[Skill]
    problems: Sequence[str]


def mentioned(texts: Iterable[str], paths: Sequence[str], skills: Sequence[Skill]) -> Mentioned:
    """Return the mentions in an input.

    Args:
        texts: The texts of the user.
        paths: The paths of its items of kind ``skill``.
        skills: The skills that can be used.
    """
    names: dict[str, None] = {}
    linked: dict[str, None] = {}
    for match in (match for text in texts for match in _MENTION.finditer(text)):
        if match[2] is None:
            linked[os.path.normpath(match[1].strip().removeprefix(_SCHEME))] = None
        elif match[2].upper() not in _VARIABLES:
            names[match[2]] = None
    by_path = {skill.path: skill for skill in skills}
    first = [by_path[os.path.normpath(path)] for path in paths if os.path.normpath(path) in by_path]
    problems = [
        f"{path} is not a skill that can be used here" for path in paths if os.path.normpath(path) not in by_path
    ]
    chosen = {path for path in linked if path in by_path}
    for name in names:
        named = [skill.path for skill in skills if skill.name == name]
        if len(named) == 1:
            chosen.add(named[0])
        elif named and not chosen.intersection(named):
            places = " and ".join(named)
            problems.append(f"${name} names {len(named)} skills: {places}. Write [${name}](PATH) to choose one")
    found = dict.fromkeys(first) | dict.fromkeys(skill for skill in skills if skill.path in chosen)
    return Mentioned(list(found), problems)
