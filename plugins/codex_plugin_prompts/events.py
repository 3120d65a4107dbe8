"""Custom prompts on the wire."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg, Value

__all__ = ["CustomPrompt", "ListCustomPromptsResponseEvent"]


class CustomPrompt(Value, kw_only=True):
    """A prompt of the user.

    Attributes:
        name: The name of its file without ``.md``.
        content: Its text, without the frontmatter.
        description: Its purpose.
        argument_hint: The arguments after the name, for user interfaces.
    """

    name: str
    path: str
    content: str
    description: str | None = None
    argument_hint: str | None = None


class ListCustomPromptsResponseEvent(EventMsg):
    """The answer to the op ``list_custom_prompts``, by name."""

    type: ClassVar[Literal["list_custom_prompts_response"]] = "list_custom_prompts_response"
    custom_prompts: tuple[CustomPrompt, ...]
