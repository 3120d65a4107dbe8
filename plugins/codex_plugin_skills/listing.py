"""The list of skills for the model, within its share of the context."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from codex_framework import TurnFacts, Value
from codex_plugin_skills.catalog import Catalog
from codex_plugin_skills.reading import Skill

__all__ = ["END", "START", "Listing", "budget_of", "listing"]

START, END = "<skills_instructions>", "</skills_instructions>"

_SHARE = 50
"""The list has one 50th of the context window."""

_DEFAULT_BUDGET = 2000
"""The budget in tokens if the window of the model is not known."""

_MAX_BUDGET = 10_000
"""The largest budget that the configuration can set (as in Codex)."""

_BYTES_PER_TOKEN = 4
_MAX_DESCRIPTION = 1024

_HEAD = (
    "## Skills\n"
    "A skill is a folder with instructions for one kind of task, in a file `SKILL.md`. These are the skills of this session,"
    " with what each is for and its file. The first part of a file stands for a folder of this table."
)

_USE = """\
### How to use skills
- When: use a skill if the user names it (`$name`, or in plain words), or if the task is clearly what its description says. Use all \
that the user names. In the next turn, a skill applies only if it is named or fits again.
- Read first: before any other step, expand the file's path with the table, and read the whole `SKILL.md`, to its last line. What \
the user named with `$name` is in the conversation already.
- Say in one line which skills you use, and why. Choose as few as cover the task.
- Files that a `SKILL.md` mentions are relative to its folder. Read those that it tells you to read for this task, and no others. \
Read instructions yourself; a sub-agent may do the work, but not the reading.
- Run or change the scripts of a skill, and reuse its templates and assets, rather than writing them again.
- The user's words outweigh those of a skill.
- If a skill is missing, cannot be read or does not fit, say so in one line and go on without it."""


class Listing(Value, kw_only=True):
    """The list.

    Attributes:
        text: The text for the model. Empty without skills to choose.
        warning: The warning about skills that did not fit. Empty if all fit.
    """

    text: str = ""
    warning: str = ""


def budget_of(facts: TurnFacts) -> int:
    """Return the number of tokens that the list may have."""
    skills = facts.config.get("skills")
    own = skills.get("max_context_tokens") if isinstance(skills, Mapping) else None
    if isinstance(own, int) and own > 0:
        return min(own, _MAX_BUDGET)
    window = facts.model.context_window
    return window // _SHARE if window > 0 else _DEFAULT_BUDGET


def listing(catalog: Catalog, budget: int) -> Listing:
    """Return the list of a catalog's skills, within a budget in tokens."""
    skills = catalog.offered()
    if not skills:
        return Listing()
    used = [root for root in catalog.roots if any(_is_below(skill.path, root) for skill in skills)]
    places = [_place(skill.path, used) for skill in skills]
    lines, warning = _fit_lines(skills, places, budget)
    roots = [f"- `r{number}` = `{root}`" for number, root in enumerate(used)]
    table = ["### Skill folders", *roots] if roots else []
    text = "\n".join((START, _HEAD, *table, "### Available skills", *lines, _USE, END))
    return Listing(text=text, warning=warning)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _place(path: str, roots: Sequence[str]) -> str:
    """Return a path with the shortest name of its folder. A path that a symlink redirects is not shortened."""
    number = max(
        (number for number, root in enumerate(roots) if _is_below(path, root)),
        key=lambda number: len(roots[number]),
        default=-1,
    )
    return path if number < 0 else f"r{number}/{os.path.relpath(path, roots[number])}"


def _line(skill: Skill, place: str, description: str) -> str:
    line = f"- {skill.name}: {description}{' ' if description else ''}(file: {place})"
    return line.replace("</", "<\\/")  # so that no description ends the list


def _cost(line: str) -> int:
    return -(-(len(line.encode()) + 1) // _BYTES_PER_TOKEN)


def _fit_lines(skills: Sequence[Skill], places: Sequence[str], budget: int) -> tuple[list[str], str]:
    """Return the lines that fit the budget, and a warning: whole, else with shorter descriptions, else as many as fit."""
    descriptions = [skill.metadata.description[:_MAX_DESCRIPTION] for skill in skills]
    lines = _lines(skills, places, descriptions)
    if sum(map(_cost, lines)) <= budget:
        return lines, ""
    bare = _lines(skills, places, [""] * len(skills))
    costs = list(map(_cost, bare))
    if sum(costs) < budget:
        length = _common_length(descriptions, (budget - sum(costs)) * _BYTES_PER_TOKEN)
        while length > 0:  # a few times, because each line is counted in whole tokens
            lines = _lines(skills, places, [_first_bytes(text, length) for text in descriptions])
            if sum(map(_cost, lines)) <= budget:
                return lines, _budget_warning(
                    budget, f"Descriptions are cut to about {length} characters, so the model may choose worse"
                )
            length -= 1
    fit = 0
    while fit < len(costs) and sum(costs[: fit + 1]) <= budget:
        fit += 1
    missing = len(bare) - fit
    more = f", and {missing} skills are missing" if missing else ""
    return bare[:fit], _budget_warning(budget, f"All descriptions are left out{more}")


def _budget_warning(budget: int, effect: str) -> str:
    return (
        f"the list of skills does not fit into its {budget} tokens. {effect}."
        " Switch off those that you do not need: codex-framework skills disable NAME"
    )


def _lines(skills: Iterable[Skill], places: Iterable[str], descriptions: Iterable[str]) -> list[str]:
    return [_line(*parts) for parts in zip(skills, places, descriptions, strict=True)]


def _common_length(texts: Iterable[str], room: int) -> int:
    """Return the length in bytes to which texts are cut, so that all fit. Short texts leave their room to the others."""
    lengths = sorted(len(text.encode()) + 1 for text in texts)
    for number, length in enumerate(lengths):
        share = room // (len(lengths) - number)
        if length > share:
            return max(share - 1, 0)
        room -= length
    return lengths[-1]


def _first_bytes(text: str, length: int) -> str:
    data = text.encode()
    return text if len(data) <= length else data[:length].decode(errors="ignore").rstrip()
