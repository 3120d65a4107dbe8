"""The context source ``skills``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from codex_framework import ContextSource, Fragment, TurnFacts
from codex_plugin_skills.sources import Sources

__all__ = ["SkillList"]

_START, _END = "<skills_instructions>", "</skills_instructions>"


class SkillList(ContextSource):
    """The list of skills that the model may choose from. Disabled by ``skills.include_instructions = false``."""

    name = "skills"
    reads = frozenset({"settings", "model", "environments", "files"})

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield the list, which is read again if a file has changed. Without skills, it revokes an earlier list."""
        skills = facts.config.get("skills")
        if isinstance(skills, Mapping) and skills.get("include_instructions") is False:
            return
        text = ""
        revoked = (
            f"{_START}\n## Skills\nThere are no skills any more. Do not use those that were listed before.\n{_END}"
        )
        if self._sources.find(facts):
            from codex_plugin_skills.listing import budget_of, listing

            text = listing(self._sources.of_turn(facts), budget_of(facts)).text
        yield Fragment(role="developer", text=text, start=_START, end=_END, order=90, revocation=revoked)

    def files(self, facts: TurnFacts) -> Iterable[str]:
        """Return the places of folders with skills, and what their skills were read from."""
        return self._sources.files(facts)
