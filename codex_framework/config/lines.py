"""Line numbers of keys in a TOML text. They are needed only for errors, so nothing here runs at start-up."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

__all__ = ["line_of"]

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY_PART = re.compile(r"""[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*(\.?)""")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}' + r"|'''(?:[^']|'(?!''))*'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def line_of(text: str, key: Sequence[str | int]) -> int | None:
    """Return the line, starting at 1, on which a key first gets a value or a header.

    If the key does not exist, this is the line of the nearest table around it. None means that no such table exists either.

    Args:
        text: A valid TOML document.
        key: The key's segments. Integers are positions in arrays.
    """
    offsets = _Scanner(text).offsets()
    for length in range(len(key), 0, -1):
        offset = offsets.get(tuple(key[:length]))
        if offset is not None:
            return text.count("\n", 0, offset) + 1
    return None


class _Scanner:
    """A scanner for valid TOML documents that collects the offset of every key. Values are skipped."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._offsets: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}

    def offsets(self) -> dict[Path, int]:
        """Return the offsets of all keys."""
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
        return self._offsets

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
            path = self._element((*path, part), start)
        path = (*path, parts[-1])
        if is_array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
        return self._element(path, start)

    def _element(self, path: Path, start: int) -> Path:
        """Store the offset of a table, or of the last element of an array of tables."""
        self._offsets.setdefault(path, start)
        if path not in self._arrays:
            return path
        path = (*path, self._arrays[path])
        self._offsets.setdefault(path, start)
        return path

    def _pair(self, table: Path) -> None:
        start = self._position
        path = table
        for part in self._key():
            path = (*path, part)
            self._offsets.setdefault(path, start)
        self._position += 1  # the equals sign
        self._value(path)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while match := _KEY_PART.match(self._text, self._position):
            basic, literal, bare, more = match.groups()
            parts.append(json.loads(f'"{basic}"', strict=False) if basic is not None else literal or bare or "")
            self._position = match.end()
            if not more:
                break
        return parts or [""]

    def _value(self, path: Path) -> None:
        self._skip_blank()
        first = self._text[self._position : self._position + 1]
        if first == "[":
            self._list(path)
        elif first == "{":
            self._inline_table(path)
        else:
            match = _STRING.match(self._text, self._position) or _SCALAR.match(self._text, self._position)
            self._position = match.end() if match else len(self._text)

    def _list(self, path: Path) -> None:
        self._position += 1
        index = 0
        while not self._ends("]"):
            before = self._position
            self._offsets.setdefault((*path, index), before)
            self._value((*path, index))
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
