"""A dynamic tool, whose calls are passed to the client that defined it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Literal

from codex_framework import InputImage, InputText, Tool, ToolCall, ToolContext, ToolError, ToolOutput
from codex_framework.contract.roles.tool_specs import is_tool_name
from codex_framework.toolkit.strict_json import strict_json
from codex_plugin_dynamic_tools.calls import (
    Duration,
    DynamicToolAnswer,
    DynamicToolCallRequest,
    DynamicToolCallResponseEvent,
    ImageContent,
    TextContent,
    no_answer,
)
from codex_plugin_dynamic_tools.definitions import Definition

__all__ = ["DynamicTool"]


class DynamicTool(Tool):
    """One tool of a client.

    Args:
        limit_s: Time limit for the client's answer in seconds. By default, there is no limit.
    """

    tells_clients = True

    def __init__(self, definition: Definition, limit_s: float | None = None) -> None:
        self.spec = definition.spec
        self.aliases: Sequence[str] = _aliases(definition)
        self.exposure: Literal["direct", "deferred", "hidden"] = "deferred" if definition.deferred else "direct"
        self._definition = definition
        self._limit_s = limit_s

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Send the call to the client, and return its answer.

        Raises:
            ToolError: The arguments are not JSON.
        """
        request = self._request(call, context)
        started = time.monotonic()
        try:
            answer = await context.request(request)
        except asyncio.CancelledError:
            text = "the turn ended before the client answered"
            context.emit(self._ended(request, no_answer(), started, text))
            raise
        problem = self._problem(answer, time.monotonic() - started)
        context.emit(self._ended(request, answer if problem is None else no_answer(), started, problem))
        if problem is not None:
            return ToolOutput(problem, success=False)
        parts = tuple(
            InputText(part.text) if isinstance(part, TextContent) else InputImage(part.image_url)
            for part in answer.content_items
        )
        return ToolOutput(parts or "the tool gave no output", success=answer.success)

    def _request(self, call: ToolCall, context: ToolContext) -> DynamicToolCallRequest:
        return DynamicToolCallRequest(
            call_id=call.call_id,
            turn_id=context.turn_id,
            started_at_ms=_now_ms(),
            namespace=self._definition.namespace,
            tool=self._definition.name,
            arguments=_arguments(call.arguments),
            limit_s=self._limit_s,
        )

    def _problem(self, answer: DynamicToolAnswer, seconds: float) -> str | None:
        """Return why there is no valid answer, as a text for the model. None if there is one."""
        if answer is no_answer():
            if self._limit_s is not None and seconds >= self._limit_s:
                return f"{self.spec.name} failed: the client did not answer within {self._limit_s:g} seconds"
            return f"{self.spec.name} failed: the client that runs this tool is not connected"
        items: Any = answer.content_items  # a program may violate the annotation
        if not isinstance(items, (list, tuple)):
            return f"{self.spec.name} failed: the client's answer cannot be read (content_items is not a list)"
        for number, part in enumerate(items):
            text = part.text if isinstance(part, TextContent) else getattr(part, "image_url", None)
            if not isinstance(part, (TextContent, ImageContent)) or not isinstance(text, str):
                return f"{self.spec.name} failed: the client's answer cannot be read (content_items[{number}])"
        return None

    def _ended(
        self, request: DynamicToolCallRequest, answer: DynamicToolAnswer, started: float, error: str | None
    ) -> DynamicToolCallResponseEvent:
        seconds = time.monotonic() - started
        return DynamicToolCallResponseEvent(
            call_id=request.call_id,
            turn_id=request.turn_id,
            completed_at_ms=_now_ms(),
            namespace=request.namespace,
            tool=request.tool,
            arguments=request.arguments,
            content_items=tuple(answer.content_items),
            success=error is None and answer.success,
            error=error,
            duration=Duration(int(seconds), int(seconds % 1 * 1e9)),
        )


def _aliases(definition: Definition) -> tuple[str, ...]:
    """Return the name for calls that state the namespace separately."""
    joined = f"{definition.namespace or ''}{definition.name}"
    return (joined,) if joined != definition.spec.name and is_tool_name(joined) else ()


def _arguments(text: str) -> Any:
    try:
        return strict_json(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ToolError(f"failed to parse function arguments: {error}") from error


def _now_ms() -> int:
    return int(time.time() * 1000)
