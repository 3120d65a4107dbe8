"""All file changes of a turn as one unified diff."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["TurnDiff"]

_LARGE = 2_000_000
"""Maximum number of characters of a file to compare. Longer files are only named, because comparing them would take too long."""

_NO_END = "\\ No newline at end of file\n"


class TurnDiff:
    """Collects the old and new content of each path. For several changes of one file, the first old content is kept."""

    def __init__(self, cwd: Path) -> None:
        self._folder = f"{str(cwd).rstrip('/')}/"
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str | None] = {}
        self._diffs: dict[str, str] = {}  # of the files that have not changed since the last call of take
        self._changed = False

    def note(self, path: str, before: str | None, after: str | None) -> None:
        """Add one change (see ``ToolContext.note_file_change``)."""
        self._before.setdefault(path, before)
        self._after[path] = after
        self._diffs.pop(path, None)
        self._changed = True

    def take(self) -> str | None:
        """Return the whole diff, or None if nothing was added since the last call."""
        if not self._changed:
            return None
        self._changed = False
        for path in self._before.keys() - self._diffs.keys():
            self._diffs[path] = self._diff(path, self._before[path], self._after[path])
        return "".join(self._diffs[path] for path in sorted(self._diffs))

    def _diff(self, path: str, before: str | None, after: str | None) -> str:
        if before == after:
            return ""
        name = os.path.normpath(path).removeprefix(self._folder).lstrip("/")
        head = f"diff --git a/{name} b/{name}\n"
        if before is None:
            head += "new file mode 100644\n"
        if after is None:
            head += "deleted file mode 100644\n"
        old = "/dev/null" if before is None else f"a/{name}"
        new = "/dev/null" if after is None else f"b/{name}"
        if len(before or "") + len(after or "") > _LARGE:
            return f"{head}Files {old} and {new} differ\n"
        from difflib import unified_diff

        lines = unified_diff(_lines(before), _lines(after), old, new)
        return head + "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}" for line in lines)


def _lines(text: str | None) -> list[str]:
    """Return lines with their ends, split at newlines only, as diff tools do."""
    if not text:
        return []
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()
    return lines if last == "\n" else [*lines, last[:-1]]
