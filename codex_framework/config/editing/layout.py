"""The lines of a TOML text: the ranges of statements, their comments, and the positions for new ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from codex_framework.config.toml_positions import Entry, Path, entries_of

__all__ = ["Layout", "comments_in", "newline_of"]

_COMMENT_OR_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}' + r"|'''(?:[^']|'(?!''))*'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'"
    r"|#[^\r\n]*",
    re.DOTALL,
)
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\r\n]*)?(\r?\n|$)")


def comments_in(text: str) -> list[str]:
    """Return the comments of a part of a document that begins outside of strings and comments."""
    return [match[0].rstrip() for match in _COMMENT_OR_STRING.finditer(text) if match[0].startswith("#")]


def newline_of(text: str) -> str:
    """Return the line end that most lines have."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


class Layout:
    """A valid TOML document as statements: headers, and pairs that are not within another value.

    Attributes:
        text: The document.
        entries: Its entries, in order.
    """

    def __init__(self, text: str, newline: str | None = None) -> None:
        self.text = text
        self.entries = entries_of(text)
        self._newline = newline or newline_of(text)
        self._headers = [entry for entry in self.entries if entry.kind == "header"]
        self._tables = {entry.path for entry in self._headers} | {()}

    def entry(self, path: Path) -> Entry | None:
        """Return the pair or element with this path, or None if it is a table with a header, or of dotted keys, or does not exist."""
        return next((entry for entry in self.entries if entry.path == path and entry.kind != "header"), None)

    def is_statement(self, entry: Entry) -> bool:
        """Return whether the entry is a header, or a pair that is not within another value."""
        return entry.kind == "header" or (entry.kind == "pair" and entry.table in self._tables)

    def inline_table(self, path: Path) -> Entry | None:
        """Return the innermost inline table that contains a table, or is it, if any."""
        found = [
            entry
            for entry in self.entries
            if entry.kind != "header"
            and self.text.startswith("{", entry.value)
            and entry.path == path[: len(entry.path)]
        ]
        return found[-1] if found else None

    def last_dotted_pair(self, path: Path) -> Entry | None:
        """Return the last pair of a table that consists of dotted keys, or None if the table is not of this kind."""
        if not path or path in self._tables:
            return None
        found = [
            entry
            for entry in self.entries
            if self.is_statement(entry) and len(entry.table) < len(path) < len(entry.path) and entry.kind == "pair"
            if entry.path[: len(path)] == path
        ]
        return found[-1] if found else None

    def has_section(self, path: Path) -> bool:
        """Return whether the table has a header, or is the root."""
        return path in self._tables

    def with_pair(self, table: Path, pair: str) -> str:
        """Return the text with a pair behind the last one of a table that has a header, or of the root."""
        pairs = [
            entry
            for entry in self.entries
            if self.is_statement(entry) and entry.kind == "pair" and entry.table == table
        ]
        if pairs:
            return self.with_pair_after(pairs[-1], pair)
        if table:
            header = next(entry for entry in self._headers if entry.path == table)
            return self.with_pair_after(header, pair)
        if not self._headers:
            return self._insert(len(self.text), [pair])
        position = self._room(self._block_of(self._headers[0]))
        return self._insert(position, [pair, *self._gap_after(position)])

    def with_pair_after(self, entry: Entry, pair: str) -> str:
        """Return the text with a pair on the line after a statement, indented like it."""
        return self._insert(self._line_end(entry.end), [self._indent(entry) + pair])

    def with_section(self, position: int, lines: Sequence[str]) -> str:
        """Return the text with a section at a position, separated by blank lines."""
        position = self._room(position)
        before = self.text[:position]
        is_separate = not before or re.search(r"(^|\n)[ \t]*\r?\n$", before) is not None
        return self._insert(position, [*([] if is_separate else [""]), *lines, *self._gap_after(position)])

    def end_of(self, path: Path) -> int:
        """Return the position after the last section of a table. Comments directly above the next header belong to that one."""
        last = max((n for n, entry in enumerate(self._headers) if entry.path[: len(path)] == path), default=None)
        if not path or last is None or last + 1 == len(self._headers):
            return len(self.text)
        return self._block_of(self._headers[last + 1])

    def start_of(self, path: Path) -> int:
        """Return the position before the first section of a table, and before the comments directly above it."""
        return self._block_of(next(entry for entry in self._headers if entry.path[: len(path)] == path))

    def without_statement(self, entry: Entry) -> str:
        """Return the text without a statement. Its comments stay on separate lines."""
        start, end = self._line_start(entry.start), self._line_end(entry.end)
        match = _REST_OF_LINE.match(self.text, entry.end)
        newline = match[2] if match else ""
        comments = comments_in(self.text[entry.start : end])
        kept = "".join(f"{self._indent(entry)}{comment}{newline or self._newline}" for comment in comments)
        text = self.text[:start] + kept + self.text[end:]
        return text if newline else text.removesuffix("\n").removesuffix("\r")

    def with_comments(self, text: str, entry: Entry, comments: Sequence[str]) -> str:
        """Return ``text`` with comments above the statement that contains an entry.

        Args:
            text: The text, changed after the start of that statement.
            entry: An entry of the unchanged text.
            comments: The comments.
        """
        around = [
            one
            for one in self.entries
            if self.is_statement(one) and one.start <= entry.start < max(one.end, one.start + 1)
        ]
        start = self._line_start(around[-1].start)
        lines = [f"{self._indent(around[-1])}{comment}{self._newline}" for comment in comments]
        return text[:start] + "".join(lines) + text[start:]

    def _insert(self, position: int, lines: Sequence[str]) -> str:
        text = self.text
        added = self._newline.join(lines)
        if position == len(text) and text and not text.endswith("\n"):
            return text + self._newline + added
        return text[:position] + added + self._newline + text[position:]

    def _gap_after(self, position: int) -> list[str]:
        """Return the blank line to insert before the text after a position, if it is missing."""
        rest = self.text[position:]
        return [""] if rest and not re.match(r"[ \t]*\r?\n", rest) else []

    def _room(self, position: int) -> int:
        """Return the position before the last of two blank lines. Removing a section leaves them behind."""
        match = re.search(r"(?:^|\n)[ \t]*\r?\n(?P<last>[ \t]*\r?\n)$", self.text[:position])
        return position if match is None or position == len(self.text) else match.start("last")

    def _block_of(self, header: Entry) -> int:
        """Return the start of the comments directly above a header. Without comments, return the header's line."""
        before = [entry for entry in self.entries if entry.start < header.start]
        limit = self._line_end(max(entry.end for entry in before)) if before else 0
        start = self._line_start(header.start)
        while start > limit:
            above = self._line_start(start - 1)
            if not self.text[above:start].lstrip(" \t").startswith("#"):
                break
            start = above
        return start

    def _indent(self, entry: Entry) -> str:
        line = self.text[self._line_start(entry.start) : entry.start]
        return line if not line.strip() else ""

    def _line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def _line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end + 1
