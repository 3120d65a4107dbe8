"""Tool calls: begin, progress and end, for tools that emit no events of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework.contract.protocol.events.event import EventMsg

__all__ = ["ToolCallBeginEvent", "ToolCallEndEvent", "ToolCallProgressEvent"]


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
    """The progress of a call. ``done`` is the completed fraction, from 0 to 1. None means it is unknown."""

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
        details: Structured data of the tool. None means there are none.
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
