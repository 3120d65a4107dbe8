"""Text for terminals."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return a text with its control characters escaped, so that no definition can hide a part of itself."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
