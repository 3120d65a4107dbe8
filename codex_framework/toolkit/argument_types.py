"""Types of tool arguments. Each type has a JSON Schema and reads JSON data of this form.

Schema and reader belong to the same object, so they cannot drift apart: a call may send exactly what the schema allows.
Reading does not stop at the first problem. The model gets all problems at once, each with its path.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from codex_framework.contract.value import Value

__all__ = [
    "Anything",
    "ArgumentType",
    "Array",
    "Choice",
    "Converted",
    "Either",
    "Field",
    "Number",
    "Record",
    "Simple",
    "Table",
    "mismatch",
    "takes_null",
]

_SHOWN = 60
"""Maximum number of characters quoted of a wrong value."""


class ArgumentType(Protocol):
    """A form of JSON data."""

    @property
    def noun(self) -> str:
        """The name of the type with its article, such as ``a string``."""
        ...

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Return the JSON Schema.

        Raises:
            TypeError: ``strict`` is set, and the strict subset of JSON Schema cannot express this type.
        """
        ...

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """Convert a JSON value to the Python value.

        A line is added to ``problems`` for each mismatch. The result is then meaningless.
        """
        ...


class Simple(Value):
    """A string or a boolean."""

    kind: type
    noun: str

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        del strict
        return {"type": "string" if self.kind is str else "boolean"}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        if isinstance(value, self.kind):
            return value
        return mismatch(self, value, where, problems)


class Number(Value):
    """An integer, or any finite number. ``2.0`` is an integer, as in JSON Schema."""

    whole: bool

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`."""
        return "an integer" if self.whole else "a number"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        del strict
        return {"type": "integer" if self.whole else "number"}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return mismatch(self, value, where, problems)
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
                else mismatch(self, value, where, problems)
            )
        return number if math.isfinite(number) else mismatch(self, value, where, problems)


class Anything(Value):
    """Any JSON value, unchanged."""

    noun: str = "any JSON value"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        if strict:
            raise TypeError("a value of any type cannot be described in strict mode")
        return {}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        del where, problems
        return value


class Choice(Value):
    """One of several values. ``members`` contains pairs of the JSON value and the Python value."""

    members: tuple[tuple[Any, Any], ...]

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`."""
        shown = [_json(wire) for wire, _ in self.members]
        return shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        del strict
        wires = [wire for wire, _ in self.members]
        kinds = list(dict.fromkeys(_kind(wire) for wire in wires))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": wires}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        for wire, member in self.members:
            if wire == value and isinstance(wire, bool) is isinstance(value, bool):
                return member
        return mismatch(self, value, where, problems)


class Either(Value):
    """One of several types; the first match is used. ``None`` stands for JSON's null."""

    shapes: tuple[ArgumentType | None, ...]

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`."""
        return " or ".join("null" if shape is None else shape.noun for shape in self.shapes)

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        parts = [{"type": "null"} if shape is None else shape.schema(strict=strict) for shape in self.shapes]
        if all(part.keys() == {"type"} and isinstance(part["type"], str) for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
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
            if _is_structured(shape) and not found[0].endswith(_got(value)):
                nearest = (
                    nearest or found
                )  # the value has this type, and its problems are more helpful than the mismatch of the others
        if nearest:
            problems += nearest
            return None
        return mismatch(self, value, where, problems)


class Array(Value):
    """A list with items of one type. ``make`` converts the list to the Python value (``tuple``, ``set``, ...)."""

    item: ArgumentType
    make: Callable[[list[Any]], Any] = list
    noun: str = "an array"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        return {"type": "array", "items": self.item.schema(strict=strict)}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        if not isinstance(value, list):
            return mismatch(self, value, where, problems)
        before = len(problems)
        items = [self.item.read(part, f"{where}[{place}]", problems) for place, part in enumerate(value)]
        return self.make(items) if len(problems) == before else None


class Table(Value):
    """An object with any keys, and values of one type."""

    value: ArgumentType
    noun: str = "an object"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        if strict:
            raise TypeError("an object with free keys cannot be described in strict mode")
        return {"type": "object", "additionalProperties": self.value.schema(strict=strict) or True}

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        if not isinstance(value, Mapping):
            return mismatch(self, value, where, problems)
        return {key: self.value.read(part, _below(where, key), problems) for key, part in value.items()}


class Converted(Value):
    """A type whose value is converted to another one, such as a string to a ``Path``."""

    inner: ArgumentType
    make: Callable[[Any], Any]

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`."""
        return self.inner.noun

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        return self.inner.schema(strict=strict)

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        before = len(problems)
        result = self.inner.read(value, where, problems)
        return self.make(result) if len(problems) == before else None


class Field(Value, kw_only=True):
    """A property of a record.

    Attributes:
        name: The name in JSON.
        shape: The type of the value.
        required: Whether there is no default.
        default: The default, if it can be shown to the model. None means that it cannot, or that the default is None.
        null_is_default: Whether the default is None, so that omitting the property means the same as null.
        description: The description for the model.
    """

    name: str
    shape: ArgumentType
    required: bool = True
    default: Any = None
    null_is_default: bool = False
    description: str = ""

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Return the JSON Schema. In the strict subset every property is required, and null means the default."""
        schema: dict[str, Any] = self._advertised(strict=strict).schema(strict=strict)
        if description := f"{self.description} {schema.get('description', '')}".strip():
            alone = strict and "$ref" in schema  # the strict subset allows nothing beside a reference
            schema = {**({"anyOf": [schema]} if alone else schema), "description": description}
        if self.default is not None and not strict:
            schema["default"] = self.default
        return schema

    def takes_null(self) -> bool:
        """Return whether null is a valid value."""
        return takes_null(self.shape)

    def _advertised(self, *, strict: bool) -> ArgumentType:
        if strict:
            return self.shape if self.required or self.takes_null() else Either((self.shape, None))
        if self.null_is_default and isinstance(self.shape, Either):
            # Omitting an optional property is simpler for a model than sending null, so null is accepted but not advertised.
            rest = tuple(shape for shape in self.shape.shapes if shape is not None)
            return rest[0] if len(rest) == 1 and rest[0] is not None else Either(rest)
        return self.shape


def _is_structured(shape: ArgumentType) -> bool:
    """Return whether a type has parts, whose problems are more helpful than that the whole value does not fit."""
    return isinstance(shape, (Record, Table, Array)) or bool(getattr(shape, "structured", False))


def takes_null(shape: ArgumentType | None) -> bool:
    """Return whether null is a valid value of a type."""
    match shape:
        case None | Anything():
            return True
        case Either(shapes):
            return any(takes_null(part) for part in shapes)
        case Choice(members):
            return any(wire is None for wire, _ in members)
        case _:
            return bool(getattr(shape, "nullable", False))


class Record(Value):
    """An object with known properties. ``make`` is called with the received properties as keyword arguments."""

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    noun: str = "an object"

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        return {
            "type": "object",
            "properties": {field.name: field.schema(strict=strict) for field in self.fields},
            "required": [field.name for field in self.fields if field.required or strict],
            "additionalProperties": False,
        }

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        if not isinstance(value, Mapping):
            return mismatch(self, value, where, problems)
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
        except (ValueError, TypeError) as error:  # a validator in the author's class can still refuse the values
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


def mismatch(shape: ArgumentType, value: Any, where: str, problems: list[str]) -> None:
    """Add the problem that a value is not of a type."""
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
