"""Edits of TOML texts. Everything but the edited key is kept, byte for byte: comments, blank lines, order, quotes, line ends.

tomlkit writes the new values, but the positions come from :mod:`codex_framework.config.toml_positions`: tomlkit changes white
space in arrays, and inserts some keys at a wrong place.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.config.editing.layout import Layout, comments_in, newline_of
from codex_framework.config.editing.toml_format import key_text, section_lines, value_text
from codex_framework.config.toml_positions import Entry, Path, entries_of

__all__ = ["NotATableError", "same", "with_value", "without_key"]

_MISSING = object()

_BLANKS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_LINE_END = re.compile(r"[ \t]*(?:#[^\r\n]*)?(\r?\n)")


class NotATableError(Exception):
    """A parent of the key is not a table.

    Attributes:
        path: The parent.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def with_value(text: str, key: Sequence[str | int], value: Any) -> str:
    """Return the text with one key set.

    A table is merged into an existing one: entries that the new table lacks are removed, equal entries are unchanged. The same
    applies to the elements of arrays. Comments within a removed value are kept above it.

    Args:
        text: A valid TOML document.
        key: The key's segments. Integers are positions in arrays.
        value: Any value that TOML supports.

    Raises:
        NotATableError: A parent of the key is not a table.
    """
    path = tuple(key)
    old = _value_at(text, path)
    if old is not _MISSING and same(old, value):
        return text
    if isinstance(old, Mapping) and isinstance(value, Mapping):
        return _with_table(text, path, old, value)
    layout = Layout(text)
    if isinstance(old, list) and isinstance(value, list):
        if layout.entry(path) is not None:
            return _with_list(text, path, old, value)
        if value and all(isinstance(part, Mapping) for part in value):
            return _with_sections(text, path, old, value)
    entry = layout.entry(path)
    if entry is not None:
        return _replace_value(layout, entry, value)
    return _add_key(text if old is _MISSING else without_key(text, path), path, value, newline_of(text))


def without_key(text: str, key: Sequence[str | int]) -> str:
    """Return the text without one key, or without a table and all its entries. Comments and blank lines stay.

    Args:
        text: A valid TOML document.
        key: The key's segments. Integers are positions in arrays.
    """
    path = tuple(key)
    while True:
        layout = Layout(text)
        found = [entry for entry in layout.entries if entry.path[: len(path)] == path]
        statements = [entry for entry in found if layout.is_statement(entry)]
        if statements:
            text = layout.without_statement(statements[-1])
            continue
        inner = [entry for entry in found if len(entry.table) < len(path)]
        if not inner:
            return text
        if inner[-1].kind == "element":
            return _without_element(text, inner[-1])
        text = _without_member(layout, inner[-1])


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same for TOML, which distinguishes ``1``, ``1.0`` and ``true``."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # not a number


def _value_at(text: str, path: Path) -> Any:
    value: Any = tomllib.loads(text)
    for position, part in enumerate(path):
        if isinstance(part, int) and isinstance(value, list):
            value = value[part] if part < len(value) else _MISSING
        elif isinstance(value, Mapping):
            value = value.get(part, _MISSING)
        else:
            raise NotATableError(path[:position])
        if value is _MISSING:
            break
    return value


def _with_table(text: str, path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    newline = newline_of(text)
    for name, part in new.items():
        text = with_value(text, (*path, name), part)
    for name in old:
        if name not in new:
            text = without_key(text, (*path, name))
    # A table that consists of dotted keys disappears with its last key.
    return text if new or _value_at(text, path) is not _MISSING else _add_key(text, path, {}, newline)


def _with_list(text: str, path: Path, old: Sequence[Any], new: Sequence[Any]) -> str:
    """Change the elements of an array that differ, from the last to the first."""
    matcher = difflib.SequenceMatcher(None, [*map(value_text, old)], [*map(value_text, new)], autojunk=False)
    for tag, start, end, new_start, new_end in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        both = min(end - start, new_end - new_start)
        for index in reversed(range(start + both, end)):
            text = without_key(text, (*path, index))
        for offset in range(both, new_end - new_start):
            text = _with_element(text, path, start + offset, value_text(new[new_start + offset]))
        for offset in range(both):
            text = with_value(text, (*path, start + offset), new[new_start + offset])
    return text


def _with_sections(text: str, path: Path, old: Sequence[Any], new: Sequence[Mapping[str, Any]]) -> str:
    """Change an array of tables with headers."""
    for index in reversed(range(len(new), len(old))):
        text = without_key(text, (*path, index))
    for index, part in enumerate(new):
        if index < len(old):
            text = with_value(text, (*path, index), part)
        else:
            layout = Layout(text)
            text = layout.with_section(layout.end_of(path), section_lines(path, part, is_element=True))
    return text


def _replace_value(layout: Layout, entry: Entry, value: Any) -> str:
    text = layout.text
    old = text[entry.value : entry.end]
    text = text[: entry.value] + value_text(value, old) + text[entry.end :]
    return layout.with_comments(text, entry, comments_in(old))


def _add_key(text: str, path: Path, value: Any, newline: str) -> str:
    """Add a key that does not exist, in the style of the table that it belongs to."""
    layout = Layout(text, newline)
    known = _known_part(text, path)
    inline = layout.inline_table(known)
    if inline is not None:
        return _with_member(layout, inline, f"{key_text(path[len(inline.path) :])} = {value_text(value)}")
    dotted = layout.last_dotted_pair(known)
    if dotted is not None:
        pair = f"{key_text(path[len(dotted.table) :])} = {value_text(value)}"
        return layout.with_pair_after(dotted, pair)
    is_table = isinstance(value, Mapping)
    if not is_table and known == path[:-1] and layout.has_section(known):
        return layout.with_pair(known, f"{key_text(path[-1:])} = {value_text(value)}")
    header, table = (path, value) if is_table else (path[:-1], {str(path[-1]): value})
    is_implicit = header == known
    position = layout.start_of(known) if is_implicit else layout.end_of(known)
    return layout.with_section(position, section_lines(header, table))


def _known_part(text: str, path: Path) -> Path:
    """Return the path of the nearest table around a key.

    Raises:
        NotATableError: There is a value of another kind.
    """
    value: Any = tomllib.loads(text)
    for position, part in enumerate(path[:-1]):
        value = value[part] if isinstance(part, int) else value.get(part, _MISSING)
        if value is _MISSING:
            return path[:position]
        if not isinstance(value, Mapping) and not isinstance(path[position + 1], int):
            raise NotATableError(path[: position + 1])
    return path[:-1]


def _with_member(layout: Layout, table: Entry, member: str) -> str:
    text = layout.text
    members = [entry for entry in layout.entries if entry.kind == "pair" and entry.table == table.path]
    if members:
        return f"{text[: members[-1].end]}, {member}{text[members[-1].end :]}"
    return f"{text[: table.value]}{{ {member} }}{text[table.end :]}"


def _without_member(layout: Layout, member: Entry) -> str:
    """Remove a member of an inline table with its comma."""
    text = layout.text
    members = [entry for entry in layout.entries if entry.kind == "pair" and entry.table == member.table]
    place = members.index(member)
    if place + 1 < len(members):
        start, end = member.start, members[place + 1].start
    elif place:
        start, end = members[place - 1].end, member.end
    else:
        start, end = member.start, member.end + len(_spaces(text, member.end))
    return layout.with_comments(text[:start] + text[end:], member, comments_in(text[start:end]))


def _spaces(text: str, position: int) -> str:
    match = re.compile(r"[ \t]*").match(text, position)
    return match[0] if match else ""


def _with_element(text: str, array: Path, index: int, element: str) -> str:
    """Return the text with an element inserted.

    Args:
        text: A valid TOML document.
        array: The path of the array, which is a value in brackets.
        index: The position of the new element.
        element: The element in TOML notation.
    """
    entries = entries_of(text)
    if index == 0:
        whole = next(entry for entry in entries if entry.path == array and entry.kind != "header")
        start = whole.value + 1
        is_empty = all(entry.table != array or entry.kind != "element" for entry in entries)
        return f"{text[:start]}{element}{'' if is_empty else ', '}{text[start:]}"
    before = next(entry for entry in entries if entry.path == (*array, index - 1))
    comma = _comma(text, before.end)
    indent = text[text.rfind("\n", 0, before.start) + 1 : before.start]
    line = _LINE_END.match(text, before.end if comma is None else comma + 1)
    if line is None or indent.strip():
        return f"{text[: before.end]}, {element}{text[before.end :]}"
    place = line.end()
    if comma is None:  # the old last element gets a comma, and the new one none
        return f"{text[: before.end]},{text[before.end : place]}{indent}{element}{line[1]}{text[place:]}"
    return f"{text[:place]}{indent}{element},{line[1]}{text[place:]}"


def _without_element(text: str, element: Entry) -> str:
    """Return the text without one element of an array, and without its comma."""
    comma = _comma(text, element.end)
    left, right = text[: element.start], text[element.end :]
    if comma is not None:
        right = text[element.end : comma] + text[comma + 1 :]
    elif isinstance(element.path[-1], int) and element.path[-1] > 0:
        left = _without_last_comma(text, element)
    comments = comments_in(text[element.start : element.end])
    right = "".join(f"{comment}{newline_of(text)}" for comment in comments) + right
    return _join_parts(left, right)


def _without_last_comma(text: str, element: Entry) -> str:
    """Return the text before the last element, without the comma that separated it."""
    path = (*element.table, int(element.path[-1]) - 1)
    before = next(entry for entry in entries_of(text) if entry.path == path)
    comma = _comma(text, before.end)
    left = text[: element.start]
    return left if comma is None else (left[:comma] + left[comma + 1 :]).rstrip(" \t")


def _join_parts(left: str, right: str) -> str:
    """Join the parts around a removed element. A line that is empty without it goes away."""
    rest = re.match(r"[ \t]*\r?\n", right)
    indent = left[left.rfind("\n") + 1 :]
    if rest and not indent.strip():
        return left[: len(left) - len(indent)] + right[rest.end() :]
    return left + right.lstrip(" \t")


def _comma(text: str, position: int) -> int | None:
    """Return the offset of the comma after an element, or None."""
    match = _BLANKS.match(text, position)
    end = match.end() if match else position
    return end if text.startswith(",", end) else None
