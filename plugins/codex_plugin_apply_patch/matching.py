"""Finds the lines of a patch in a file. Standard library only."""

from __future__ import annotations

from bisect import bisect_left

from codex_plugin_apply_patch.grammar import SPACES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FileLines"]

_PLAIN = {
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f"), '"'),
    **dict.fromkeys([0xA0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}
"""Typographic characters that models replace by plain ones."""


def _same(line: str) -> str:
    return line


def _right_stripped(line: str) -> str:
    return line.rstrip(SPACES)


def _strip_line(line: str) -> str:
    return line.strip(SPACES)


def _plain(line: str) -> str:
    line = line.strip(SPACES)
    return line if line.isascii() else line.translate(_PLAIN)


_PASSES: tuple[Callable[[str], str], ...] = (_same, _right_stripped, _strip_line, _plain)
"""From strict to lenient. Each searches the whole range before the next is tried."""


class FileLines:
    """The lines of a file (without their ends), searchable."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._forms: list[_Form | None] = [None] * len(_PASSES)

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """Return the first index, from ``start`` on, at which all ``wanted`` lines follow each other.

        Args:
            at_end: Whether they must be the last lines of the file.

        Returns:
            None if they are not found in any form; ``start`` if ``wanted`` is empty.
        """
        if not wanted:
            return start
        last = len(self._lines) - len(wanted)
        if at_end:
            start = max(start, last)
        if start > last:
            return None
        for number, simplified in enumerate(_PASSES):
            found = self._form(number).find([simplified(line) for line in wanted], start)
            if found is not None:
                return found
        return None

    def _form(self, number: int) -> _Form:
        form = self._forms[number]
        if form is None:
            simplified = _PASSES[number]
            form = self._forms[number] = _Form([simplified(line) for line in self._lines])
        return form


class _Form:
    """All lines as one text, because ``str.find`` takes linear time even with many equal lines."""

    def __init__(self, lines: list[str]) -> None:
        self._text = "\n" + "\n".join(lines) + "\n"
        self._starts = [0]
        """The positions of the newline before each line, and of the last one."""
        at = 0
        for line in lines:
            at += len(line) + 1
            self._starts.append(at)

    def find(self, wanted: list[str], start: int) -> int | None:
        """Return the index of the first of these lines, from ``start`` on."""
        found = self._text.find("\n" + "\n".join(wanted) + "\n", self._starts[start])
        return None if found < 0 else bisect_left(self._starts, found)
