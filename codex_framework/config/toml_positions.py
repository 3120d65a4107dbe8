"""The places of all keys in a TOML text. They are needed for errors and edits only, so nothing here runs at start-up."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

__all__ = ["Entry", "Path", "entries_of", "line_of"]

Path = tuple[str | int, ...]
"""The segments of a key. Integers are positions in arrays."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY_PART = re.compile(r"""[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*(\.?)""")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}' + r"|'''(?:[^']|'(?!''))*'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*[^,\]}#\s]|")


class Entry:
    """A header, a pair of key and value, or an element of an array.

    Attributes:
        kind: ``header``, ``pair`` or ``element``.
        path: The key.
        table: The path of the table that its own key starts from: of the header above it, or of the inline table around it.
        start: The offset of its first character.
        value: The offset of its value. For a header this is the end.
        end: The offset after its last character.
    """

    __slots__ = ("end", "kind", "path", "start", "table", "value")

    def __init__(self, kind: str, path: Path, table: Path, start: int, value: int) -> None:
        self.kind = kind
        self.path = path
        self.table = table
        self.start = start
        self.value = value
        self.end = value


def entries_of(text: str) -> list[Entry]:
    """Return all entries of a TOML document in the order of the text, also those within arrays and inline tables.

    If the text is not valid TOML, the result is incomplete.
    """
    return _Scanner(text).entries()


def line_of(text: str, key: Sequence[str | int]) -> int | None:
    """Return the line, starting at 1, on which a key first gets a value or a header.

    If the key does not exist, this is the line of the nearest table around it. None if no such table exists either.

    Args:
        text: A valid TOML document.
        key: The key's segments. Integers are positions in arrays.
    """
    offsets: dict[Path, int] = {}
    for entry in entries_of(text):
        for length in range(1, len(entry.path) + 1):
            offsets.setdefault(entry.path[:length], entry.start)
    for length in range(len(key), 0, -1):
        offset = offsets.get(tuple(key[:length]))
        if offset is not None:
            return text.count("\n", 0, offset) + 1
    return None


class _Scanner:
    """A scanner for valid TOML documents. Comments and the content of strings are skipped."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._entries: list[Entry] = []
        self._arrays: dict[Path, int] = {}

    def entries(self) -> list[Entry]:
        """Return the entries."""
        table: Path = ()
        self._skip_blank()
        while self._position < len(self._text):
            before = self._position
            if self._text[self._position] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()
            self._stop_at(before)
        return self._entries

    def _stop_at(self, before: int) -> None:
        """Stop the scan if it makes no progress. The text is not valid TOML then, and an incomplete result is better than a hang."""
        if self._position == before:
            self._position = len(self._text)

    def _header(self) -> Path:
        start = self._position
        is_array = self._text.startswith("[[", start)
        self._position += 2 if is_array else 1
        parts = self._key()
        self._position += 2 if is_array else 1
        path: Path = ()
        for part in parts[:-1]:
            path = self._last((*path, part))
        path = (*path, parts[-1])
        if is_array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
        path = self._last(path)
        self._entries.append(Entry("header", path, (), start, min(self._position, len(self._text))))
        return path

    def _last(self, path: Path) -> Path:
        """Return the path of the last element, if ``path`` is an array of tables."""
        return (*path, self._arrays[path]) if path in self._arrays else path

    def _pair(self, table: Path) -> None:
        start = self._position
        path = (*table, *self._key())
        self._position += 1  # the equals sign
        self._skip_blank()
        self._value(Entry("pair", path, table, start, self._position))

    def _key(self) -> list[str]:
        parts: list[str] = []
        while match := _KEY_PART.match(self._text, self._position):
            basic, literal, bare, more = match.groups()
            parts.append(_unescape(basic) if basic is not None else literal or bare or "")
            self._position = match.end()
            if not more:
                break
        return parts or [""]

    def _value(self, entry: Entry) -> None:
        self._entries.append(entry)
        first = self._text[self._position : self._position + 1]
        if first == "[":
            self._list(entry.path)
        elif first == "{":
            self._inline_table(entry.path)
        else:
            match = _STRING.match(self._text, self._position) or _SCALAR.match(self._text, self._position)
            self._position = match.end() if match else len(self._text)
        entry.end = self._position

    def _list(self, path: Path) -> None:
        self._position += 1
        index = 0
        while not self._ends("]"):
            before = self._position
            self._value(Entry("element", (*path, index), path, before, before))
            self._stop_at(before)
            index += 1

    def _inline_table(self, path: Path) -> None:
        self._position += 1
        while not self._ends("}"):
            before = self._position
            self._pair(path)
            self._stop_at(before)

    def _ends(self, bracket: str) -> bool:
        """Return whether the closing bracket is here, and skip blanks, a comma and the bracket."""
        self._skip_blank()
        if self._text.startswith(",", self._position):
            self._position += 1
            self._skip_blank()
        if self._position >= len(self._text):
            return True
        if self._text[self._position] != bracket:
            return False
        self._position += 1
        return True

    def _skip_blank(self) -> None:
        match = _BLANK.match(self._text, self._position)
        if match:
            self._position = match.end()


def _unescape(basic: str) -> str:
    """Return the content of a basic string. JSON has all escapes of TOML but the longest."""
    short = re.sub(r"\\(?:U([0-9A-Fa-f]{8})|.)", lambda match: _character(match[1]) if match[1] else match[0], basic)
    try:
        text: str = json.loads(f'"{short}"', strict=False)
    except ValueError:  # not valid TOML either
        return basic
    return text


def _character(digits: str) -> str:
    number = int(digits, 16)
    return json.dumps(chr(number))[1:-1] if number <= 0x10FFFF else "?"
