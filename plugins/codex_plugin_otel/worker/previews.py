"""Previews of tool outputs for log records."""

from __future__ import annotations

__all__ = ["TRUNCATED", "preview"]

_BYTES = 2048
_LINES = 64

TRUNCATED = "[... telemetry preview truncated ...]"
"""The last line of a preview that is not the whole output (Codex's text)."""


def preview(text: str) -> tuple[str, bool]:
    """Return the beginning of an output, at most 2 KiB and 64 lines, and whether something is missing."""
    kept = text.encode("utf-8", "replace")[:_BYTES].decode("utf-8", "ignore")
    kept = "".join(kept.splitlines(keepends=True)[:_LINES])
    if len(kept) == len(text):
        return text, False
    return f"{kept}{'' if kept.endswith(chr(10)) else chr(10)}{TRUNCATED}", True
