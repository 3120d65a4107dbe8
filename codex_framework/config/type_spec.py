"""The schema's notation of types: checks of values against types, and descriptions for messages."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Mismatch", "describe_type", "describe_value", "find_mismatch"]


class Mismatch:
    """A value that does not match its type.

    This is a plain class, because the module is imported at every start and a generated class would slow that down.

    Attributes:
        path: The position within the checked value.
        value: The value.
        kind: The expected type.
    """

    __slots__ = ("kind", "path", "value")

    def __init__(self, path: tuple[str | int, ...], value: Any, kind: str) -> None:
        self.path = path
        self.value = value
        self.kind = kind


def find_mismatch(kind: str, value: Any) -> Mismatch | None:
    """Return the first part of a value that does not match a type, or None if the whole value matches."""
    test = _TESTS.get(kind)
    if test is not None:
        return None if test(value) else Mismatch((), value, kind)
    choices = _choices(kind)
    if len(choices) > 1:
        return _find_in_choices(kind, choices, value)
    if kind.startswith("list["):
        return _find_within(kind, enumerate(value) if isinstance(value, list) else None, kind[5:-1], value)
    if kind.startswith("map["):
        return _find_within(kind, value.items() if isinstance(value, Mapping) else None, kind[4:-1], value)
    if kind.startswith("int>="):
        return None if _is_int(value) and value >= int(kind[5:]) else Mismatch((), value, kind)
    return None if value == kind.strip('"') else Mismatch((), value, kind)


def describe_type(kind: str) -> str:
    """Describe a type in words."""
    if kind in _WORDS:
        return _WORDS[kind]
    choices = _choices(kind)
    if len(choices) > 1:
        words = [describe_type(choice) for choice in choices]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if kind.startswith("list["):
        return f"a list of {_PLURALS.get(kind[5:-1], 'entries')}"
    if kind.startswith("map["):
        return f"a table of {_PLURALS.get(kind[4:-1], 'entries')}"
    if kind.startswith("int>="):
        return f"an integer of at least {kind[5:]}"
    return kind


def describe_value(value: Any) -> str:
    """Describe a value with its kind, in TOML notation. Long values are shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return f"the string {text if len(text) <= 80 else text[:77] + '...'}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return f"the date or time {value}"


def _find_in_choices(kind: str, choices: tuple[str, ...], value: Any) -> Mismatch | None:
    problems = [find_mismatch(choice, value) for choice in choices]
    if None in problems:
        return None
    deeper = [problem for problem in problems if problem is not None and problem.path]
    return deeper[0] if deeper else Mismatch((), value, kind)


def _find_within(kind: str, entries: Any, inner: str, value: Any) -> Mismatch | None:
    if entries is None:
        return Mismatch((), value, kind)
    for name, part in entries:
        problem = find_mismatch(inner, part)
        if problem is not None:
            return Mismatch((name, *problem.path), problem.value, problem.kind)
    return None


@functools.cache
def _choices(kind: str) -> tuple[str, ...]:
    """Split ``A | B`` at bars outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(kind):
        depth += (char == "[") - (char == "]")
        if char == "|" and depth == 0:
            parts.append(kind[start:index].strip())
            start = index + 1
    return (*parts, kind[start:].strip())


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TESTS: dict[str, Callable[[Any], bool]] = {
    "any": lambda _: True,
    "str": lambda value: isinstance(value, str),
    "secret": lambda value: isinstance(value, str),
    "path": lambda value: isinstance(value, str),
    "folder": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": _is_int,
    "float": lambda value: _is_int(value) or isinstance(value, float),
    "table": lambda value: isinstance(value, Mapping),
    "profile": lambda value: isinstance(value, Mapping),
}

_WORDS = {
    "any": "anything",
    "str": "a string",
    "secret": "a string",
    "path": "a path (a string)",
    "folder": "a path (a string)",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "table": "a table",
    "profile": "a table",
}

_PLURALS = {
    "str": "strings",
    "secret": "strings",
    "path": "paths (strings)",
    "bool": "true and false",
    "table": "tables",
    "str | table": "strings or tables",
    '"include" | "exclude"': '"include" or "exclude"',
    "str | int | table": "strings, integers or tables",
}
