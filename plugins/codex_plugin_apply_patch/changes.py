"""Conversion of a plan's steps to the changes in events and approvals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codex_framework.contract.protocol.events.command import AddFile, DeleteFile, FileChange, UpdateFile
from codex_plugin_apply_patch.file_text import FileText
from codex_plugin_apply_patch.plan import Step
from codex_plugin_apply_patch.revision import Revision

__all__ = ["changes_of", "readable"]


def changes_of(steps: Iterable[Step], *, place: Callable[[str], str] = str) -> dict[str, FileChange]:
    """Return the changes by absolute path. Several steps on one file become one change.

    Args:
        place: Returns the path to show for a path of a step.
    """
    befores: dict[str, FileText | None] = {}
    changes: dict[str, FileChange] = {}
    for step in steps:
        path = place(step.path)
        again = path in befores
        before = befores.setdefault(path, step.before)
        change = _change(before, step, None if again else step.revision, place)
        if change is None:
            changes.pop(path, None)
        else:
            changes[path] = change
    return changes


def _change(
    before: FileText | None, step: Step, revision: Revision | None, place: Callable[[str], str]
) -> FileChange | None:
    if step.after is None:
        return None if before is None else DeleteFile(readable(before))
    if before is None:
        return AddFile(readable(step.after))
    move_to = None if step.move_to is None else place(step.move_to)
    if revision is None:
        revision = Revision.between(before.content, step.after.content)
    return UpdateFile(_readable(revision.diff()), move_to)


def readable(text: FileText) -> str:
    """Return a file's text as JSON can contain it. Bytes that were not UTF-8 become U+FFFD."""
    return _readable(text.content)


def _readable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
