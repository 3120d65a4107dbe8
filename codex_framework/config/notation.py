"""The schema's notation of types: does a value fit, and how to say what was expected."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Misfit", "expected", "misfit", "shown"]


class Misfit:
    """A value that does not fit. A plain class: this module is imported at every start, and generated ones cost time.

    Attributes:
        path: Where within the checked value it stands.
        value: The value.
        kind: The type it should have.
    """

    __slots__ = ("kind", "path", "value")

    def __init__(self, path: tuple[str | int, ...], value: Any, kind: str) -> None:
        self.path = path
        self.value = value
        self.kind = kind


def misfit(kind: str, value: Any) -> Misfit | None:
    """The first part of a value that does not fit a type; None if all of it fits."""
    test = _TESTS.get(kind)
    if test is not None:
        return None if test(value) else Misfit((), value, kind)
    choices = _choices(kind)
    if len(choices) > 1:
        return _fits_none_of(kind, choices, value)
    if kind.startswith("list["):
        return _misfit_within(kind, enumerate(value) if isinstance(value, list) else None, kind[5:-1], value)
    if kind.startswith("map["):
        return _misfit_within(kind, value.items() if isinstance(value, Mapping) else None, kind[4:-1], value)
    if kind.startswith("int>="):
        return None if _is_int(value) and value >= int(kind[5:]) else Misfit((), value, kind)
    return None if value == kind.strip('"') else Misfit((), value, kind)


def expected(kind: str) -> str:
    """A type in words."""
    if kind in _WORDS:
        return _WORDS[kind]
    choices = _choices(kind)
    if len(choices) > 1:
        words = [expected(choice) for choice in choices]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if kind.startswith("list["):
        return f"a list of {_PLURALS.get(kind[5:-1], 'entries')}"
    if kind.startswith("map["):
        return f"a table of {_PLURALS.get(kind[4:-1], 'entries')}"
    if kind.startswith("int>="):
        return f"a whole number, {kind[5:]} or more"
    return kind


def shown(value: Any) -> str:
    """A value as TOML would write it, with what it is; long ones are cut."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return f"the text {text if len(text) <= 80 else text[:77] + '...'}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return f"the date or time {value}"


def _fits_none_of(kind: str, choices: tuple[str, ...], value: Any) -> Misfit | None:
    problems = [misfit(choice, value) for choice in choices]
    if None in problems:
        return None
    deeper = [problem for problem in problems if problem is not None and problem.path]
    return deeper[0] if deeper else Misfit((), value, kind)


def _misfit_within(kind: str, entries: Any, inner: str, value: Any) -> Misfit | None:
    if entries is None:
        return Misfit((), value, kind)
    for name, part in entries:
        problem = misfit(inner, part)
        if problem is not None:
            return Misfit((name, *problem.path), problem.value, problem.kind)
    return None


@functools.cache
def _choices(kind: str) -> tuple[str, ...]:
    """The parts of ``A | B`` that do not stand in brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(kind):
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and depth == 0:
            parts.append(kind[start:at].strip())
            start = at + 1
    return (*parts, kind[start:].strip())


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TESTS: dict[str, Callable[[Any], bool]] = {
    "any": lambda _: True,
    "str": lambda value: isinstance(value, str),
    "path": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": _is_int,
    "float": lambda value: _is_int(value) or isinstance(value, float),
    "table": lambda value: isinstance(value, Mapping),
    "profile": lambda value: isinstance(value, Mapping),
}

_WORDS = {
    "any": "anything",
    "str": "a text",
    "path": "a path (a text)",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "table": "a table",
    "profile": "a table",
}

_PLURALS = {
    "str": "texts",
    "path": "paths (texts)",
    "bool": "true and false",
    "table": "tables",
    "str | table": "texts or tables",
    "str | int | table": "texts, numbers or tables",
}
