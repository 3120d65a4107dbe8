"""Previews of tool outputs for log records."""

from __future__ import annotations

__all__ = ["TRUNCATED", "preview"]

_BYTES = 2048
_LINES = 64

TRUNCATED = "[... telemetry preview truncated ...]"
"""The last line of a preview that is not the whole output (Codex's text)."""


def preview(text: str, most_bytes: int | None = None) -> tuple[str, bool]:
    """Return the beginning of an output, and whether something is missing.

    Args:
        most_bytes: Maximum number of bytes, 2 KiB by default. There are at most 64 lines.
    """
    kept = text.encode("utf-8", "replace")[: _BYTES if most_bytes is None else most_bytes].decode("utf-8", "ignore")
    kept = "".join(kept.splitlines(keepends=True)[:_LINES])
    if len(kept) == len(text):
        return text, False
    return f"{kept}{'' if not kept or kept.endswith(chr(10)) else chr(10)}{TRUNCATED}", True
