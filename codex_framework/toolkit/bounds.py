"""Bounds of tool arguments: the metadata of ``Annotated`` other than a description.

Bounds are recognised by their attributes, so those of annotated-types, pydantic and msgspec all work, and none of these libraries
is required or imported. The attributes are ``gt``, ``ge``, ``lt``, ``le``, ``multiple_of``, ``min_length``, ``max_length``,
``pattern`` (a compiled regular expression has it too) and ``func`` of a predicate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from codex_framework.contract.value import Value
from codex_framework.toolkit.argument_types import (
    ArgumentType,
    Array,
    Converted,
    Either,
    Number,
    Simple,
    Table,
    mismatch,
)
from codex_framework.toolkit.text_types import Text

__all__ = ["KNOWN_BOUNDS", "Bounded", "bounded", "bounds_of"]

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
_NOT_STRICT = frozenset({"minLength", "maxLength", "minProperties", "maxProperties"})
"""Keywords outside of the strict subset of JSON Schema."""

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
_UNITS = {"string": "characters", "array": "items", "object": "entries"}


class Bounded(Value):
    """A type whose values are bounded.

    Attributes:
        inner: The type without its bounds.
        bounds: Names of ``_NAMES`` with their values, in the order in which they were given.
        description: The description for the model.
    """

    structured: ClassVar[bool] = True

    inner: ArgumentType
    bounds: tuple[tuple[str, Any], ...]
    description: str = ""

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`."""
        if not self.bounds:
            return self.inner.noun
        return f"{self.inner.noun} ({', '.join(self._phrase(*bound) for bound in self.bounds)})"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Return the JSON Schema. Bounds that it cannot express are in its description."""
        schema = self.inner.schema(strict=strict)
        unsaid = []
        for name, value in self.bounds:
            keyword = _KEYWORDS.get(_family(self.inner), {}).get(name)
            if keyword is None or keyword in schema or (strict and keyword in _NOT_STRICT) or not _is_plain(value):
                unsaid.append(self._phrase(name, value))
            else:
                schema[keyword] = value.pattern if isinstance(value, re.Pattern) else value
        text = ", ".join(unsaid)
        sentence = f"{text[:1].upper()}{text[1:]}." if unsaid else ""
        if description := " ".join(filter(None, (self.description, schema.get("description", ""), sentence))):
            schema["description"] = description
        return schema

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        before = len(problems)
        result = self.inner.read(value, where, problems)
        if len(problems) > before:
            return None
        for name, bound in self.bounds:
            if not _holds(name, bound, value, result):
                return self._outside(name, value, where, problems)
        return result

    def _outside(self, name: str, value: Any, where: str, problems: list[str]) -> None:
        if name not in _LENGTH:
            return mismatch(self, value, where, problems)
        fact = f"expected {self.noun}, got {len(value)} {_UNITS[_family(self.inner)]}"
        problems.append(f"{where}: {fact}" if where else fact)
        return None

    def _phrase(self, name: str, value: Any) -> str:
        if name in _LENGTH:
            return f"{'at least' if name == 'min_length' else 'at most'} {value} {_UNITS[_family(self.inner)]}"
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


def bounded(shape: ArgumentType, bounds: tuple[tuple[str, Any], ...], description: str = "") -> ArgumentType:
    """Return a type with bounds and a description. A bound of a union applies to those of its types that support it.

    Raises:
        TypeError: No type supports the bound; the message is a clause about it.
    """
    if not bounds:
        return Bounded(shape, (), description) if description else shape
    parts = shape.shapes if isinstance(shape, Either) else (shape,)
    families = {_family(part) for part in parts if part is not None}
    for name, value in bounds:
        if not any(name in _FITS.get(family, ()) for family in families):
            raise TypeError(f"the bound {name}={value!r} does not fit {shape.noun}")
    if not isinstance(shape, Either):
        return Bounded(shape, bounds, description)
    union = Either(tuple(None if part is None else _fitted(part, bounds) for part in parts))
    return Bounded(union, (), description) if description else union


def _fitted(shape: ArgumentType, bounds: tuple[tuple[str, Any], ...]) -> ArgumentType:
    fits = _FITS.get(_family(shape), ())
    own = tuple((name, value) for name, value in bounds if name in fits)
    return Bounded(shape, own) if own else shape


def _family(shape: ArgumentType) -> str:
    match shape:
        case Number():
            return "number"
        case Simple(kind) if kind is str:
            return "string"
        case Array():
            return "array"
        case Table():
            return "object"
        case Text():
            return "text"
        case Converted(inner):
            return _family(inner)
        case Bounded(inner):
            return _family(inner)
        case _:
            return ""


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
