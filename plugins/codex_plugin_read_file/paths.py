"""The common treatment of paths and texts in the tools of this plugin."""

from __future__ import annotations

from pathlib import Path

from codex_framework import ToolError, ToolRefused
from codex_framework.toolkit.files import NotPermittedError, refusal_text

__all__ = ["LONGEST_LINE", "absolute", "refused", "shortened"]

LONGEST_LINE = 500
"""Maximum number of characters of a line or name to show (Codex: 500)."""


def absolute(path: str, name: str) -> Path:
    """Return the path of an argument that must be absolute.

    Raises:
        ToolError: It is relative; ``name`` is the argument's.
    """
    found = Path(path)
    if not found.is_absolute():
        raise ToolError(f"{name} must be an absolute path")
    if "\0" in path:
        raise ToolError(f"{name} must not contain a NUL character")
    return found


def refused(path: Path, error: NotPermittedError) -> ToolRefused:
    """Return the error that refuses to read a path."""
    return ToolRefused(refusal_text("reading", path, error))


def shortened(text: str) -> str:
    """Return the text, truncated to ``LONGEST_LINE`` characters."""
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE]
