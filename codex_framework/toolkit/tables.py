"""Tables and lists for people. On a terminal, they are never wider than it, and no word is broken. Elsewhere, nothing is cut."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from wcwidth import ljust, rjust, width, wrap

__all__ = ["Row", "fit", "short_path", "shortened", "table_lines"]

Row: TypeAlias = Sequence[str] | str
"""One cell for each column. A text is a remark on the row before it."""

_GAP = "  "
_INDENT = "    "
_NARROWEST = 24
"""The width of the last column, at least. A cell with a longer word is written below its row."""


def table_lines(
    header: Sequence[str], rows: Sequence[Row], *, right: Collection[str] = (), limit: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table. Cells may be styled.

    Args:
        header: The titles of the columns. Without titles, no heading is shown.
        right: The titles of the columns that are aligned to the right.
        limit: The width; by default the terminal's width, or unlimited if stdout is not a terminal.
    """
    limit = _terminal_width() if limit is None else limit
    shown = [header, *rows] if header else list(rows)
    widths = _widths([row for row in shown if not isinstance(row, str)], limit)
    if widths is None:
        assert limit is not None
        yield from _paragraphs(header, rows, limit)
        return
    sides = [rjust if title in right else ljust for title in header] or [ljust] * len(widths)
    for row in shown:
        if isinstance(row, str):
            yield from _fit_line(f"{_INDENT}{row}", limit)
            continue
        is_below = limit is not None and _longest_word(row[-1]) > widths[-1]
        cells = [[cell] if limit is None else _wrap_cell(cell, size) for cell, size in zip(row, widths, strict=True)]
        if is_below:
            cells[-1] = [""]
        for number in range(max(map(len, cells))):
            texts = (cell[number] if number < len(cell) else "" for cell in cells)
            yield _GAP.join(side(text, size) for side, text, size in zip(sides, texts, widths, strict=True)).rstrip()
        if is_below:
            yield from _fit_line(f"{_INDENT}{row[-1]}", limit)


def fit(text: str, indent: str = "") -> str:
    """Return lines with line breaks between words, so that they fit a terminal. Without a terminal, return them unchanged.

    Args:
        indent: The indentation of continued lines.
    """
    limit = _terminal_width()
    return "\n".join(line for whole in text.split("\n") for line in _fit_line(whole, limit, indent))


def shortened(text: str, longest: int) -> str:
    """Return a text that is cut after a word on a terminal. Elsewhere return it whole."""
    if _terminal_width() is None or width(text) <= longest:
        return text
    return f"{_wrap_cell(text, longest - 2)[0]} …"


def short_path(path: str, longest: int) -> str:
    """Return a path without its first folders on a terminal, if it is too long. Elsewhere return it whole."""
    if _terminal_width() is None:
        return path
    kept = path
    while width(kept) > longest and "/" in kept.removeprefix("…/"):
        kept = f"…/{kept.removeprefix('…/').partition('/')[2]}"
    return kept


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _widths(rows: Sequence[Sequence[str]], limit: int | None) -> list[int] | None:
    """Return the widths of the columns, or None if the table cannot fit.

    The widest columns get narrower, as far as their words allow.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(map(width, column)) for column in columns]
    if limit is None:
        return natural
    least = [max(map(_longest_word, column)) for column in columns]
    least[-1] = min(least[-1], _NARROWEST)
    room = limit - len(_GAP) * (len(columns) - 1)
    for cap in range(max(natural, default=0), -1, -1):
        widths = [max(small, min(size, cap)) for small, size in zip(least, natural, strict=True)]
        if sum(widths) <= room:
            return widths
    return None


def _paragraphs(header: Sequence[str], rows: Sequence[Row], limit: int) -> Iterator[str]:
    """Yield a paragraph for each row. Empty cells are left out."""
    for number, row in enumerate(rows):
        if isinstance(row, str):
            yield from _fit_line(f"{_INDENT}{row}", limit)
            continue
        if number:
            yield ""
        yield from _fit_line(row[0], limit)
        for place, cell in enumerate(row[1:], 1):
            if cell not in ("", "-"):
                title = f"{header[place]}: " if header else ""
                yield from _fit_line(f"  {title}{cell}", limit)


def _fit_line(line: str, limit: int | None, indent: str = _INDENT) -> list[str]:
    return [line] if limit is None else _wrap_cell(line, limit, indent)


def _longest_word(text: str) -> int:
    return max(map(width, text.split()), default=0)


def _wrap_cell(text: str, size: int, indent: str = "") -> list[str]:
    return wrap(text, max(size, 1), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
