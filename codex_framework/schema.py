"""Shapes: what a tool's arguments look like. A shape gives its JSON Schema and reads JSON data of that form.

Schema and reader are one object, so they cannot drift apart: what the schema allows is what a call may send. Reading does not
stop at the first thing that does not fit; all of it is told to the model at once, each with its path.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from codex_framework.value import Value

__all__ = [
    "Anything",
    "Array",
    "Choice",
    "Converted",
    "Either",
    "Field",
    "Number",
    "Record",
    "Shape",
    "Simple",
    "Table",
]

_SHOWN = 60
"""Longest piece of a wrong value that is quoted back, in characters."""


class Shape(Protocol):
    """A form of JSON data."""

    @property
    def noun(self) -> str:
        """What it is, with its article: ``a string``."""
        ...

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Its JSON Schema.

        Raises:
            TypeError: ``strict`` is asked for, and the strict subset cannot say it.
        """
        ...

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """The Python value. Adds a line to ``problems`` for whatever does not fit; the result is then meaningless."""
        ...


class Simple(Value):
    """A string or a boolean."""

    kind: type
    noun: str

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        del strict
        return {"type": "string" if self.kind is str else "boolean"}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        if isinstance(value, self.kind):
            return value
        return _wrong(self, value, where, problems)


class Number(Value):
    """An integer, or any finite number. ``2.0`` is an integer, as JSON Schema has it."""

    whole: bool

    @property
    def noun(self) -> str:
        """See :class:`Shape`."""
        return "an integer" if self.whole else "a number"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        del strict
        return {"type": "integer" if self.whole else "number"}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return _wrong(self, value, where, problems)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if self.whole:
            return (
                value
                if isinstance(value, int)
                else int(value)
                if number.is_integer()
                else _wrong(self, value, where, problems)
            )
        return number if math.isfinite(number) else _wrong(self, value, where, problems)


class Anything(Value):
    """Any JSON data, taken as it is."""

    noun: str = "any JSON value"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        if strict:
            raise TypeError("a value of any type cannot be described strictly")
        return {}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        del where, problems
        return value


class Choice(Value):
    """One of some values. ``members`` maps what stands in JSON to the Python value, as pairs."""

    members: tuple[tuple[Any, Any], ...]

    @property
    def noun(self) -> str:
        """See :class:`Shape`."""
        shown = [_json(wire) for wire, _ in self.members]
        return shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        del strict
        wires = [wire for wire, _ in self.members]
        kinds = list(dict.fromkeys(_kind(wire) for wire in wires))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": wires}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        for wire, member in self.members:
            if wire == value and isinstance(wire, bool) is isinstance(value, bool):
                return member
        return _wrong(self, value, where, problems)


class Either(Value):
    """Any of several shapes; the first that fits counts. ``None`` among them is JSON's null."""

    shapes: tuple[Shape | None, ...]

    @property
    def noun(self) -> str:
        """See :class:`Shape`."""
        return " or ".join("null" if shape is None else shape.noun for shape in self.shapes)

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        parts = [{"type": "null"} if shape is None else shape.schema(strict=strict) for shape in self.shapes]
        if all(part.keys() == {"type"} and isinstance(part["type"], str) for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        nearest: list[str] = []
        for shape in self.shapes:
            if shape is None:
                if value is None:
                    return None
                continue
            found: list[str] = []
            result = shape.read(value, where, found)
            if not found:
                return result
            if isinstance(shape, (Record, Table, Array)) and not found[0].endswith(_got(value)):
                nearest = nearest or found  # it is of this kind, and wrong inside: that is what helps
        if nearest:
            problems += nearest
            return None
        return _wrong(self, value, where, problems)


class Array(Value):
    """A list of one shape. ``make`` turns the list into the Python value (``tuple``, ``set``, ...)."""

    item: Shape
    make: Callable[[list[Any]], Any] = list
    noun: str = "an array"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        return {"type": "array", "items": self.item.schema(strict=strict)}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        if not isinstance(value, list):
            return _wrong(self, value, where, problems)
        before = len(problems)
        items = [self.item.read(part, f"{where}[{place}]", problems) for place, part in enumerate(value)]
        return self.make(items) if len(problems) == before else None


class Table(Value):
    """An object with any keys and values of one shape."""

    value: Shape
    noun: str = "an object"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        if strict:
            raise TypeError("an object with free keys cannot be described strictly")
        return {"type": "object", "additionalProperties": self.value.schema(strict=strict) or True}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        if not isinstance(value, Mapping):
            return _wrong(self, value, where, problems)
        return {key: self.value.read(part, _below(where, key), problems) for key, part in value.items()}


class Converted(Value):
    """A shape whose value is turned into another one (a string into a ``Path``)."""

    inner: Shape
    make: Callable[[Any], Any]

    @property
    def noun(self) -> str:
        """See :class:`Shape`."""
        return self.inner.noun

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        return self.inner.schema(strict=strict)

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        before = len(problems)
        result = self.inner.read(value, where, problems)
        return self.make(result) if len(problems) == before else None


class Field(Value, kw_only=True):
    """A property of a record.

    Attributes:
        name: As it stands in JSON.
        required: Whether it has no default.
        default: The default where it can be shown to the model, else None.
        null_is_default: Whether None is the default, so that leaving the property out says the same as null.
    """

    name: str
    shape: Shape
    required: bool = True
    default: Any = None
    null_is_default: bool = False
    description: str = ""

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Its JSON Schema. In the strict subset every property is required, and null stands for the default."""
        schema = self._advertised(strict=strict).schema(strict=strict)
        if self.description:
            schema["description"] = self.description
        if self.default is not None and not strict:
            schema["default"] = self.default
        return schema

    def takes_null(self) -> bool:
        """Whether null is a value of its own here."""
        return _takes_null(self.shape)

    def _advertised(self, *, strict: bool) -> Shape:
        if strict:
            return self.shape if self.required or self.takes_null() else Either((self.shape, None))
        if self.null_is_default and isinstance(self.shape, Either):
            # Leaving an optional property out is plainer for a model than sending null, so null is taken, not advertised.
            rest = tuple(shape for shape in self.shape.shapes if shape is not None)
            return rest[0] if len(rest) == 1 and rest[0] is not None else Either(rest)
        return self.shape


def _takes_null(shape: Shape | None) -> bool:
    match shape:
        case None | Anything():
            return True
        case Either(shapes):
            return any(_takes_null(part) for part in shapes)
        case Choice(members):
            return any(wire is None for wire, _ in members)
        case _:
            return False


class Record(Value):
    """An object with known properties. ``make`` is called with those that were sent, as keywords."""

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    noun: str = "an object"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`Shape`."""
        return {
            "type": "object",
            "properties": {field.name: field.schema(strict=strict) for field in self.fields},
            "required": [field.name for field in self.fields if field.required or strict],
            "additionalProperties": False,
        }

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`Shape`."""
        if not isinstance(value, Mapping):
            return _wrong(self, value, where, problems)
        before = len(problems)
        found: dict[str, Any] = {}
        for field in self.fields:
            place = _below(where, field.name)
            if field.name not in value:
                if field.required:
                    problems.append(f"{place}: missing; expected {field.shape.noun}")
            elif field.required or value[field.name] is not None or field.takes_null():
                found[field.name] = field.shape.read(value[field.name], place, problems)
        self._note_unknown(value, where, problems)
        if len(problems) > before:
            return None
        try:
            return self.make(**found)
        except (ValueError, TypeError) as error:  # a validator of the author's class has the last word
            problems.append(_at(where, str(error)))
            return None

    def _note_unknown(self, value: Iterable[str], where: str, problems: list[str]) -> None:
        names = [field.name for field in self.fields]
        for key in value:
            if key not in names:
                import difflib

                near = difflib.get_close_matches(key, names, n=1)
                known = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
                problems.append(f"{_below(where, key)}: unknown; {known}")


def _wrong(shape: Shape, value: Any, where: str, problems: list[str]) -> None:
    problems.append(_at(where, f"expected {shape.noun}, {_got(value)}"))


def _at(where: str, fact: str) -> str:
    return f"{where}: {fact}" if where else fact


def _got(value: Any) -> str:
    if isinstance(value, list):
        return "got an array"
    if isinstance(value, Mapping):
        return "got an object"
    shown = _json(value)
    return f"got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _below(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return kinds[type(value.value if isinstance(value, enum.Enum) else value)]
