"""The interceptors: skills that an input names are added to it, and skills that the model uses on its own are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from codex_framework import InputText, Interceptor, Message, ToolCall, TurnContext, TurnFacts, UserInput
from codex_plugin_skills.sources import Sources

if TYPE_CHECKING:
    from codex_plugin_skills.catalog import Catalog
    from codex_plugin_skills.reading import Skill

__all__ = ["ImplicitUse", "NamedSkills"]

_MAX_TOLD = 10
"""Maximum number of warnings about files for one input."""


class NamedSkills(Interceptor):
    """Adds the instructions of the skills that the user names, and tells the user about skills that cannot be used."""

    name = "named-skills"
    order = 80

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def takes(self, input: UserInput, turn: TurnFacts) -> bool:  # noqa: A002  # the role's
        """Return whether an input may name a skill, or whether there is something to tell about skills."""
        return bool(input.mentions) or any("$" in text for text in _texts(input)) or self._sources.exist(turn)

    async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002  # the role's
        """Add a message for each skill after the user's messages."""
        paths = [mention.path for mention in input.mentions if mention.type == "skill"]
        texts = [text for text in _texts(input) if "$" in text]
        if not self.takes(input, turn.facts):
            return input
        catalog = self._sources.of_turn(turn.facts)
        _tell_problems(catalog, turn)
        if not paths and not texts:
            return input
        from codex_plugin_skills.mentions import mentioned

        found = mentioned(texts, paths, catalog.enabled())
        for problem in found.problems:
            turn.thread.warn(problem)
        added = [message for skill in found.skills for message in self._message(skill, turn)]
        return input.evolve(items=(*input.items, *added)) if added else input

    def _message(self, skill: Skill, turn: TurnContext) -> Iterator[Message]:
        """Yield the message with a skill's instructions. If they cannot be read, the user is warned."""
        from codex_plugin_skills.frontmatter import SkillFileError
        from codex_plugin_skills.reading import read_text

        try:
            text = read_text(skill.path)
        except SkillFileError as error:
            turn.thread.warn(f"the skill {skill.name} is left out: {skill.path}: {error}")
            measure(skill, turn, invocation="explicit", status="error")
            return
        for need in _unmet(skill, turn, self._sources.environ):
            turn.thread.warn(f"the skill {skill.name} needs {need}")
        measure(skill, turn, invocation="explicit")
        whole = f"<skill>\n<name>{skill.name}</name>\n<path>{skill.path}</path>\n{text}\n</skill>"
        yield Message(role="user", content=(InputText(whole),))


class ImplicitUse(Interceptor):
    """Measures when the model reads the instructions of a skill or runs one of its scripts."""

    name = "implicit-skills"
    order = 200

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def applies(self, turn: TurnFacts) -> bool:
        """Return whether there may be skills."""
        return self._sources.exist(turn)

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Check a call, which is unchanged."""
        text = call.arguments
        if "SKILL.md" in text or "scripts" in text or "skills" in text:
            from codex_plugin_skills.implicit import used_skills

            catalog = self._sources.of_turn(turn.facts)
            seen = turn.thread.state("implicit-skills", dict[str, set[str]])
            told = seen.setdefault(turn.facts.turn_id, set())
            for old in [turn_id for turn_id in seen if turn_id != turn.facts.turn_id]:
                del seen[old]
            for skill in used_skills(call, turn, catalog.offered()):
                if skill.path not in told:
                    told.add(skill.path)
                    measure(skill, turn, invocation="implicit")
        return call


def measure(skill: Skill, turn: TurnContext, *, invocation: str, status: str = "ok") -> None:
    """Measure that a skill is used."""
    names = {"skill.name": skill.name, "skill.scope": skill.metadata.scope, "skill.invocation_type": invocation}
    with turn.span("codex.skill.injected", status=status, **names):
        pass


def _texts(input: UserInput) -> Iterator[str]:  # noqa: A002  # the role's word
    for item in input.items:
        if isinstance(item, Message) and item.role == "user":
            yield from (part.text for part in item.content if isinstance(part, InputText))


def _tell_problems(catalog: Catalog, turn: TurnContext) -> None:
    """Warn the user of each problem once in a thread. Children leave that to their parents."""
    if turn.facts.depth:
        return
    told: set[str] = turn.thread.state("told", set)
    fresh = [text for text in _problems(catalog, turn.facts) if text not in told]
    told.update(fresh)
    for text in fresh[:_MAX_TOLD]:
        turn.thread.warn(text)
    if len(fresh) > _MAX_TOLD:
        turn.thread.warn(f"{len(fresh) - _MAX_TOLD} more problems with skills: codex-framework skills list")


def _problems(catalog: Catalog, facts: TurnFacts) -> Iterator[str]:
    skills = facts.config.get("skills")
    if not isinstance(skills, Mapping) or skills.get("include_instructions") is not False:
        from codex_plugin_skills.listing import budget_of, listing

        warning = listing(catalog, budget_of(facts)).warning
        if warning:
            yield warning
    for problem in catalog.problems:
        yield f"skills: {problem.path}: {problem.message}"


def _unmet(skill: Skill, turn: TurnContext, environ: Mapping[str, str]) -> Sequence[str]:
    from codex_plugin_skills.needs import unmet_needs

    return unmet_needs(skill, turn.facts.config, environ)
