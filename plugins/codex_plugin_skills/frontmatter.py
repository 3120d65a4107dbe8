"""The frontmatter of a ``SKILL.md``: the name and purpose of the skill."""

from __future__ import annotations

import re
from collections.abc import Mapping

from codex_framework import Value
from codex_plugin_skills.yaml_tree import Tree, YamlError, read_mapping

__all__ = ["Frontmatter", "SkillFileError", "one_line", "read_frontmatter"]

_MAX_NAME = 64
_MAX_LENGTH = 16 * 1024
"""Maximum length of the frontmatter in characters. The parser needs a tenth of a second for it in the worst case."""

_FENCE = "---"
_LOOSE = re.compile(r"(name|description):[ \t]*(.*)")


class SkillFileError(Exception):
    """A file of a skill cannot be used. Its text says why, for the user."""


class Frontmatter(Value, kw_only=True):
    """The frontmatter of a skill.

    Attributes:
        name: Empty means that the name of the folder is the name.
        short_description: ``metadata.short-description``.
    """

    name: str
    description: str
    short_description: str | None = None


def one_line(text: str) -> str:
    """Return a text with each run of white space as one space."""
    return " ".join(text.split())


def read_frontmatter(text: str) -> Frontmatter:
    """Return the frontmatter of the text of a file.

    Raises:
        SkillFileError: The frontmatter is missing or cannot be used.
    """
    block = _block(text)
    if block is None:
        raise SkillFileError(f"it does not begin with a frontmatter between two lines `{_FENCE}`")
    if len(block) > _MAX_LENGTH:
        raise SkillFileError(f"its frontmatter has {len(block)} characters; at most {_MAX_LENGTH} are read")
    fields = _fields(block)
    description = one_line(_text(fields, "description"))
    if not description:
        raise SkillFileError("its frontmatter has no `description`")
    name = one_line(_text(fields, "name"))
    if len(name) > _MAX_NAME:
        raise SkillFileError(f"its `name` has {len(name)} characters; at most {_MAX_NAME} are allowed")
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise SkillFileError("its `metadata` is not a mapping")
    short = one_line(_text(metadata, "short-description"))
    return Frontmatter(name=name, description=description, short_description=short or None)


def _block(text: str) -> str | None:
    lines = text.split("\n")
    if lines[0].strip() != _FENCE:
        return None
    for number, line in enumerate(lines[1:], 1):
        if line.strip() == _FENCE:
            return "\n".join(line.rstrip("\r") for line in lines[1:number])
    return None


def _fields(block: str) -> Mapping[str, Tree]:
    try:
        return read_mapping(block)
    except YamlError as error:
        if "twice" in str(error):
            raise SkillFileError(f"its frontmatter is {error}") from error
        loose = _loose(block)
        if not loose.get("description"):
            raise SkillFileError(f"its frontmatter is {error}") from error
        return loose


def _loose(block: str) -> dict[str, Tree]:
    """Return name and description of a block that is no valid YAML, as Codex does: authors write unquoted colons."""
    found: dict[str, Tree] = {}
    for line in block.split("\n"):
        match = _LOOSE.fullmatch(line)
        if match is not None:
            found.setdefault(match[1], match[2])
    return found


def _text(fields: Mapping[str, Tree], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillFileError(f"its `{key}` is not text")
    return value
