"""All file changes of a turn as one unified diff."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TurnDiff"]

_LARGE = 2_000_000
"""Maximum number of characters of a file to compare. Longer files are only named, because comparing them would take too long."""


class TurnDiff:
    """Collects the old and new content of each path. For several changes of one file, the first old content is kept."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str | None] = {}
        self._changed = False

    def note(self, path: str, before: str | None, after: str | None) -> None:
        """Add one change (see ``ToolContext.note_file_change``)."""
        self._before.setdefault(path, before)
        self._after[path] = after
        self._changed = True

    def take(self) -> str | None:
        """Return the whole diff, or None if nothing was added since the last call."""
        if not self._changed:
            return None
        self._changed = False
        return "".join(part for path in sorted(self._before) for part in self._file(path))

    def _file(self, path: str) -> Iterator[str]:
        before, after = self._before[path], self._after[path]
        if before == after:
            return
        name = os.path.relpath(path, self._cwd) if Path(path).is_relative_to(self._cwd) else path.lstrip("/")
        yield f"diff --git a/{name} b/{name}\n"
        if before is None:
            yield "new file mode 100644\n"
        if after is None:
            yield "deleted file mode 100644\n"
        old = "/dev/null" if before is None else f"a/{name}"
        new = "/dev/null" if after is None else f"b/{name}"
        if len(before or "") + len(after or "") > _LARGE:
            yield f"Files {old} and {new} differ\n"
            return
        import difflib

        for line in difflib.unified_diff(_lines(before), _lines(after), old, new):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str | None) -> list[str]:
    """Return lines with their ends, split at newlines only, as diff tools do."""
    if not text:
        return []
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()
    return lines if last == "\n" else [*lines, last[:-1]]
