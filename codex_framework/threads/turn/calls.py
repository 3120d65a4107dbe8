"""Calls of the model as tools see them, and their outputs as history has them."""

from __future__ import annotations

from typing import assert_never

from codex_framework.contract.protocol.items import (
    CallItem,
    ContentItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    OutputItem,
    output_for,
)
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.calls import ToolCall

__all__ = [
    "aborted_text",
    "call_name",
    "output_item",
    "tool_call",
]


def call_name(item: CallItem) -> str:
    """Return the name under which the tool of a call is found."""
    match item:
        case LocalShellCall():
            return "local_shell"
        case FunctionCall(namespace=str(namespace)) if namespace:
            return f"{namespace}{item.name}"
        case _:
            return item.name


def tool_call(item: CallItem) -> ToolCall:
    """Return the call as a tool gets it."""
    name = call_name(item)
    match item:
        case FunctionCall():
            return ToolCall(item.call_id, name, item.arguments, "function")
        case CustomToolCall():
            return ToolCall(item.call_id, name, item.input, "custom")
        case LocalShellCall():
            return ToolCall(item.call_id or "", name, encode_json(item.action), "local_shell")
        case _:
            assert_never(item)


def output_item(item: CallItem, content: str | tuple[ContentItem, ...]) -> OutputItem:
    """Return the item that answers a call with this content."""
    if isinstance(content, str):
        return output_for(item, content)
    if isinstance(item, CustomToolCall):
        return CustomToolCallOutput(call_id=item.call_id, output=content)
    return FunctionCallOutput(call_id=item.call_id or "", output=content)


_SHELL_NAMES = frozenset({"shell", "shell_command", "container.exec", "local_shell", "exec_command", "write_stdin"})


def aborted_text(name: str, seconds: float) -> str:
    """What the model reads of a call that was cut short (Codex's two forms)."""
    if name in _SHELL_NAMES:
        return f"Wall time: {seconds:.1f} seconds\naborted by user"
    return f"aborted by user after {seconds:.1f}s"
