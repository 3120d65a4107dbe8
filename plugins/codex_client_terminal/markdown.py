"""Markdown while it is being written: each line of the source becomes lines of the screen as soon as it is complete.

Nothing that has been printed changes later, so a long answer costs the same for each piece. Only tables are kept back until they end,
because their columns depend on all of their rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codex_client_terminal.text import Line, Span, Style, width_of

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
        self._language = ""
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
        """What is known of the lines that are not complete yet."""
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
                yield _code_line(text, self._language)
            return
        if _ROW.match(text) or (self._table and _DELIMITERS.match(text)):
            self._table.append(text)
            return
        yield from self._end_table()
        if fence:
            self._fence, self._language = fence[1], fence[2].lower()
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
    return sum(width_of(text) for text, _ in line)


def _code_line(text: str, language: str) -> Line:
    if language in ("diff", "patch"):
        return [(f"  {text}", diff_style(text))]
    return [("  ", ""), *_highlighted(text, language)]


def _highlighted(text: str, language: str) -> Line:
    """Return a line of code. Words, strings and comments of most languages look alike, so one pattern is enough for colours."""
    if not language or len(text) > 500:
        return [(text, "")]
    line: Line = []
    end = 0
    for found in _TOKENS.finditer(text):
        if found.start() > end:
            line.append((text[end : found.start()], ""))
        kind = found.lastgroup or ""
        word = found.group()
        if kind == "comment" and word.startswith("#") and language in _WITHOUT_HASH:
            kind = ""
        line.append((word, _COLOURS.get(kind, "") if kind != "word" or word in _KEYWORDS else ""))
        end = found.end()
    return [*line, (text[end:], "")]


_TOKENS = re.compile(
    r"(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`)|(?P<comment>(?:#|//|--\s).*)"
    r"|(?P<number>\b\d[\w.]*)|(?P<word>[A-Za-z_]\w*)"
)
_COLOURS = {"string": "green", "comment": "dim", "number": "magenta", "word": "blue"}
_WITHOUT_HASH = frozenset({"c", "cpp", "css", "rust", "rs", "html", "xml"})
_KEYWORDS = frozenset(
    {
        "and",
        "as",
        "assert",
        "async",
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "def",
        "default",
        "del",
        "do",
        "done",
        "echo",
        "elif",
        "else",
        "end",
        "enum",
        "esac",
        "except",
        "export",
        "extends",
        "fi",
        "finally",
        "fn",
        "for",
        "from",
        "func",
        "function",
        "global",
        "go",
        "if",
        "impl",
        "implements",
        "import",
        "in",
        "interface",
        "is",
        "lambda",
        "let",
        "loop",
        "match",
        "mod",
        "mut",
        "new",
        "nil",
        "none",
        "None",
        "not",
        "null",
        "or",
        "package",
        "pass",
        "private",
        "pub",
        "public",
        "raise",
        "return",
        "select",
        "self",
        "static",
        "struct",
        "super",
        "switch",
        "then",
        "this",
        "throw",
        "trait",
        "true",
        "True",
        "false",
        "False",
        "try",
        "type",
        "typeof",
        "use",
        "var",
        "void",
        "where",
        "while",
        "with",
        "yield",
    }
)


def diff_style(text: str) -> Style:
    """Return the style of a line of a unified diff."""
    if text.startswith(("+++", "---", "diff ", "index ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(text[:1], "")


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
