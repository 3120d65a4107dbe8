"""Tool calls (begin, progress and end) of tools that emit no events themselves, and of tools that the model's server runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework.contract.protocol.events.event import EventMsg

__all__ = [
    "ImageGenerationBeginEvent",
    "ImageGenerationEndEvent",
    "ToolCallBeginEvent",
    "ToolCallEndEvent",
    "ToolCallProgressEvent",
    "WebSearchBeginEvent",
    "WebSearchEndEvent",
]


class ToolCallBeginEvent(EventMsg, kw_only=True):
    """A call of a tool has begun.

    Attributes:
        plugin: The plugin that offers the tool.
        arguments: The arguments as the model wrote them.
        started_at_ms: Unix time in milliseconds.
    """

    type: ClassVar[Literal["tool_call_begin"]] = "tool_call_begin"
    call_id: str
    turn_id: str
    tool: str
    plugin: str
    arguments: str
    started_at_ms: int


class ToolCallProgressEvent(EventMsg, kw_only=True):
    """The progress of a call. ``done`` is the completed fraction, from 0 to 1, if known."""

    type: ClassVar[Literal["tool_call_progress"]] = "tool_call_progress"
    is_delta = True
    call_id: str
    text: str
    done: float | None = None


class ToolCallEndEvent(EventMsg, kw_only=True):
    """A call of a tool has ended.

    Attributes:
        plugin: The plugin that offers the tool.
        output: The output for the model, as text without images.
        duration_s: Wall time, in seconds.
        details: Structured data of the tool, if any.
    """

    type: ClassVar[Literal["tool_call_end"]] = "tool_call_end"
    call_id: str
    turn_id: str
    tool: str
    plugin: str
    arguments: str
    output: str
    success: bool
    duration_s: float
    details: Mapping[str, Any] | None = None


class WebSearchBeginEvent(EventMsg):
    """The model's server has begun to search the web."""

    type: ClassVar[Literal["web_search_begin"]] = "web_search_begin"
    call_id: str


class WebSearchEndEvent(EventMsg):
    """The model's server has searched the web.

    Attributes:
        query: The words, or the address of a page.
        action: The kind of search: ``search``, ``open_page``, ``find_in_page`` or ``other``, with details.
    """

    type: ClassVar[Literal["web_search_end"]] = "web_search_end"
    kept = True
    call_id: str
    query: str
    action: Mapping[str, Any]


class ImageGenerationBeginEvent(EventMsg):
    """The model's server has begun to generate an image."""

    type: ClassVar[Literal["image_generation_begin"]] = "image_generation_begin"
    call_id: str


class ImageGenerationEndEvent(EventMsg):
    """The model's server has generated an image, or failed to.

    Attributes:
        status: Such as ``completed`` or ``failed``.
        revised_prompt: The prompt that was used instead of the model's.
        result: The image in base64, or an empty string.
        saved_path: The file with the image. None if it was not saved.
    """

    type: ClassVar[Literal["image_generation_end"]] = "image_generation_end"
    kept = True
    call_id: str
    status: str
    revised_prompt: str | None = None
    result: str = ""
    saved_path: str | None = None
