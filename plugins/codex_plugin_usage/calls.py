"""Tool calls as session files record them: their name, outcome, time, and the length of their output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["BYTES_PER_TOKEN", "Call", "ended", "estimated_tokens", "failed_by_text", "tool_name"]

BYTES_PER_TOKEN = 4
"""Codex's own rule of thumb for the length of a text in tokens."""

_NATIVE = frozenset({"local_shell_call", "tool_search_call", "web_search_call", "image_generation_call"})
"""Calls without a name. Their tool is called like them."""

_EXIT = re.compile(r"(?:^Exit code: |^Process exited with code )(-?\d+)$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:$", re.MULTILINE)
_HEAD = 400
"""The number of characters in which an output says how a command ended, before the output of the command itself."""

_LONGEST_S = 1e9
"""No call takes longer, in seconds (30 years)."""

_BAD = frozenset({"failed", "declined", "errored", "incomplete"})


@attrs.define
class Call:
    """One call of a tool.

    Attributes:
        tool: The tool's name, with its namespace.
        at: Unix seconds of the call's line.
        model: The model that made the call, as ``(provider, model)``.
        seconds: How long it ran. None if nothing says it.
        tokens: The estimated length of the output, in tokens. None if there is no output.
        failed: Whether the record says that it failed. None if it says nothing.
        hosted: Whether the provider runs the tool, so that no output is expected.
    """

    tool: str
    at: float
    model: tuple[str, str]
    seconds: float | None = None
    tokens: int | None = None
    failed: bool | None = None
    hosted: bool = False


def tool_name(item: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that an item calls, or None if the item is no call."""
    kind = item.get("type")
    if kind in _NATIVE:
        return str(kind).removesuffix("_call")
    if kind not in ("function_call", "custom_tool_call"):
        return None
    name, space = item.get("name"), item.get("namespace")
    if not isinstance(name, str) or not name:
        return "unknown"
    if not isinstance(space, str) or not space or name.startswith(space):
        return name
    return f"{space}{'' if space.endswith('_') else '__'}{name}"


def estimated_tokens(output: Any) -> int:
    """Return the estimated length of an output in tokens: its bytes divided by four. Images are not counted."""
    if isinstance(output, str):
        return -(-len(output.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
    if isinstance(output, list):
        texts = (part.get("text") for part in output if isinstance(part, dict))
        return sum(estimated_tokens(text) for text in texts if isinstance(text, str))
    return 0


def failed_by_text(output: Any) -> bool | None:
    """Return whether an output says that its command failed, or None if it does not say how it ended."""
    if isinstance(output, list):
        first = next((part for part in output if isinstance(part, dict)), {})
        output = first.get("text")
    if not isinstance(output, str):
        return None
    if output.startswith('{"output"'):
        return _failed_by_metadata(output)
    found = _EXIT.search(_OUTPUT.split(output[:_HEAD], maxsplit=1)[0])
    return None if found is None else int(found[1]) != 0


def _failed_by_metadata(output: str) -> bool | None:
    try:
        code = json.loads(output)["metadata"]["exit_code"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return code != 0 if isinstance(code, int) else None


def ended(payload: Mapping[str, Any]) -> tuple[str, bool | None, float | None] | None:
    """Return the call, whether it failed, and its seconds, from an event at the end of a call. None for other events."""
    item = payload.get("item") if payload.get("type") == "item_completed" else None
    if isinstance(item, Mapping):
        call_id = item.get("id")
        if not isinstance(call_id, str) or not isinstance(item.get("status"), str):
            return None
        return call_id, item["status"] in _BAD or bool(item.get("exit_code")), _seconds(item.get("duration"))
    call_id = payload.get("call_id")
    if not isinstance(call_id, str):
        return None
    if payload.get("type") == "patch_apply_end":
        return call_id, payload.get("success") is not True, None
    if payload.get("type") == "mcp_tool_call_end":
        return call_id, _failed_on_server(payload.get("result")), _seconds(payload.get("duration"))
    return None


def _failed_on_server(result: Any) -> bool | None:
    if not isinstance(result, Mapping):
        return None
    if "Err" in result:
        return True
    value = result.get("Ok", result)
    return bool(value.get("isError") or value.get("is_error")) if isinstance(value, Mapping) else None


def _seconds(duration: Any) -> float | None:
    match duration:
        case {"secs": int(whole), "nanos": int(rest)} if 0 <= whole <= _LONGEST_S and 0 <= rest < 1e9:
            return whole + rest / 1e9
    return None
