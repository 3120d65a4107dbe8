"""Edits of the elements of a TOML array. Comments and line breaks between them stay."""

from __future__ import annotations

import re

from codex_framework.config.layout import comments_in, newline_of
from codex_framework.config.statements import Entry, Path, entries_of

__all__ = ["with_element", "without_element"]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\r\n]*)?(\r?\n)")


def with_element(text: str, array: Path, index: int, element: str) -> str:
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
    line = _REST_OF_LINE.match(text, before.end if comma is None else comma + 1)
    if line is None or indent.strip():
        return f"{text[: before.end]}, {element}{text[before.end :]}"
    place = line.end()
    if comma is None:  # the old last element gets a comma, and the new one none
        return f"{text[: before.end]},{text[before.end : place]}{indent}{element}{line[1]}{text[place:]}"
    return f"{text[:place]}{indent}{element},{line[1]}{text[place:]}"


def without_element(text: str, element: Entry) -> str:
    """Return the text without one element of an array, and without its comma."""
    comma = _comma(text, element.end)
    left, right = text[: element.start], text[element.end :]
    if comma is not None:
        right = text[element.end : comma] + text[comma + 1 :]
    elif isinstance(element.path[-1], int) and element.path[-1] > 0:
        left = _without_last_comma(text, element)
    comments = comments_in(text[element.start : element.end])
    right = "".join(f"{comment}{newline_of(text)}" for comment in comments) + right
    return _joined(left, right)


def _without_last_comma(text: str, element: Entry) -> str:
    """Return the text before the last element, without the comma that separated it."""
    path = (*element.table, int(element.path[-1]) - 1)
    before = next(entry for entry in entries_of(text) if entry.path == path)
    comma = _comma(text, before.end)
    left = text[: element.start]
    return left if comma is None else (left[:comma] + left[comma + 1 :]).rstrip(" \t")


def _joined(left: str, right: str) -> str:
    """Join the parts around a removed element. A line that is empty without it goes away."""
    rest = re.match(r"[ \t]*\r?\n", right)
    indent = left[left.rfind("\n") + 1 :]
    if rest and not indent.strip():
        return left[: len(left) - len(indent)] + right[rest.end() :]
    return left + right.lstrip(" \t")


def _comma(text: str, position: int) -> int | None:
    """Return the offset of the comma after an element, or None if there is none."""
    match = _BLANK.match(text, position)
    end = match.end() if match else position
    return end if text.startswith(",", end) else None
