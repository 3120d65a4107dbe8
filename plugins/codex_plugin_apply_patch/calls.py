"""Calls of ``apply_patch`` in the vocabulary of hooks: ``{"command": PATCH}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework import ToolCall, ToolError

__all__ = ["patch_of", "with_patch"]


def patch_of(call: ToolCall) -> str:
    """Return the patch of a call, or its whole arguments if they contain no patch."""
    patch = _arguments(call).get("input")
    return patch if isinstance(patch, str) else call.arguments


def with_patch(call: ToolCall, view: Mapping[str, Any]) -> ToolCall:
    """Return the call with another patch.

    Raises:
        ToolError: The view has no ``command`` that is text.
    """
    patch = view.get("command")
    if not isinstance(patch, str):
        raise ToolError(
            f"the arguments of {call.name} can only be changed to an object with the patch as its `command`"
        )
    if call.kind == "custom":
        return call.evolve(arguments=patch)
    return call.evolve(arguments=json.dumps({**_arguments(call), "input": patch}, ensure_ascii=False))


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    if call.kind == "custom":
        return {}
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}
