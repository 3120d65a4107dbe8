"""Markdown while it is being written: each line of the source becomes lines of the screen as soon as it is complete.

Nothing that has been printed changes later, so a long answer costs the same for each piece. Only tables are delayed until they
end, because their columns depend on all of their rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codex_client_terminal.code import Code
from codex_client_terminal.text import Line, Span, Style, clean, width_of

__all__ = ["MarkdownStream", "inline"]

_FENCE = re.compile(r"\s{0,3}(```+|~~~+)\s*([\w+#.-]*)")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$")
_RULE = re.compile(r"\s{0,3}([-*_])(\s*\1){2,}\s*$")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_DELIMITERS = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?)?\s*$")
_INLINE = re.compile(
    r"(?P<code>`+)(?P<coded>.+?)(?P=code)"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*|__(?P<bold2>\S(?:.*?\S)?)__(?!\w)"
    r"|\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*|(?<!\w)_(?P<italic2>[^\s_](?:[^_]*[^\s_])?)_(?!\w)"
    r"|~~(?P<strike>\S(?:.*?\S)?)~~"
    r"|!?\[(?P<label>[^\]]*)\]\((?P<url>[^)\s]+)(?:\s+\"[^\"]*\")?\)"
    r"|\\(?P<escaped>[\\`*_{}\[\]()#+.!|~>-])"
)
_LONGEST_INLINE = 4_000
"""The longest line in which emphasis is looked for, in characters."""


def inline(text: str, style: Style = "") -> Line:
    """Return a line of Markdown as spans."""
    if len(text) > _LONGEST_INLINE:
        return [(text, style)]
    line: Line = []
    end = 0
    for found in _INLINE.finditer(text):
        if found.start() > end:
            line.append((text[end : found.start()], style))
        line += _spans(found, style)
        end = found.end()
    if end < len(text):
        line.append((text[end:], style))
    return line or [("", style)]


def _spans(found: re.Match[str], style: Style) -> Iterator[Span]:
    kinds = found.groupdict()
    if (code := kinds["coded"]) is not None:
        yield code.strip() or code, f"{style} cyan"
    elif (text := kinds["bold"] or kinds["bold2"]) is not None:
        yield from inline(text, f"{style} bold")
    elif (text := kinds["italic"] or kinds["italic2"]) is not None:
        yield from inline(text, f"{style} italic")
    elif (text := kinds["strike"]) is not None:
        yield from inline(text, f"{style} strike")
    elif (text := kinds["escaped"]) is not None:
        yield text, style
    else:
        label, url = kinds["label"] or "", kinds["url"] or ""
        if label and label != url:
            yield from inline(label, style)
            yield f" ({url})", f"{style} dim"
        else:
            yield url, f"{style} underline"


class MarkdownStream:
    """Markdown that arrives in pieces."""

    def __init__(self) -> None:
        self._rest = ""  # the line that is not complete
        self._fence = ""
        self._code = Code("")
        self._table: list[str] = []

    def feed(self, text: str) -> list[Line]:
        """Take a piece, and return the lines that are complete."""
        *complete, self._rest = (self._rest + text).split("\n")
        return [line for each in complete for line in self._take(each)]

    def end(self) -> list[Line]:
        """Return the lines that are left."""
        rest, self._rest = self._rest, ""
        lines = list(self._take(rest)) if rest else []
        return [*lines, *self._end_table()]

    @property
    def unfinished(self) -> list[Line]:
        """The incomplete lines."""
        shown = [[(row, "")] for row in self._table[-8:]]
        if self._rest:
            shown += [[(self._rest, "cyan")]] if self._fence else [inline(self._rest)]
        return shown

    def _take(self, text: str) -> Iterator[Line]:
        text = text.rstrip("\r")
        fence = _FENCE.match(text)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2]:
                self._fence = ""
            else:
                yield [("  ", ""), *self._code.line(text)]
            return
        if _ROW.match(text) or (self._table and _DELIMITERS.match(text)):
            self._table.append(text)
            return
        yield from self._end_table()
        if fence:
            self._fence, self._code = fence[1], Code(fence[2])
            return
        yield _text_line(text)

    def _end_table(self) -> Iterator[Line]:
        table, self._table = self._table, []
        if len(table) < 2 or not _DELIMITERS.match(table[1]):
            yield from map(_text_line, table)
            return
        cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in table]
        del cells[1]
        count = max(map(len, cells))
        shown = [[inline(cell) for cell in (row + [""] * count)[:count]] for row in cells]
        widths = [max(_width(row[place]) for row in shown) for place in range(count)]
        for number, row in enumerate(shown):
            line: Line = []
            for cell, width in zip(row, widths, strict=True):
                styled = [(text, f"{style} bold" if number == 0 else style) for text, style in cell]
                line += [*styled, (" " * (width - _width(cell) + 2), "")]
            yield line
            if number == 0:
                yield [("  ".join("─" * width for width in widths), "dim")]


def _width(line: Line) -> int:
    return sum(width_of(clean(text)) for text, _ in line)


def _text_line(text: str) -> Line:
    if heading := _HEADING.match(text):
        level = len(heading[1])
        return inline(f"{'#' * level} {heading[2]}", "bold magenta" if level < 3 else "bold")
    if _RULE.match(text):
        return [("───", "dim")]
    if item := _ITEM.match(text):
        mark = "•" if item[2] in "-*+" else item[2]
        return [(f"{item[1]}{mark} ", "dim"), *_task(item[3])]
    if text.lstrip().startswith(">"):
        return [("▌ ", "dim"), *inline(text.lstrip()[1:].strip(), "italic")]
    return inline(text)


def _task(text: str) -> Line:
    for mark, shown in (("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")):
        if text.startswith(mark):
            return [(shown, ""), *inline(text[4:])]
    return inline(text)
