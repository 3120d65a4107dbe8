"""Bounds of tool arguments: the metadata of ``Annotated`` other than a description.

Bounds are recognised by their attributes, so annotated-types, pydantic and msgspec all work, and none of these libraries
is required or imported. The attributes are ``gt``, ``ge``, ``lt``, ``le``, ``multiple_of``, ``min_length``, ``max_length``,
``pattern`` (a compiled regular expression has it too) and ``func`` of a predicate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from codex_framework.contract.value import Value
from codex_framework.toolkit.arguments import Argument, noun, wrong_value
from codex_framework.toolkit.text_types import Text

__all__ = ["KNOWN_BOUNDS", "bounded", "bounds_of"]

_ORDER = ("ge", "gt", "le", "lt")
_LENGTH = ("min_length", "max_length")
_NAMES = (*_ORDER, "multiple_of", *_LENGTH, "pattern", "func")
KNOWN_BOUNDS = frozenset(_NAMES)
"""The attributes that bounds have."""

_KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "number": {
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "lt": "exclusiveMaximum",
        "multiple_of": "multipleOf",
    },
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
    "text": {},
}
_FITS: Mapping[str, tuple[str, ...]] = {
    "number": (*_ORDER, "multiple_of", "func"),
    "string": (*_LENGTH, "pattern", "func"),
    "array": (*_LENGTH, "func"),
    "object": (*_LENGTH, "func"),
    "text": (*_ORDER, "multiple_of", "pattern", "func"),
}
_WORDS = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "lt": "less than {}",
    "multiple_of": "a multiple of {}",
    "pattern": "matching {}",
    "func": "that passes {}",
}
_FAMILIES = {"number": "number", "integer": "number", "string": "string", "list": "array", "map": "object"}
_NOUNS = {"number": "a number", "string": "a string", "array": "an array", "object": "an object"}
_UNITS = {"string": "characters", "array": "items", "object": "entries"}


class _Bounded(Value):
    """The conversion of a bounded value.

    Attributes:
        row: The row without its bounds.
        bounds: Names of ``_NAMES`` with their values, in the order in which they were given.
    """

    row: Argument
    bounds: tuple[tuple[str, Any], ...]

    def __call__(self, value: Any) -> Any:
        """Convert a value.

        Raises:
            ValueError: It is out of bounds.
        """
        result = value if self.row.convert is None else self.row.convert(value)
        for name, bound in self.bounds:
            if not _holds(name, bound, value, result):
                if name in _LENGTH:
                    raise ValueError(f"expected {self._expected()}, got {len(value)} {_UNITS[_family(self.row)]}")
                raise wrong_value(self._expected(), value)
        return result

    def _expected(self) -> str:
        return f"{_noun(self.row)} ({', '.join(_phrase(self.row, *bound) for bound in self.bounds)})"


def _noun(row: Argument) -> str:
    convert = _unbounded(row.convert)
    if isinstance(convert, Text):
        return convert.noun
    return "an integer" if row.kind == "integer" else _NOUNS[_family(row)]


def _phrase(row: Argument, name: str, value: Any) -> str:
    if name in _LENGTH:
        return f"{'at least' if name == 'min_length' else 'at most'} {value} {_UNITS[_family(row)]}"
    shown = getattr(value, "pattern", value) if name == "pattern" else value
    return _WORDS[name].format(getattr(shown, "__name__", shown) if name == "func" else shown)


def bounds_of(extras: Iterable[Any]) -> tuple[tuple[tuple[str, Any], ...], str]:
    """Return the bounds and the description in the metadata of ``Annotated``.

    Raises:
        TypeError: The metadata has an unsupported bound; the message is a clause about it.
    """
    bounds: list[tuple[str, Any]] = []
    description = ""
    for extra in extras:
        if isinstance(extra, str):
            description = description or extra
            continue
        inner, documented = bounds_of(_field_metadata(extra))
        text = getattr(extra, "documentation", None) or getattr(extra, "description", None) or documented
        description = description or (text if isinstance(text, str) else "")
        found = [*inner, *_own_bounds(extra)]
        if not found and type(extra).__module__.partition(".")[0] == "annotated_types" and not hasattr(extra, "unit"):
            raise TypeError(f"the bound {extra!r} is unsupported")
        bounds += found
    return tuple(bounds), description


def _field_metadata(extra: object) -> Iterable[Any]:
    """Return the bounds in a ``Field`` of pydantic.

    Raises:
        TypeError: The field specifies something that a parameter specifies in another way.
    """
    if type(extra).__name__ != "FieldInfo":
        return ()
    field: Any = extra
    if field.alias or not field.is_required():
        raise TypeError(
            "alias and default of a Field are unsupported; use the name and the default of the parameter instead"
        )
    metadata: Iterable[Any] = field.metadata
    return metadata


def _own_bounds(extra: object) -> Iterator[tuple[str, Any]]:
    if isinstance(extra, slice):  # annotated-types treats it as a length
        extra_bounds = {"min_length": extra.start, "max_length": extra.stop}
        yield from ((name, value) for name, value in extra_bounds.items() if value is not None)
        return
    if isinstance(extra, re.Pattern):
        yield "pattern", extra
        return
    for name in _NAMES:
        value = getattr(extra, name, None)
        if value is None or (name in _LENGTH and value == 0) or callable(value) is not (name == "func"):
            continue  # a method of that name is not a bound
        yield name, re.compile(value) if name == "pattern" else value


def bounded(row: Argument, bounds: Sequence[tuple[str, Any]]) -> Argument:
    """Return a row with bounds. A bound of a union applies to the types that support it.

    Raises:
        TypeError: No type supports the bound; the message is a clause about it.
    """
    parts = row.any_of if row.kind == "union" else (row,)
    for name, value in bounds:
        if not any(name in _FITS.get(_family(part), ()) for part in parts):
            raise TypeError(f"the bound {name}={value!r} does not fit {noun(row)}")
    if row.kind == "union":
        return row._replace(any_of=tuple(_fitted(part, bounds) for part in parts))
    return _fitted(row, bounds)


def _fitted(row: Argument, bounds: Sequence[tuple[str, Any]]) -> Argument:
    """Return a row with the bounds that it supports. A bound that JSON Schema cannot express is in its description."""
    family = _family(row)
    bounds = tuple((name, value) for name, value in bounds if name in _FITS.get(family, ()))
    if not bounds:
        return row
    schema = dict(row.schema)
    sentence = []
    for name, value in bounds:
        keyword = _KEYWORDS[family].get(name)
        if keyword is None or keyword in schema or not _is_plain(value):
            sentence.append(_phrase(row, name, value))
        else:
            schema[keyword] = value.pattern if isinstance(value, re.Pattern) else value
    text = ", ".join(sentence)
    described = f"{row.description} {text[:1].upper()}{text[1:]}.".strip() if text else row.description
    return row._replace(schema=schema, description=described, convert=_Bounded(row, bounds))


def _family(row: Argument) -> str:
    if isinstance(_unbounded(row.convert), Text):
        return "text"
    return "" if row.choices else _FAMILIES.get(row.kind, "")


def _unbounded(convert: Any) -> Any:
    while isinstance(convert, _Bounded):
        convert = convert.row.convert
    return convert


def _is_plain(value: Any) -> bool:
    """Return whether a bound has the same meaning in JSON Schema."""
    if isinstance(value, re.Pattern):
        return value.flags == re.UNICODE
    return isinstance(value, (int, float))


_CHECKS: Mapping[str, Callable[[Any, Any, Any], bool]] = {
    "ge": lambda bound, _, result: result >= bound,
    "gt": lambda bound, _, result: result > bound,
    "le": lambda bound, _, result: result <= bound,
    "lt": lambda bound, _, result: result < bound,
    "multiple_of": lambda bound, _, result: _is_multiple(result, bound),
    "min_length": lambda bound, value, _: len(value) >= bound,
    "max_length": lambda bound, value, _: len(value) <= bound,
    "pattern": lambda bound, value, _: isinstance(value, str) and bound.search(value) is not None,
    "func": lambda bound, _, result: bool(bound(result)),
}


def _holds(name: str, bound: Any, value: Any, result: Any) -> bool:
    """Return whether a bound holds. Lengths and patterns apply to the JSON value, other bounds to the Python value."""
    try:
        return _CHECKS[name](bound, value, result)
    except (TypeError, ValueError, ArithmeticError):  # such as a time without a zone, if the bound has one
        return False


def _is_multiple(number: Any, step: Any) -> bool:
    quotient = number / step
    return bool(abs(quotient - round(quotient)) < 1e-9)  # 0.3 is a multiple of 0.1
