"""Line numbers of keys in a TOML text, for errors."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework.config.statements import Path, entries_of

__all__ = ["line_of"]


def line_of(text: str, key: Sequence[str | int]) -> int | None:
    """Return the line, starting at 1, on which a key first gets a value or a header.

    If the key does not exist, this is the line of the nearest table around it. None means that no such table exists either.

    Args:
        text: A valid TOML document.
        key: The key's segments. Integers are positions in arrays.
    """
    offsets: dict[Path, int] = {}
    for entry in entries_of(text):
        for length in range(1, len(entry.path) + 1):
            offsets.setdefault(entry.path[:length], entry.start)
    for length in range(len(key), 0, -1):
        offset = offsets.get(tuple(key[:length]))
        if offset is not None:
            return text.count("\n", 0, offset) + 1
    return None
