"""The op ``list_skills``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError
from codex_plugin_skills.sources import Sources

__all__ = ["ListSkills", "ListSkillsHandler"]


class ListSkills(Op):
    """List skills. The answer is the event ``list_skills_response``.

    Attributes:
        cwds: The working folders to list them for. By default, the thread's folder.
        force_reload: Whether apparently unchanged files are read again.
    """

    type: ClassVar[Literal["list_skills"]] = "list_skills"
    cwds: tuple[str, ...] = ()
    force_reload: bool = False


class ListSkillsHandler(OpHandler[ListSkills]):
    """Answers with the skills of each folder."""

    op = ListSkills

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def handle(self, op: ListSkills, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Answer under the submission's id.

        Raises:
            ThreadError: A folder is not an absolute path.
        """
        from codex_plugin_skills.events import ListSkillsResponseEvent, SkillsListEntry

        entries: list[SkillsListEntry] = []
        for cwd in op.cwds or (str(thread.settings.cwd),):
            if not cwd.startswith("/") or "\0" in cwd:
                hint = "Name absolute folders in `cwds`."
                raise ThreadError(f"{cwd!r} is not an absolute path", slug="bad-request", hint=hint)
            fresh = op.force_reload and not entries
            entries.append(self._sources.of(Path(cwd), thread.config, fresh=fresh).entry(cwd))
        thread.emit(ListSkillsResponseEvent(tuple(entries)), id=id)
