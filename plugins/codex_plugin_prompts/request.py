"""The op ``list_custom_prompts``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext

__all__ = ["ListCustomPrompts", "ListCustomPromptsHandler"]


class ListCustomPrompts(Op):
    """List the prompts. The answer is the event ``list_custom_prompts_response``."""

    type: ClassVar[Literal["list_custom_prompts"]] = "list_custom_prompts"


class ListCustomPromptsHandler(OpHandler[ListCustomPrompts]):
    """Answers with all prompts, and warns of files that cannot be used."""

    op = ListCustomPrompts

    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home

    async def handle(self, op: ListCustomPrompts, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Answer under the submission's id."""
        from codex_plugin_prompts.events import ListCustomPromptsResponseEvent
        from codex_plugin_prompts.library import read_prompts

        library = read_prompts(self._codex_home)
        for problem in library.problems:
            thread.warn(f"prompts: {problem}")
        thread.emit(ListCustomPromptsResponseEvent(tuple(library.prompts)), id=id)
