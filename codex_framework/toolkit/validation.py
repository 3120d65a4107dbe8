"""Checks that the fields of a value have their annotated classes. Type checkers find most mistakes, but not every author runs one."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, Union

from codex_framework.contract.value import Value, fields_of
from codex_framework.toolkit.faults import WrongValue, check_type, kind_of

__all__ = ["type_error", "validate"]

T = TypeVar("T")

_LONGEST = 60
"""Number of characters of a wrong value that are shown."""


def validate(value: object, kind: type[T], who: str, source: Any = None, *, previous: object = None) -> T:
    """Return ``value`` if it is a ``kind`` and its fields have the right classes.

    Args:
        source: The method that returned it.
        previous: As for :func:`type_error`.

    Raises:
        WrongValue: The class or a field is wrong. The text names ``who`` returned it.
    """
    found = check_type(value, kind, who, source)
    if isinstance(found, Value) and found is not previous and (problem := type_error(found, previous)):
        hint = "Set the field to a value of this class."
        raise WrongValue(f"{who} returned a {type(found).__name__} that is wrong: {problem}", source, hint=hint)
    return found


def type_error(value: Value, previous: object = None) -> str:
    """Return the type errors in the fields of a value, or an empty string.

    Args:
        previous: A value of the same class with correct fields. Only the fields that differ from it are checked.

    Returns:
        A clause such as ``its `items` is 'hello', not tuple[UserInputItem, ...]``.
    """
    kind: Any = type(value)
    for name, (hint, text) in _hints(kind).items():
        given = getattr(value, name, None)
        if previous is not None and type(previous) is type(value) and getattr(previous, name, None) is given:
            continue
        problem = _problem(given, hint)
        if problem is not None:
            if not problem:
                return f"its `{name}` is {_value_text(given)}, not {text}"
            return f"its `{name}`: {problem}" if problem.startswith("its ") else f"its `{name}` {problem}"
    return ""


def _problem(value: object, hint: Any) -> str | None:
    """Return None if a value fits, ``""`` if it does not, or a clause about a part of it."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        problems = [_problem(value, part) for part in typing.get_args(hint)]
        return None if None in problems else next(filter(None, problems), "")
    if origin is Literal:
        return None if value in typing.get_args(hint) else ""
    if origin in (tuple, Sequence, Mapping):
        return _element_problem(value, origin, typing.get_args(hint))
    kind = origin or hint
    if kind is None or kind is types.NoneType:
        return None if value is None else ""
    if kind is float:
        kind = (int, float)
    if kind is Any or not isinstance(kind, (type, tuple)) or getattr(kind, "_is_protocol", False):
        return None  # Any, a type variable, a protocol: these cannot be checked
    if not isinstance(value, kind):
        return ""
    return (type_error(value) or None) if isinstance(value, Value) else None


def _element_problem(value: object, origin: Any, arguments: tuple[Any, ...]) -> str | None:
    if origin is Mapping:
        return None if isinstance(value, Mapping) else ""
    if isinstance(value, (str, bytes)) or not isinstance(value, (tuple, list)):
        return (
            None if origin is Sequence and isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else ""
        )
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        return None
    for at, part in enumerate(value):
        problem = _problem(part, arguments[0])
        if problem is not None:
            return f"has {_value_text(part)} at index {at}" if not problem else f"has a value at index {at}: {problem}"
    return None


@cache
def _hints(kind: type[Any]) -> Mapping[str, tuple[Any, str]]:
    """Return the annotations of a class, each with its text. If they cannot be read, the result is empty."""
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # a name that only type checkers know
        return {}
    texts: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        texts.update(inspect.get_annotations(owner))
    return {each.name: (hints[each.name], str(texts.get(each.name))) for each in fields_of(kind) if each.name in hints}


def _value_text(value: object) -> str:
    if value is None or isinstance(value, (str, int, float, bool)):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return kind_of(value)
