"""Paths as text, for code that compares thousands of them."""

from __future__ import annotations

__all__ = ["is_below"]


def is_below(path: str, folder: str) -> bool:
    """Return whether ``path`` is strictly below ``folder``. Both are absolute and normal."""
    return path != folder and path.startswith(folder if folder.endswith("/") else f"{folder}/")
