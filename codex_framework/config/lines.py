"""Where in a TOML text a key stands. Needed only when something is wrong, so nothing here is done at start-up."""

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
    """The 1-based line on which a key is first given a value or a header.

    For a key that is not there, the line of the nearest table around it; None where not even that is there.

    Args:
        text: A valid TOML document.
        key: Its segments; integers are positions in arrays.
    """
    places = _Scanner(text).places()
    for length in range(len(key), 0, -1):
        place = places.get(tuple(key[:length]))
        if place is not None:
            return text.count("\n", 0, place) + 1
    return None


class _Scanner:
    """Walks a valid TOML document and notes the offset of every key. Values are skipped, not read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}

    def places(self) -> dict[Path, int]:
        """Offsets of all keys."""
        table: Path = ()
        self._skip_blank()
        while self._at < len(self._text):
            before = self._at
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()
            self._give_up_at(before)
        return self._found

    def _give_up_at(self, before: int) -> None:
        """End the walk if it has not moved: the text is not TOML after all, and to know less is better than to hang."""
        if self._at == before:
            self._at = len(self._text)

    def _header(self) -> Path:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 2 if is_array else 1
        parts = self._key()
        self._at += 2 if is_array else 1
        path: Path = ()
        for part in parts[:-1]:
            path = self._element((*path, part), start)
        path = (*path, parts[-1])
        if is_array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
        return self._element(path, start)

    def _element(self, path: Path, start: int) -> Path:
        """Note a table; of an array of tables, its last element."""
        self._found.setdefault(path, start)
        if path not in self._arrays:
            return path
        path = (*path, self._arrays[path])
        self._found.setdefault(path, start)
        return path

    def _pair(self, table: Path) -> None:
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            self._found.setdefault(path, start)
        self._at += 1  # the equals sign
        self._value(path)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while match := _KEY_PART.match(self._text, self._at):
            basic, literal, bare, more = match.groups()
            parts.append(json.loads(f'"{basic}"', strict=False) if basic is not None else literal or bare or "")
            self._at = match.end()
            if not more:
                break
        return parts or [""]

    def _value(self, path: Path) -> None:
        self._skip_blank()
        first = self._text[self._at : self._at + 1]
        if first == "[":
            self._list(path)
        elif first == "{":
            self._inline_table(path)
        else:
            match = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            self._at = match.end() if match else len(self._text)

    def _list(self, path: Path) -> None:
        self._at += 1
        index = 0
        while not self._ends("]"):
            before = self._at
            self._found.setdefault((*path, index), before)
            self._value((*path, index))
            self._give_up_at(before)
            index += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while not self._ends("}"):
            before = self._at
            self._pair(path)
            self._give_up_at(before)

    def _ends(self, bracket: str) -> bool:
        """Whether the bracket is closed here; steps over blanks, commas and the bracket."""
        self._skip_blank()
        if self._text.startswith(",", self._at):
            self._at += 1
            self._skip_blank()
        if self._at >= len(self._text):
            return True
        if self._text[self._at] != bracket:
            return False
        self._at += 1
        return True

    def _skip_blank(self) -> None:
        match = _BLANK.match(self._text, self._at)
        if match:
            self._at = match.end()
