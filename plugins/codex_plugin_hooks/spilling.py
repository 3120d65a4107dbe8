"""Long texts of hooks: the model gets their beginning and end, and the name of a file with the whole text."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from codex_framework.toolkit.truncation import budget_bytes, token_count, truncate_with_lines

__all__ = ["limited"]

_LIMIT_TOKENS = 2500
"""Longest text that the model gets as a whole (Codex's)."""


def limited(text: str, limit: int | None, codex_home: Path, thread_id: str) -> str:
    """Return a text for the model.

    Args:
        limit: The longest text in tokens. By default, the usual value.
        codex_home: The folder in which ``hook_outputs/THREAD`` gets the whole text.
    """
    tokens = _LIMIT_TOKENS if limit is None else limit
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= budget_bytes(("tokens", tokens)):
        return text
    footer = _save_text(text, codex_home / "hook_outputs" / thread_id)
    left = max(tokens - token_count(len(footer)), 0)
    head = f"Warning: truncated output (original token count: {token_count(size)})"
    return f"{head}\n{truncate_with_lines(text, ('tokens', left))}{footer}"


def _save_text(text: str, folder: Path) -> str:
    """Save a text, and return a sentence that says where."""
    file = folder / f"{uuid.uuid4()}.txt"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except OSError as error:
        return f"\n\nThe full hook output could not be saved: {error.strerror}"
    return f"\n\nFull hook output saved to: {file}"
