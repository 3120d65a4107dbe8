"""Suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``Did you mean NAME? `` with a space behind it, for the known name that is nearest. Empty if none is near."""
    import difflib

    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"Did you mean {near[0]}? " if near else ""
