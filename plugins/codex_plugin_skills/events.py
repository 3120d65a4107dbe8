"""Skills on the wire: the event that answers the op ``list_skills``."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg, Value

__all__ = [
    "ListSkillsResponseEvent",
    "SkillDependencies",
    "SkillErrorInfo",
    "SkillInterface",
    "SkillMetadata",
    "SkillToolDependency",
    "SkillsListEntry",
]


class SkillInterface(Value, kw_only=True):
    """How user interfaces show a skill.

    Attributes:
        icon_small, icon_large: Absolute paths.
        brand_color: As ``#RRGGBB``.
        default_prompt: A prompt that uses the skill.
    """

    display_name: str | None = None
    short_description: str | None = None
    icon_small: str | None = None
    icon_large: str | None = None
    brand_color: str | None = None
    default_prompt: str | None = None


class SkillToolDependency(Value, kw_only=True):
    """Something that a skill needs.

    Attributes:
        type: ``mcp`` (a server), ``env_var`` (an environment variable), or another kind.
        value: The name of the server or variable.
        transport: ``stdio`` or ``streamable_http``, for a server.
    """

    type: str
    value: str
    description: str | None = None
    transport: str | None = None
    command: str | None = None
    url: str | None = None


class SkillDependencies(Value):
    """The requirements of a skill."""

    tools: tuple[SkillToolDependency, ...]


class SkillMetadata(Value, kw_only=True):
    """A skill, without its instructions.

    Attributes:
        short_description: ``metadata.short-description`` of the frontmatter, the older form of the interface's description.
        path: The real path of its ``SKILL.md``.
        scope: ``repo``, ``user``, ``system`` or ``admin``.
        enabled: False if ``[[skills.config]]`` switches it off.
    """

    name: str
    description: str
    short_description: str | None = None
    interface: SkillInterface | None = None
    dependencies: SkillDependencies | None = None
    path: str
    scope: str
    enabled: bool = True


class SkillErrorInfo(Value):
    """A file or folder that is not used, or not all of it, and why."""

    path: str
    message: str


class SkillsListEntry(Value):
    """The skills of one working folder."""

    cwd: str
    skills: tuple[SkillMetadata, ...]
    errors: tuple[SkillErrorInfo, ...] = ()


class ListSkillsResponseEvent(EventMsg):
    """The answer to the op ``list_skills``: one entry for each folder."""

    type: ClassVar[Literal["list_skills_response"]] = "list_skills_response"
    skills: tuple[SkillsListEntry, ...]
