"""The records of a server call for clients: the turn item, and the older events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from codex_framework import ToolCall, ToolContext
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_framework.toolkit.strict_json import strict_json
from codex_plugin_mcp.events import Duration, Invocation, McpToolCallBeginEvent, McpToolCallEndEvent
from codex_plugin_mcp.results import for_clients

__all__ = ["CallRecord"]


class CallRecord:
    """The record of one call.

    Args:
        server, tool: The names that clients see.
        read_only: Whether the tool states that it changes nothing.
    """

    def __init__(
        self, server: str, tool: str, call: ToolCall, context: ToolContext, *, read_only: bool = False
    ) -> None:
        self._context = context
        self._started = time.monotonic()
        self._started_ms = int(time.time() * 1000)
        try:
            arguments: Any = strict_json(call.arguments) if call.arguments.strip() else {}
        except (ValueError, RecursionError):
            arguments = call.arguments
        self._invocation = Invocation(server, tool, arguments)
        self._item: dict[str, Any] = {
            "type": "McpToolCall",
            "id": call.call_id,
            "server": server,
            "tool": tool,
            "arguments": arguments,
        }
        if read_only:
            self._item["readOnlyHint"] = True

    def begin(self) -> None:
        """Tell that the call has begun."""
        context = self._context
        item = {**self._item, "status": "inProgress"}
        context.emit(ItemStartedEvent(context.thread_id, context.turn_id, item, self._started_ms))
        context.emit(McpToolCallBeginEvent(call_id=context.call_id, invocation=self._invocation))

    def failed(self, text: str) -> float:
        """Tell that the call has no result, and return how long it took, in seconds."""
        return self._ended({"status": "failed", "error": {"message": text}}, {"Err": text})

    def ended(self, result: Mapping[str, Any], *, success: bool) -> float:
        """Tell the result of the call, and return how long it took, in seconds."""
        shown = for_clients(result)
        return self._ended({"status": "completed" if success else "failed", "result": shown}, {"Ok": shown})

    def _ended(self, fields: Mapping[str, Any], result: Mapping[str, Any]) -> float:
        context = self._context
        seconds = time.monotonic() - self._started
        duration = Duration(int(seconds), int(seconds % 1 * 1e9))
        item = {**self._item, **fields, "duration": {"secs": duration.secs, "nanos": duration.nanos}}
        now_ms = int(time.time() * 1000)
        context.emit(ItemCompletedEvent(context.thread_id, context.turn_id, item, now_ms))
        context.emit(
            McpToolCallEndEvent(call_id=context.call_id, invocation=self._invocation, duration=duration, result=result)
        )
        return seconds
