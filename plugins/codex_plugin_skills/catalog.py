"""Catalogs of skills: the skills of all folders, in order, and their states."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from codex_framework import Value
from codex_plugin_skills.events import SkillErrorInfo, SkillsListEntry
from codex_plugin_skills.frontmatter import one_line
from codex_plugin_skills.manifest import FILE as MANIFEST
from codex_plugin_skills.reading import Skill, read_skill
from codex_plugin_skills.roots import Root, Roots
from codex_plugin_skills.scanning import Stamp, search, stamp

__all__ = ["Catalog", "Catalogs"]

_SCOPES = ("repo", "user", "system", "admin")
_LISTED_SCOPES = ("system", "admin", "repo", "user")

_MAX_KEPT = 256
"""Maximum number of folders whose skills are kept."""

_DISTRUSTED = "its skills are not used, because you have not trusted this project. To trust it: codex-framework trust"


class Catalog(Value, kw_only=True):
    """The skills of a working folder.

    Attributes:
        skills: All of them, switched off or not, in the order of Codex: by scope, then by name.
        roots: The real paths of the folders, in order.
        problems: The unused parts, and the reasons.
    """

    skills: Sequence[Skill]
    roots: Sequence[str] = ()
    problems: Sequence[SkillErrorInfo] = ()

    def enabled(self) -> list[Skill]:
        """Return the skills that can be used."""
        return [skill for skill in self.skills if skill.metadata.enabled]

    def offered(self) -> list[Skill]:
        """Return the skills that the model may choose on its own, in the order of the list for the model."""
        chosen = [skill for skill in self.enabled() if skill.implicit]
        return sorted(chosen, key=lambda skill: _LISTED_SCOPES.index(skill.metadata.scope))

    def entry(self, cwd: str) -> SkillsListEntry:
        """Return the catalog as on the wire."""
        return SkillsListEntry(cwd, tuple(skill.metadata for skill in self.skills), tuple(self.problems))


class _Kept(NamedTuple):
    """The skills of one folder."""

    real: str
    stamps: Sequence[Stamp]
    skills: Sequence[Skill]
    problems: Sequence[SkillErrorInfo]

    def valid(self) -> bool:
        return all(stamp(each[0]) == each for each in self.stamps)


class Catalogs:
    """Makes catalogs. The skills of a folder are read again only if one of its files or folders has changed."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}

    def catalog(self, roots: Roots, rules: Sequence[Mapping[str, Any]]) -> Catalog:
        """Return the catalog of some folders. A file that is below several of them belongs to the first."""
        by_path: dict[str, Skill] = {}
        problems = [SkillErrorInfo(path, _DISTRUSTED) for path in roots.distrusted]
        reals = []
        for root in roots.used:
            found = self._found(root)
            reals.append(found.real)
            problems.extend(found.problems)
            for skill in found.skills:
                by_path.setdefault(skill.path, skill)
        skills = _apply_rules(by_path.values(), rules)
        skills.sort(key=lambda skill: (_SCOPES.index(skill.metadata.scope), skill.name, skill.path))
        return Catalog(skills=skills, roots=reals, problems=list(dict.fromkeys(problems)))

    def files(self, roots: Roots) -> Iterator[str]:
        """Yield the files and folders from which the skills of some folders were read."""
        for root in roots.used:
            yield from (each[0] for each in self._found(root).stamps)

    def _found(self, root: Root) -> _Kept:
        key = (root.path, root.scope)
        kept = self._kept.get(key)
        if kept is None or kept.real != os.path.realpath(root.path) or not kept.valid():
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            kept = self._kept[key] = _read(root)
        return kept


def _read(root: Root) -> _Kept:
    real = os.path.realpath(root.path)
    found = search(real, follow=root.follows_links)
    stamps = list(found.folders)
    problems = list(found.problems)
    skills = []
    for path in found.files:
        folder = os.path.dirname(path)  # noqa: PTH120
        stamps += (stamp(path), stamp(f"{folder}/{MANIFEST}"))  # first, so that a change while reading is noticed
        skill, wrong = read_skill(path, root.scope, real)
        problems += wrong
        if skill is not None:
            skills.append(skill)
    return _Kept(real, stamps, skills, problems)


def _apply_rules(skills: Any, rules: Sequence[Mapping[str, Any]]) -> list[Skill]:
    """Return the skills with their state, which the last rule for a skill's path or name decides."""
    by_path: dict[str, tuple[int, bool]] = {}
    by_name: dict[str, tuple[int, bool]] = {}
    for number, rule in enumerate(rules):
        on, path, name = rule.get("enabled"), rule.get("path"), rule.get("name")
        if isinstance(on, bool) and isinstance(path, str):
            by_path[os.path.realpath(os.path.expanduser(path))] = (number, on)  # noqa: PTH111
        elif isinstance(on, bool) and isinstance(name, str):
            by_name[one_line(name)] = (number, on)
    if not by_path and not by_name:
        return list(skills)
    default = (-1, True)
    return [
        skill
        if max(by_path.get(skill.path, default), by_name.get(skill.name, default))[1]
        else skill.evolve(metadata=skill.metadata.evolve(enabled=False))
        for skill in skills
    ]
