"""Conversion of the model's call items to calls of tools, and of outputs to history items."""

from __future__ import annotations

import json
from typing import Any, assert_never

from codex_framework.contract.protocol.items import (
    AnyCall,
    ContentItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    OutputItem,
    UnknownItem,
    output_for,
    search_output,
)
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.calls import ToolCall, ToolOutput

__all__ = [
    "SEARCH_TOOL",
    "aborted_text",
    "call_name",
    "output_item",
    "text_of",
    "tool_call",
]


SEARCH_TOOL = "tool_search"
"""The name of the tool that answers the model's tool searches."""


_OWN_GROUP = "functions"
"""The group of the tools without one, for models that take every tool in a group (``ModelInfo.lite``)."""


def call_name(item: AnyCall) -> str:
    """Return the name by which the tool of a call is found."""
    match item:
        case UnknownItem():
            return SEARCH_TOOL
        case LocalShellCall():
            return "local_shell"
        case FunctionCall(namespace=str(namespace)) if namespace and namespace != _OWN_GROUP:
            return f"{namespace}{item.name}"
        case _:
            return item.name


def tool_call(item: AnyCall) -> ToolCall:
    """Return the call in the form for tools."""
    name = call_name(item)
    match item:
        case FunctionCall():
            return ToolCall(item.call_id, name, item.arguments, "function", item.id)
        case CustomToolCall():
            return ToolCall(item.call_id, name, item.input, "custom", item.id)
        case LocalShellCall():
            return ToolCall(item.call_id or "", name, encode_json(item.action), "local_shell", item.id)
        case UnknownItem(raw):
            return ToolCall(str(raw.get("call_id")), name, encode_json(raw.get("arguments") or {}), "tool_search")
        case _:
            assert_never(item)


def output_item(item: AnyCall, content: str | tuple[ContentItem, ...]) -> OutputItem | UnknownItem:
    """Return the item that answers a call with this content."""
    if isinstance(item, UnknownItem):
        return search_output(item, _found_tools(content)) or output_for(item, "")
    if isinstance(content, str):
        return output_for(item, content)
    if isinstance(item, CustomToolCall):
        return CustomToolCallOutput(call_id=item.call_id, output=content)
    return FunctionCallOutput(call_id=item.call_id or "", output=content)


def _found_tools(content: object) -> list[dict[str, Any]]:
    """Return the tools in the output of a tool search. An error text contains no tools, because the wire cannot express it."""
    try:
        found = json.loads(content) if isinstance(content, str) else None
    except (ValueError, RecursionError):
        return []
    tools = found.get("tools") if isinstance(found, dict) else None
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


_SHELL_NAMES = frozenset({"shell", "shell_command", "container.exec", "local_shell", "exec_command", "write_stdin"})


def aborted_text(name: str, seconds: float) -> str:
    """Return the output for the model of a call that was interrupted (Codex's two forms)."""
    if name in _SHELL_NAMES:
        return f"Wall time: {seconds:.1f} seconds\naborted by user"
    return f"aborted by user after {seconds:.1f}s"


def text_of(output: ToolOutput) -> str:
    """Return the text of an output, without its images."""
    parts = (output.content,) if isinstance(output.content, str) else output.content
    return "\n".join(filter(None, (part if isinstance(part, str) else getattr(part, "text", "") for part in parts)))
