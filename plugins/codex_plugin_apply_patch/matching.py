"""Where lines of a patch stand in a file. Standard library only."""

from __future__ import annotations

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
"""Typographic characters that models write as plain ones."""


def _same(line: str) -> str:
    return line


def _right_stripped(line: str) -> str:
    return line.rstrip(SPACES)


def _stripped(line: str) -> str:
    return line.strip(SPACES)


def _plain(line: str) -> str:
    line = line.strip(SPACES)
    return line if line.isascii() else line.translate(_PLAIN)


_PASSES: tuple[Callable[[str], str], ...] = (_same, _right_stripped, _stripped, _plain)
"""From strict to lenient; each one looks at the whole range before the next is tried."""


class FileLines:
    """The lines of a file (without their ends), searchable."""

    def __init__(self, lines: list[str]) -> None:
        self._forms: list[list[str] | None] = [lines, None, None, None]
        self._count = len(lines)

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first index from ``start`` on where all ``wanted`` lines follow each other.

        Args:
            at_end: They have to be the last lines of the file.

        Returns:
            None where they do not stand there in any form; ``start`` where nothing is wanted.
        """
        if not wanted:
            return start
        last = self._count - len(wanted)
        if at_end:
            start = max(start, last)
        if start > last:
            return None
        for number, form in enumerate(_PASSES):
            found = _search(self._form(number), [form(line) for line in wanted], start, last)
            if found is not None:
                return found
        return None

    def _form(self, number: int) -> list[str]:
        lines = self._forms[number]
        if lines is None:
            lines = [_PASSES[number](line) for line in self._form(0)]
            self._forms[number] = lines
        return lines


def _search(lines: list[str], wanted: list[str], start: int, last: int) -> int | None:
    head, size = wanted[0], len(wanted)
    while start <= last:
        try:
            start = lines.index(head, start, last + 1)
        except ValueError:
            return None
        if lines[start : start + size] == wanted:
            return start
        start += 1
    return None
