"""Paths and texts that all tools of this plugin treat alike."""

from __future__ import annotations

from pathlib import Path

from codex_framework import ToolContext, ToolError, ToolRefused

__all__ = ["LONGEST_LINE", "absolute", "shortened"]

LONGEST_LINE = 500
"""Characters of a line or name that are shown (Codex: 500)."""


def absolute(path: str, name: str, context: ToolContext) -> Path:
    """The path of an argument that has to be absolute.

    Raises:
        ToolError: It is relative; ``name`` is the argument's.
        ToolRefused: It may not be read.
    """
    found = Path(path)
    if not found.is_absolute():
        raise ToolError(f"{name} must be an absolute path")
    if "\0" in path:
        raise ToolError(f"{name} must not contain a NUL character")
    if not context.access.may_read(found):
        raise ToolRefused(f"reading {found} is not permitted")
    return found


def shortened(text: str) -> str:
    """The text, at most ``LONGEST_LINE`` characters of it."""
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE]
