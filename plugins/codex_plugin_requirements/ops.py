"""The op ``read_requirements``."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg, Op, OpHandler, ThreadContext
from codex_framework.toolkit import administration
from codex_plugin_requirements.reading import Requirements, read_requirements

__all__ = ["ReadRequirements", "ReadRequirementsHandler", "RequirementsResponseEvent"]


class ReadRequirements(Op):
    """Request the administrator's requirements. The answer is the event ``requirements_response``."""

    type: ClassVar[Literal["read_requirements"]] = "read_requirements"


class RequirementsResponseEvent(EventMsg):
    """The answer to the op ``read_requirements``: the requirements of the file, or null without requirements."""

    type: ClassVar[Literal["requirements_response"]] = "requirements_response"
    requirements: Requirements | None


class ReadRequirementsHandler(OpHandler[ReadRequirements]):
    """Reads the file again."""

    op = ReadRequirements

    async def handle(self, op: ReadRequirements, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Answer under the submission's id. Raises ConfigError if the file is invalid now."""
        path = administration.REQUIREMENTS
        found = read_requirements(path)
        thread.emit(RequirementsResponseEvent(None if found == Requirements(path=path) else found), id=id)
