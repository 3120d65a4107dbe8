"""A shortcut for chunks of text: most chunks of a response are equal but for a few words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]  # its stub leaves it out
from typing import Any

__all__ = ["TextChunks"]

_START = re.compile(r'"content"\s*:\s*"')
_MOST_ATTEMPTS = 64
"""How many chunks are taken as a pattern. Servers that put something new into every chunk gain nothing by it."""


class TextChunks:
    """Reads the text of a chunk that equals an earlier one but for its text, without reading all of its JSON again."""

    def __init__(self) -> None:
        self._before = ""
        self._after = ""
        self._attempts = 0

    def text(self, data: str) -> str | None:
        """Return the text of a chunk, or None if it is not like the pattern."""
        before, after = self._before, self._after
        if not before or not data.startswith(before) or not data.endswith(after):
            return None
        try:
            text, end = scanstring(data, len(before), True)  # noqa: FBT003  # positional in C
        except ValueError:
            return None
        found: str | None = text if end == len(data) - len(after) else None
        return found

    def learn(self, data: str, delta: Mapping[str, Any]) -> None:
        """Take a chunk as the pattern, if its delta is text and nothing else."""
        said = delta.get("content")
        if self._attempts >= _MOST_ATTEMPTS or len(delta) != 1 or not isinstance(said, str):
            return
        self._attempts += 1
        found = _START.search(data)
        if found is None or data.count('"content"') != 1:
            return  # it is not clear which one is the delta's
        start = found.end()
        text, end = scanstring(data, start, True)  # noqa: FBT003
        if text == said:
            self._before, self._after = data[:start], data[end:]
