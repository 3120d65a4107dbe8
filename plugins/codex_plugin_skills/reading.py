"""The reading of one skill from its files."""

from __future__ import annotations

import os

from codex_framework import Value
from codex_framework.toolkit.files import Files, NotPermittedError
from codex_plugin_skills.events import SkillErrorInfo, SkillMetadata
from codex_plugin_skills.frontmatter import SkillFileError, one_line, read_frontmatter
from codex_plugin_skills.manifest import FILE as MANIFEST
from codex_plugin_skills.manifest import Manifest, read_manifest

__all__ = ["MAX_SIZE", "Skill", "read_skill", "read_text"]

MAX_SIZE = 1 << 20
"""Maximum size of a file in bytes: the limit of a user's input."""


class Skill(Value, kw_only=True):
    """A skill that can be used.

    Attributes:
        root: The real path of the folder in which it was found.
        implicit: Whether the model may choose it without being told to.
    """

    metadata: SkillMetadata
    root: str
    implicit: bool = True

    @property
    def name(self) -> str:
        """The name by which it is mentioned."""
        return self.metadata.name

    @property
    def path(self) -> str:
        """The real path of its ``SKILL.md``."""
        return self.metadata.path

    @property
    def folder(self) -> str:
        """The folder of its ``SKILL.md``."""
        return os.path.dirname(self.metadata.path)  # noqa: PTH120


def read_text(path: str) -> str:
    """Return the text of a file.

    Raises:
        SkillFileError: It cannot be read, is too long or is not UTF-8.
    """
    try:
        data = Files().read(path, MAX_SIZE + 1)
    except NotPermittedError:
        raise SkillFileError("it may not be read") from None
    except (OSError, ValueError) as error:
        raise SkillFileError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_SIZE:
        raise SkillFileError(f"it has more than {MAX_SIZE >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillFileError(f"it is not UTF-8: the byte at position {error.start} does not fit") from error


def read_skill(path: str, scope: str, root: str) -> tuple[Skill | None, list[SkillErrorInfo]]:
    """Return the skill of a ``SKILL.md`` and the problems with its files, or None if it cannot be used."""
    try:
        if not path.isprintable():
            raise SkillFileError("its path has control characters")
        matter = read_frontmatter(read_text(path))
    except SkillFileError as error:
        return None, [SkillErrorInfo(path, str(error))]
    folder = os.path.dirname(path)  # noqa: PTH120
    manifest, problems = _manifest(folder)
    if not manifest.suitable:
        return None, problems
    metadata = SkillMetadata(
        name=matter.name or one_line(os.path.basename(folder)),  # noqa: PTH119
        description=matter.description,
        short_description=matter.short_description,
        interface=manifest.interface,
        dependencies=manifest.dependencies,
        path=path,
        scope=scope,
    )
    return Skill(metadata=metadata, root=root, implicit=manifest.implicit), problems


def _manifest(folder: str) -> tuple[Manifest, list[SkillErrorInfo]]:
    path = f"{folder}/{MANIFEST}"
    if not os.path.lexists(path):
        return Manifest(), []
    try:
        manifest = read_manifest(read_text(path), folder)
    except SkillFileError as error:
        return Manifest(), [SkillErrorInfo(path, str(error))]
    return manifest, [SkillErrorInfo(path, problem) for problem in manifest.problems]
