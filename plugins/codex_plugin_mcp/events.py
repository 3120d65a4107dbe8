"""The events of servers and calls, in Codex's wire form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg, Value

__all__ = [
    "Duration",
    "Invocation",
    "McpListChangedEvent",
    "McpStartupCompleteEvent",
    "McpStartupUpdateEvent",
    "McpToolCallBeginEvent",
    "McpToolCallEndEvent",
    "StartupFailure",
]


class McpStartupUpdateEvent(EventMsg):
    """The state of a server has changed.

    Attributes:
        status: ``{"state": "starting" | "ready" | "cancelled"}`` or ``{"state": "failed", "error": TEXT}``.
    """

    type: ClassVar[Literal["mcp_startup_update"]] = "mcp_startup_update"
    server: str
    status: Mapping[str, Any]


class StartupFailure(Value):
    """A server that did not start, and why."""

    server: str
    error: str


class McpStartupCompleteEvent(EventMsg, kw_only=True):
    """All servers of the thread have started or failed."""

    type: ClassVar[Literal["mcp_startup_complete"]] = "mcp_startup_complete"
    ready: tuple[str, ...] = ()
    failed: tuple[StartupFailure, ...] = ()
    cancelled: tuple[str, ...] = ()


class Invocation(Value):
    """A call of a tool, with the names that the server uses."""

    server: str
    tool: str
    arguments: Any = None


class Duration(Value):
    """A time span in the wire format."""

    secs: int
    nanos: int


class McpToolCallBeginEvent(EventMsg, kw_only=True):
    """A call of a tool has begun."""

    type: ClassVar[Literal["mcp_tool_call_begin"]] = "mcp_tool_call_begin"
    call_id: str
    invocation: Invocation


class McpToolCallEndEvent(EventMsg, kw_only=True):
    """A call of a tool has ended.

    Attributes:
        result: ``{"Ok": CALL_TOOL_RESULT}`` or ``{"Err": TEXT}``.
    """

    type: ClassVar[Literal["mcp_tool_call_end"]] = "mcp_tool_call_end"
    call_id: str
    invocation: Invocation
    duration: Duration
    result: Mapping[str, Any]


class McpListChangedEvent(EventMsg, kw_only=True):
    """A list of a server has changed. Clients that show it can ask for it again.

    Attributes:
        list: ``tools``, ``resources`` or ``prompts``.
    """

    type: ClassVar[Literal["mcp_list_changed"]] = "mcp_list_changed"

    server: str
    list: str
