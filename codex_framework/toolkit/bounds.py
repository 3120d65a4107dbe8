"""Bounds of tool arguments: the metadata of ``Annotated`` other than a description.

Bounds are recognised by their attributes, so annotated-types, pydantic and msgspec all work, and none of these libraries
is required or imported. The attributes are ``gt``, ``ge``, ``lt``, ``le``, ``multiple_of``, ``min_length``, ``max_length``,
``pattern`` (a compiled regular expression has it too) and ``func`` of a predicate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from codex_framework.contract.value import Value
from codex_framework.toolkit.arguments import Argument, noun, wrong_value
from codex_framework.toolkit.text_types import Text

__all__ = ["KNOWN_BOUNDS", "add_bounds", "bounds_of"]


class _Kind(NamedTuple):
    """One kind of bound.

    Attributes:
        words: Expresses it in a description or an error.
        holds: Returns whether it is met, given the bound, the JSON value and the Python value.
        keywords: The keyword of JSON Schema for each family of types that has the bound. If it is empty, the bound is expressed
            in words.
    """

    words: str
    holds: Callable[[Any, Any, Any], bool]
    keywords: Mapping[str, str]


def _is_multiple(number: Any, step: Any) -> bool:
    quotient = number / step
    return bool(abs(quotient - round(quotient)) < 1e-9)  # 0.3 is a multiple of 0.1


_KINDS: Mapping[str, _Kind] = {
    "ge": _Kind("at least {}", lambda bound, _, value: value >= bound, {"number": "minimum", "text": ""}),
    "gt": _Kind("more than {}", lambda bound, _, value: value > bound, {"number": "exclusiveMinimum", "text": ""}),
    "le": _Kind("at most {}", lambda bound, _, value: value <= bound, {"number": "maximum", "text": ""}),
    "lt": _Kind("less than {}", lambda bound, _, value: value < bound, {"number": "exclusiveMaximum", "text": ""}),
    "multiple_of": _Kind(
        "a multiple of {}", lambda bound, _, value: _is_multiple(value, bound), {"number": "multipleOf", "text": ""}
    ),
    "min_length": _Kind(
        "at least {} {}",
        lambda bound, wire, _: len(wire) >= bound,
        {"string": "minLength", "array": "minItems", "object": "minProperties"},
    ),
    "max_length": _Kind(
        "at most {} {}",
        lambda bound, wire, _: len(wire) <= bound,
        {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
    ),
    "pattern": _Kind(
        "matching {}",
        lambda bound, wire, _: isinstance(wire, str) and bound.search(wire) is not None,
        {"string": "pattern", "text": ""},
    ),
    "func": _Kind(
        "that passes {}",
        lambda bound, _, value: bool(bound(value)),
        dict.fromkeys(("number", "string", "array", "object", "text"), ""),
    ),
}
KNOWN_BOUNDS = _KINDS.keys()
"""The attributes that bounds have."""

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
                if name.endswith("_length"):
                    raise ValueError(f"expected {self._expectation()}, got {len(value)} {_UNITS[_family(self.row)]}")
                raise wrong_value(self._expectation(), value)
        return result

    def _expectation(self) -> str:
        return f"{_noun(self.row)} ({', '.join(_phrase(self.row, *bound) for bound in self.bounds)})"


def _noun(row: Argument) -> str:
    convert = _unwrap(row.convert)
    if isinstance(convert, Text):
        return convert.noun
    return "an integer" if row.kind == "integer" else _NOUNS[_family(row)]


def _phrase(row: Argument, name: str, value: Any) -> str:
    shown = getattr(value, "pattern", value) if name == "pattern" else value
    unit = _UNITS.get(_family(row), "")
    return _KINDS[name].words.format(getattr(shown, "__name__", shown) if name == "func" else shown, unit)


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
    for name in _KINDS:
        value = getattr(extra, name, None)
        if value is None or (name.endswith("_length") and value == 0) or callable(value) is not (name == "func"):
            continue  # a method of that name is not a bound
        yield name, re.compile(value) if name == "pattern" else value


def add_bounds(row: Argument, bounds: Sequence[tuple[str, Any]]) -> Argument:
    """Return a row with bounds. A bound of a union applies to the types that support it.

    Raises:
        TypeError: No type supports the bound; the message is a clause about it.
    """
    parts = row.any_of if row.kind == "union" else (row,)
    for name, value in bounds:
        if not any(_family(part) in _KINDS[name].keywords for part in parts):
            raise TypeError(f"the bound {name}={value!r} does not fit {noun(row)}")
    if row.kind == "union":
        return row._replace(any_of=tuple(_add_supported_bounds(part, bounds) for part in parts))
    return _add_supported_bounds(row, bounds)


def _add_supported_bounds(row: Argument, bounds: Sequence[tuple[str, Any]]) -> Argument:
    """Return a row with the bounds that it supports. A bound that JSON Schema cannot express is in its description."""
    family = _family(row)
    bounds = tuple((name, value) for name, value in bounds if family in _KINDS[name].keywords)
    if not bounds:
        return row
    schema = dict(row.schema)
    sentence = []
    for name, value in bounds:
        keyword = _KINDS[name].keywords[family]
        if not keyword or keyword in schema or not _is_plain(value):
            sentence.append(_phrase(row, name, value))
        else:
            schema[keyword] = value.pattern if isinstance(value, re.Pattern) else value
    text = ", ".join(sentence)
    described = f"{row.description} {text[:1].upper()}{text[1:]}.".strip() if text else row.description
    return row._replace(schema=schema, description=described, convert=_Bounded(row, bounds))


def _family(row: Argument) -> str:
    if isinstance(_unwrap(row.convert), Text):
        return "text"
    return "" if row.choices else _FAMILIES.get(row.kind, "")


def _unwrap(convert: Any) -> Any:
    while isinstance(convert, _Bounded):
        convert = convert.row.convert
    return convert


def _is_plain(value: Any) -> bool:
    """Return whether a bound has the same meaning in JSON Schema."""
    if isinstance(value, re.Pattern):
        return value.flags == re.UNICODE
    return isinstance(value, (int, float))


def _holds(name: str, bound: Any, wire: Any, value: Any) -> bool:
    """Return whether a bound is met. Lengths and patterns apply to the JSON value, other bounds to the Python value."""
    try:
        return _KINDS[name].holds(bound, wire, value)
    except (TypeError, ValueError, ArithmeticError):  # such as a time without a zone, if the bound has one
        return False
