"""File names for completion."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

__all__ = ["matching_files"]

_MOST, _MOST_SEEN = 50, 20_000
_FRESH_S = 5.0
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".ruff_cache", "target"})

_known: dict[str, tuple[float, list[str]]] = {}


def matching_files(folder: str, text: str) -> list[str]:
    """Return paths below a folder that contain the letters of a text in this order, the best matches first."""
    kept = _known.get(folder)
    if kept is None or time.monotonic() - kept[0] > _FRESH_S:
        kept = _known[folder] = (time.monotonic(), list(_walk(folder)))
    wanted = text.casefold()
    ranked = ((_rank(path, wanted), path) for path in kept[1])
    return [path for rank, path in sorted(pair for pair in ranked if pair[0] is not None)[:_MOST]]


def _rank(path: str, wanted: str) -> tuple[int, int] | None:
    folded = path.casefold()
    name = folded.rpartition("/")[2]
    if name.startswith(wanted):
        return (0, len(path))
    if wanted in name:
        return (1, len(path))
    if wanted in folded:
        return (2, len(path))
    letters = iter(folded)
    return (3, len(path)) if all(letter in letters for letter in wanted) else None


def _walk(folder: str) -> Iterator[str]:
    """Yield paths relative to the folder: names that the terminal can show, level by level."""
    seen = 0
    level = [""]
    while level and seen < _MOST_SEEN:
        below: list[str] = []
        for place in level:
            try:
                entries = sorted(os.scandir(os.path.join(folder, place)), key=lambda entry: entry.name)  # noqa: PTH118
            except OSError:
                continue
            for entry in entries:
                path = f"{place}{entry.name}"
                if entry.name in _SKIPPED or not path.isprintable():
                    continue
                seen += 1
                is_folder = entry.is_dir(follow_symlinks=False)
                yield f"{path}/" if is_folder else path
                if is_folder:
                    below.append(f"{path}/")
        level = below
