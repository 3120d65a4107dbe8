"""The effect of a patch on files, computed before anything is written. Standard library only."""

from __future__ import annotations

from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_apply_patch.file_text import MARK, FileText, WrongEncoding
from codex_plugin_apply_patch.grammar import AddHunk, DeleteHunk
from codex_plugin_apply_patch.revision import LinesNotFound, revise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_plugin_apply_patch.disk import Disk
    from codex_plugin_apply_patch.grammar import Hunk, UpdateHunk
    from codex_plugin_apply_patch.revision import Revision

__all__ = ["Plan", "PlanFailed", "Step", "summary"]


class PlanFailed(Exception):  # noqa: N818  # named by what it says
    """The patch does not match the files. The message is for the model."""


class Step:
    """The effect of one hunk.

    Attributes:
        letter: ``A``, ``M`` or ``D``.
        shown: The path in the summary: as written in the patch, or the target of a move.
        path: The absolute path.
        move_to: The absolute target of a move, or None.
        before: The old text at ``path``, or None if there was no file.
        after: The new text, or None if the file is deleted.
        replaced: The old text at ``move_to``, or None.
        revision: The changes from ``before`` to ``after``, for updates.
    """

    __slots__ = ("after", "before", "letter", "move_to", "path", "replaced", "revision", "shown")

    def __init__(
        self,
        letter: str,
        shown: str,
        path: str,
        before: FileText | None,
        after: FileText | None,
        *,
        move_to: str | None = None,
        replaced: FileText | None = None,
        revision: Revision | None = None,
    ) -> None:
        self.letter = letter
        self.shown = shown
        self.path = path
        self.before = before
        self.after = after
        self.move_to = move_to
        self.replaced = replaced
        self.revision = revision


class Plan:
    """Computes steps, each based on the result of the previous ones.

    Args:
        disk: The access to the files.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._texts: dict[str, FileText | None] = {}
        self.steps: list[Step] = []

    def add(self, hunk: Hunk) -> Step:
        """Add the step of one hunk.

        Raises:
            PlanFailed: It does not match the file.
        """
        path = self._disk.absolute(hunk.path)
        if isinstance(hunk, AddHunk):
            step = self._made(hunk, path)
        elif isinstance(hunk, DeleteHunk):
            step = self._deleted(hunk, path)
        else:
            step = self._updated(hunk, path)
        self.steps.append(step)
        self._texts[path] = None if step.move_to is not None else step.after
        if step.move_to is not None:
            self._texts[step.move_to] = step.after
        return step

    def _made(self, hunk: AddHunk, path: str) -> Step:
        before = self._present(path)
        if before is None or not before.content.startswith(MARK):
            return Step("A", hunk.path, path, before, FileText(hunk.content))
        _check_lines(before, [hunk.content], path)
        return Step("A", hunk.path, path, before, before.replaced_by(hunk.content))

    def _deleted(self, hunk: DeleteHunk, path: str) -> Step:
        try:
            before = self._read(path)
        except OSError as error:
            raise PlanFailed(f"Failed to read {path}: {os_error_text(error)}") from error
        return Step("D", hunk.path, path, before, None)

    def _updated(self, hunk: UpdateHunk, path: str) -> Step:
        try:
            before = self._read(path)
        except OSError as error:
            raise PlanFailed(f"Failed to read file to update {path}: {os_error_text(error)}") from error
        try:
            revision = revise(before.content, hunk.chunks, path)
        except LinesNotFound as error:
            raise PlanFailed(str(error)) from error
        _check_lines(before, (text for chunk in hunk.chunks for mark, text in chunk.lines if mark == "+"), path)
        after = before.replaced_by(revision.after)
        move_to = None if hunk.move_to is None else self._disk.absolute(hunk.move_to)
        if move_to is None or move_to == path:
            return Step("M", hunk.move_to or hunk.path, path, before, after, revision=revision)
        replaced = self._present(move_to)
        return Step(
            "M",
            hunk.move_to or hunk.path,
            path,
            before,
            after,
            move_to=move_to,
            replaced=replaced,
            revision=revision,
        )

    def _read(self, path: str) -> FileText:
        if path in self._texts:
            text = self._texts[path]
            if text is None:
                raise FileNotFoundError(2, "No such file or directory")
            return text
        return self._disk.read(path)

    def _present(self, path: str) -> FileText | None:
        """Return the text of a file that will be replaced, or None."""
        if path in self._texts:
            return self._texts[path]
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PlanFailed(f"Failed to write file {path}: {os_error_text(error)}") from error


def _check_lines(text: FileText, lines: Iterable[str], path: str) -> None:
    try:
        text.check_lines(lines)
    except WrongEncoding as error:
        raise PlanFailed(f"Failed to update file {path}: {error}") from error


def summary(steps: Iterable[Step]) -> str:
    """Return one line per file: first added, then modified, then deleted files."""
    steps = list(steps)
    return "".join(f"{step.letter} {step.shown}\n" for letter in "AMD" for step in steps if step.letter == letter)
