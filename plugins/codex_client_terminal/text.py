"""Styled text.

This is the only place where text becomes bytes for the terminal, so that only this place must remove harmful characters.

A line is a list of spans: text and the name of its style. :func:`rows` breaks lines at the width of the terminal, removes
characters that control the terminal or change the reading order, and adds the escapes for the styles.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

__all__ = [
    "ANSI",
    "PLAIN",
    "Line",
    "Palette",
    "Span",
    "Style",
    "clean",
    "cut",
    "lines_of",
    "one_line",
    "plain_text",
    "rows",
    "terminal_encoding",
    "to_bytes",
    "width_of",
    "wrap",
]

Style: TypeAlias = str
Span: TypeAlias = tuple[str, Style]
Line: TypeAlias = list[Span]
Palette: TypeAlias = Mapping[str, str]
"""The escapes for the words of styles."""

LONGEST = 8_000
"""The most characters of one line that are displayed."""

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0d\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""Invisible characters that Unicode does not classify as controls."""

_JOINERS = "\u200d\ufe0e\ufe0f"
"""Characters that join emoji, or select their display."""


class _Shown(dict[int, str]):
    """How each character is displayed, determined when it is first needed."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        kind = unicodedata.category(letter)
        if kind == "Cc":
            shown = "    " if letter == "\t" else ""
        elif kind == "Cs":
            shown = "\N{REPLACEMENT CHARACTER}"
        elif _UNSEEN.match(letter) or (kind in ("Cf", "Zl", "Zp") and letter not in _JOINERS):
            shown = f"\\u{code:04x}"
        else:
            shown = letter
        self[code] = shown
        return shown


_SHOWN = _Shown()
_STRAY_JOINER = re.compile(f"(?<![\u2194-\u3299\U0001f000-\U0001faff{_JOINERS}#*0-9\xa9\xae\u203c\u2049])[{_JOINERS}]+")
PLAIN: Palette = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}
"""No colours."""

ANSI: Palette = {
    **PLAIN,
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "keyword": "34",
    "constant": "35",
    "builtin": "36",
    "class": "1",
    "decorator": "33",
    "function": "33",
    "tag": "34",
    "attribute": "36",
    "string": "32",
    "number": "35",
    "comment": "2",
    "word-operator": "34",
    "inserted": "32",
    "deleted": "31",
    "subheading": "36",
    "heading": "1",
}
"""The terminal's own colours."""

_NARROW = re.compile("[ -~›•└│…─↳⋯✔✗□■⚠·]*")
"""ASCII and our own marks, which need no library."""

_IN_ASCII = str.maketrans("·•…›→↳⋮⋯─│└▌■□☐☑⚠✔✗–—‘’“”", "-*~>>>:~-|`|#oox!x!--''\"\"")
"""Replacements of the same width for our marks and for marks in texts, for terminals without Unicode."""

_WORD = re.compile(r"\s+|[^\s]+")


def clean(text: str) -> str:
    """Return a text of one line without characters that could control the terminal. Invisible characters are shown by number."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"
    if text.isascii() and text.isprintable():
        return text
    shown = text.translate(_SHOWN)
    return _STRAY_JOINER.sub(_escape_match, shown) if any(joiner in shown for joiner in _JOINERS) else shown


def _escape_match(found: re.Match[str]) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in found.group())


def one_line(text: str, longest: int = 200) -> str:
    """Return the beginning of a text as one line."""
    shown = " ".join(text[: 4 * longest].split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def graphemes(text: str) -> Iterable[str]:
    """Return the visible letters of a text: letters with their accents, joined emoji."""
    if text.isascii():
        return text
    from wcwidth import iter_graphemes  # not before the first screen

    return iter_graphemes(text)


def width_of(text: str) -> int:
    """Return how many columns a clean text takes."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    from wcwidth import wcswidth

    return max(wcswidth(text), 0)


def lines_of(text: str, style: Style = "") -> list[Line]:
    """Return the lines of a text in one style."""
    return [[(part, style)] for part in text.split("\n")]


def plain_text(line: Line) -> str:
    """Return a line without styles, and harmless."""
    return "".join(clean(text) for text, _ in line)


def cut(line: Line, width: int) -> Line:
    """Return a line that fits, with an ellipsis in place of what does not."""
    if width_of(plain_text(line)) <= width:
        return line
    left = width - 1
    kept: Line = []
    for text, style in line:
        shown = ""
        for letter in graphemes(clean(text)):
            left -= width_of(letter)
            if left < 0:
                return [*kept, (shown + "…", style)]
            shown += letter
        kept.append((shown, style))
    return kept


def rows(lines: Iterable[Line], width: int, palette: Palette) -> Iterator[str]:
    """Yield the rows of the terminal that show some lines, each at most ``width`` columns wide."""
    for line in lines:
        for row in wrap(line, width):
            yield encode(row, palette)


def wrap(line: Line, width: int) -> Iterator[Line]:
    """Yield the rows of a line, cleaned and broken at spaces where possible. Continued rows begin below the text of the first."""
    line = [(clean(text), style) for text, style in line]
    if sum(width_of(text) for text, _ in line) <= width:
        yield line
        return
    indent = " " * min(_hanging(line), width // 3)
    row: Line = []
    used = 0
    for text, style in line:
        for word in _WORD.findall(text):
            size = width_of(word)
            if used + size > width and used > len(indent):
                yield row
                row, used = [(indent, "")] if indent else [], len(indent)
                if word.isspace():
                    continue
            rest = word
            while used + size > width:
                head, rest = split_at(rest, width - used)
                yield [*row, (head, style)]
                row, used, size = [(indent, "")] if indent else [], len(indent), width_of(rest)
            row.append((rest, style))
            used += size
    yield row


def _hanging(line: Line) -> int:
    """Return the width of the marks and spaces at the beginning of a line."""
    first = line[0][0]
    if (
        first.startswith("  ") and first.endswith(" ") and len(line) > 1 and first.strip()
    ):  # the first column of a table
        return width_of(first)
    width = 0
    for text, _ in line:
        if not text.endswith(" ") or any(map(str.isalpha, text)) or len(text) > 8:
            break
        width += width_of(text)
    return width


def split_at(text: str, width: int) -> tuple[str, str]:
    """Return as much of a text as fits, at least one letter, and the rest."""
    if text.isascii():
        return text[: max(width, 1)], text[max(width, 1) :]
    used = place = 0
    for letter in graphemes(text):
        used += width_of(letter)
        if used > width and place:
            break
        place += len(letter)
    return text[:place], text[place:]


def encode(row: Sequence[Span], palette: Palette) -> str:
    """Return a row with the escapes for its styles. Its texts must be clean."""
    return "".join(f"\x1b[{codes}m{text}\x1b[0m" if (codes := _codes(style, palette)) else text for text, style in row)


def _codes(style: Style, palette: Palette) -> str:
    return ";".join(filter(None, map(palette.get, style.split()))) if style else ""


def uses_colour(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether colours are wanted."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def terminal_encoding(environ: Mapping[str, str] = os.environ) -> str:
    """Return the encoding of the terminal: the locale's encoding, or UTF-8 if the environment names no locale."""
    coerced = bool(sys.flags.utf8_mode) and environ.get("LC_CTYPE") == "C.UTF-8"  # Python has set it itself
    names = (environ.get(name) for name in ("LC_ALL", *(() if coerced else ("LC_CTYPE",)), "LANG"))
    locale = next(filter(None, names), "")
    if locale in ("C", "POSIX"):
        return "ascii"
    try:
        return codecs.lookup(locale.partition(".")[2].partition("@")[0]).name
    except LookupError:
        return "utf-8"


def to_bytes(text: str, encoding: str) -> bytes:
    """Return a text in the terminal's encoding. Missing characters are replaced by characters of the same width."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_replace_letter(letter, encoding) for letter in text.translate(_IN_ASCII)).encode(encoding)


def _replace_letter(letter: str, encoding: str) -> str:
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        return "?" * width_of(letter)
    return letter
