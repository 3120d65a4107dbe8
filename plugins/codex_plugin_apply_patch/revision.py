"""The new text of a file after an update, and the diff. Standard library only."""

from __future__ import annotations

from codex_plugin_apply_patch.file_text import MARK
from codex_plugin_apply_patch.grammar import Chunk
from codex_plugin_apply_patch.matching import FileLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    _Change = tuple[int, int, int, int]  # old start and end, new start and end

__all__ = ["LinesNotFound", "Revision", "revise"]

_ENDS = ("\r\n", "\n", "\r")
"""The line ends of files."""

_RADIUS = 1
"""Lines of context around a change in an event's diff (Codex: 1)."""

_COMPARABLE = 1_000_000
"""Maximum of old lines times new lines for which unchanged lines within a run are searched. The time grows with it."""


class LinesNotFound(Exception):  # noqa: N818  # named by what it says
    """A chunk does not match the file. The message is for the model."""


class _Edit:
    """Replacement of the old lines ``start`` to ``end`` by ``lines``. An int in ``lines`` means that old line, unchanged."""

    __slots__ = ("end", "lines", "start")

    def __init__(self, start: int, end: int, lines: list[str | int]) -> None:
        self.start = start
        self.end = end
        self.lines = lines


class Revision:
    """A file before and after an update.

    Attributes:
        before: The old text.
        after: The new text. It ends with a newline unless it is empty.
    """

    __slots__ = ("_edits", "_new", "_old", "after", "before")

    def __init__(self, before: str, old: list[str], edits: list[_Edit], ending: str) -> None:
        self.before = before
        self._old = old
        self._edits = edits
        self._new: list[str] = []
        at = 0
        for edit in edits:
            self._new += old[at : edit.start]
            self._new += [old[line] if isinstance(line, int) else line + ending for line in edit.lines]
            at = edit.end
        self._new += old[at:]
        # A last line without a line end gets one, even if it is no longer the last.
        self._new = [line if line.endswith(_ENDS) else line + ending for line in self._new]
        self.after = "".join(self._new)

    @classmethod
    def between(cls, before: str, after: str) -> Revision:
        """Return the revision that replaces the whole text. Its diff shows only the differences."""
        old, new = _keep_ends(before), _keep_ends(after)
        revision = cls(before, old, [_Edit(0, len(old), [])], "\n")
        revision._edits[0].lines += new
        revision._new, revision.after = new, after
        return revision

    def diff(self) -> str:
        """Return a unified diff without file headers, with one line of context."""
        return "".join(self._hunks())

    def _hunks(self) -> Iterator[str]:
        for group in _group_changes(self._changes()):
            old_from = max(group[0][0] - _RADIUS, 0)
            new_from = group[0][2] - (group[0][0] - old_from)
            after = min(_RADIUS, len(self._old) - group[-1][1])
            old_to, new_to = group[-1][1] + after, group[-1][3] + after
            yield f"@@ -{_range(old_from, old_to)} +{_range(new_from, new_to)} @@\n"
            at = old_from
            for old_start, old_end, new_start, new_end in group:
                yield from _mark_lines(" ", self._old[at:old_start])
                yield from _mark_lines("-", self._old[old_start:old_end])
                yield from _mark_lines("+", self._new[new_start:new_end])
                at = old_end
            yield from _mark_lines(" ", self._old[at:old_to])

    def _changes(self) -> Iterator[_Change]:
        """Yield each run of differing lines."""
        shift = 0
        for edit in self._edits:
            old = edit.start
            begun = new = edit.start + shift
            for line in edit.lines:
                if isinstance(line, int):
                    yield from self._run(old, line, begun, new)
                    yield from self._run(line, line + 1, new, new + 1)
                    old, begun = line + 1, new + 1
                new += 1
            yield from self._run(old, edit.end, begun, new)
            shift += len(edit.lines) - (edit.end - edit.start)
        last = len(self._old) - 1
        if last >= 0 and (not self._edits or self._edits[-1].end <= last):
            yield from self._run(last, last + 1, last + shift, last + shift + 1)

    def _run(self, old: int, old_end: int, new: int, new_end: int) -> Iterator[_Change]:
        """Yield the differences between these old and new lines."""
        for old_a, old_b, new_a, new_b in _differing(self._old[old:old_end], self._new[new:new_end]):
            yield old + old_a, old + old_b, new + new_a, new + new_b


def revise(text: str, chunks: Sequence[Chunk], path: str) -> Revision:
    """Apply the chunks of an update to a file's text.

    Every line keeps its line end. New lines, and a last line without a line end, get the line end of the file's first line. A
    byte order mark is not a part of the first line, whether the patch shows it or not; the result does not contain it.

    Args:
        path: For messages.

    Raises:
        LinesNotFound: A chunk does not match the file.
    """
    if text.startswith(MARK):
        text = text.removeprefix(MARK)
        chunks = [_without_marks(chunk) for chunk in chunks]
    old = text.splitlines(keepends=True) if _only_newlines(text) else _keep_ends(text)
    bare = [line.rstrip("\r\n") for line in old]
    ending = (old[0].removeprefix(bare[0]) if old else "") or "\n"
    return Revision(text, old, _edits(bare, chunks, path), ending)


def _without_marks(chunk: Chunk) -> Chunk:
    lines = tuple((mark, text.removeprefix(MARK)) for mark, text in chunk.lines)
    context = None if chunk.context is None else chunk.context.removeprefix(MARK)
    return Chunk(context, lines, end_of_file=chunk.end_of_file)


def _only_newlines(text: str) -> bool:
    """Return whether ``str.splitlines`` would split at newlines only."""
    return text.isascii() and not any(mark in text for mark in "\r\x0b\x0c\x1c\x1d\x1e")


def _keep_ends(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    if last:
        lines.append(last)
    return [part for line in lines for part in _at_returns(line)] if "\r" in text else lines


def _at_returns(line: str) -> Iterator[str]:
    """Split a line that ends with a newline at the lone carriage returns in it."""
    end = next((end for end in ("\r\n", "\n") if line.endswith(end)), "")
    *parts, last = line.removesuffix(end).split("\r")
    for part in parts:
        yield f"{part}\r"
    if last or end:
        yield last + end


def _edits(lines: list[str], chunks: Sequence[Chunk], path: str) -> list[_Edit]:
    file = FileLines(lines)
    at = 0
    edits: list[_Edit] = []
    appended: list[str | int] = []
    for chunk in chunks:
        if chunk.context is not None:
            found = file.find([chunk.context], at)
            if found is None:
                raise LinesNotFound(f"Failed to find context '{chunk.context}' in {path}")
            at = found + 1
        if all(mark == "+" for mark, _ in chunk.lines):
            appended += [text for _, text in chunk.lines]
            continue
        edit = _locate_chunk(file, chunk, at, path)
        edits.append(edit)
        at = edit.end
    if appended:
        edits.append(_Edit(len(lines), len(lines), appended))
    return edits


def _locate_chunk(file: FileLines, chunk: Chunk, at: int, path: str) -> _Edit:
    lines = list(chunk.lines)
    old = [text for mark, text in lines if mark != "+"]
    start = file.find(old, at, at_end=chunk.end_of_file)
    if start is None and old[-1] == "":
        # An empty line at the end of the chunk may mean the end of the file.
        lines = _without_last_blank(lines)
        start = file.find(old[:-1], at, at_end=chunk.end_of_file)
    if start is None:
        raise LinesNotFound(f"Failed to find expected lines in {path}:\n" + "\n".join(old))
    result: list[str | int] = []
    line = start
    for mark, text in lines:
        if mark == "+":
            result.append(text)
            continue
        if mark == " ":
            result.append(line)  # the file's own line, because that in the patch may be simplified
        line += 1
    return _Edit(start, line, result)


def _without_last_blank(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Remove the last old line, which is empty, and an empty last new line."""
    last = max(index for index, (mark, _) in enumerate(lines) if mark != "+")
    kept = [("+", "")] if lines[last][0] == " " else []
    rest = lines[:last] + kept + lines[last + 1 :]
    if rest and rest[-1] == ("+", ""):
        rest.pop()
    return rest


def _differing(old: Sequence[str], new: Sequence[str]) -> list[_Change]:
    """Yield runs of differing lines, as few lines as possible if that is not too slow."""
    if old == new:
        return []
    if not old or not new or len(old) * len(new) > _COMPARABLE:
        return [(0, len(old), 0, len(new))]
    from difflib import SequenceMatcher

    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a, b, c, d) for tag, a, b, c, d in codes if tag != "equal"]


def _group_changes(changes: Iterator[_Change]) -> Iterator[list[_Change]]:
    group: list[_Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * _RADIUS:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _mark_lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield f"{mark}{line}"
        else:
            yield f"{mark}{line}\n" + ("" if line.endswith("\r") else "\\ No newline at end of file\n")
