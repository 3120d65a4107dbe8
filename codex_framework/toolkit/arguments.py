"""The description of a tool's arguments: the schema for the model, and parsing with error messages in Codex's words.

Everything that is known of an argument is in its :class:`Argument`. Tools write these rows themselves, or
:func:`~codex_framework.toolkit.tool.tool` makes them of a signature.

Wording and positions (``at line 1 column 9``) come from Codex's JSON reader, which models know. Valid arguments cost one
``json.loads``. Invalid ones are parsed again by a reader that tracks positions, and the first problem is reported. Converting
the values comes last and reports all problems together, each with its path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeAlias

from codex_framework.contract.errors import ToolError
from codex_framework.toolkit.strict_json import strict_json

__all__ = [
    "Argument",
    "ConversionError",
    "Definition",
    "arguments_schema",
    "noun",
    "parse_arguments",
    "read_json",
    "schema_of",
    "wrong_value",
]

PREFIX = "failed to parse function arguments: "

_INTEGERS = {
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
    "usize": (0, 2**64 - 1),
}
_EXPECTED = {
    "string": "a string",
    "boolean": "a boolean",
    "number": "f64",
    "integer": "an integer",
    "strings": "a sequence",
    "object": "a map",
    "objects": "a sequence",
    "list": "a sequence",
    "map": "a map",
}
_UNCHANGED = frozenset({*_INTEGERS, "string", "boolean", "number", "integer", "strings", "any", "choice"})
"""Kinds whose values contain no parts to convert."""

_DEEPEST = 128
_SHOWN = 80
"""Maximum number of characters quoted of a wrong value."""

_NUMBER = rb"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"
"""The pattern of a number. It is compiled only when needed, which is for invalid arguments."""

_ESCAPES = frozenset(b'"\\/bfnrt')


class Argument(NamedTuple):
    """One field of the arguments, or an element of such a field.

    Attributes:
        kind: ``string``, ``boolean``, ``number``, ``integer``, ``any``, or an integer range: ``i32``, ``i64``, ``u64``,
            ``usize``. ``object`` (with ``fields``), ``map`` (any keys, values described by ``items``), ``list`` (of ``items``);
            ``strings`` and ``objects`` are lists of strings and of objects. ``union`` is the first of ``any_of`` that fits,
            ``choice`` one of ``choices``, and ``reference`` the type that ``target`` defines.
        description: The description for the model.
        required: Whether the field must be present. An optional field may also be null, which means that it is absent.
        choices: The allowed values, for ``string`` and ``choice``. Without choices, every string is allowed.
        aliases: Other names of the field, which the model is not told.
        fields: The fields of each object, for ``object`` and ``objects``.
        hidden: Whether the model is not told of the field.
        schema: Parts of the JSON Schema for the model that replace the derived parts.
        closed: Whether unknown fields of an object are refused. Otherwise they are kept.
        items: The elements of a ``list`` or ``map``.
        any_of: The possible types of a ``union``.
        target: The definition that a ``reference`` refers to.
        nullable: Whether null is an allowed value.
        default: The default that the model is told, unless it is None.
        convert: Makes the value that the tool gets. It is called with the value from JSON, with its parts already converted,
            and raises ``ValueError`` with a text for the model.
    """

    kind: str
    description: str = ""
    required: bool = False
    choices: tuple[Any, ...] = ()
    aliases: tuple[str, ...] = ()
    fields: Mapping[str, Argument] = MappingProxyType({})
    hidden: bool = False
    schema: Mapping[str, Any] = MappingProxyType({})
    closed: bool = False
    items: Argument | None = None
    any_of: tuple[Argument, ...] = ()
    target: Definition | None = None
    nullable: bool = False
    default: Any = None
    convert: Callable[[Any], Any] | None = None


class Definition:
    """A type that contains itself.

    Attributes:
        name: Its name in the schema.
        row: The type. None while it is being built.
    """

    __slots__ = ("name", "row")

    def __init__(self, name: str) -> None:
        self.name = name
        self.row: Argument | None = None


_TEXT = Argument("string", required=True)
_ANYTHING = Argument("any", required=True)


# The schema


def arguments_schema(fields: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments that :func:`parse_arguments` reads, for ``FunctionSpec.parameters``."""
    return _object_schema(fields, closed=False)


def _object_schema(fields: Mapping[str, Argument], *, closed: bool) -> dict[str, Any]:
    shown = {name: field for name, field in fields.items() if not field.hidden}
    required = [name for name, field in shown.items() if field.required]
    return {
        "type": "object",
        "properties": {name: schema_of(field) for name, field in shown.items()},
        **({"required": required} if required or closed else {}),
        "additionalProperties": False,
    }


def schema_of(field: Argument) -> dict[str, Any]:
    """Return the JSON Schema of one field. A description comes before nested fields, so that it is read first."""
    described = {"description": field.description} if field.description else {}
    if field.default is not None:
        described["default"] = field.default
    if field.nullable:
        from codex_framework.toolkit.json_schemas import nullable_schema

        return {**nullable_schema(schema_of(field._replace(nullable=False, description="", default=None))), **described}
    match field.kind:
        case "object":
            inner = _object_schema(field.fields, closed=field.closed)
            return {"type": inner.pop("type"), **described, **inner, **field.schema}
        case "objects":
            return {"type": "array", **described, "items": arguments_schema(field.fields), **field.schema}
    return {**_plain_schema(field), **field.schema, **described}


def _plain_schema(field: Argument) -> dict[str, Any]:
    match field.kind:
        case "strings" | "list":
            return {"type": "array", "items": schema_of(_element(field))}
        case "map":
            return {"type": "object", "additionalProperties": schema_of(_element(field)) or True}
        case "union":
            parts = [schema_of(part) for part in field.any_of]
            plain = all(part.keys() == {"type"} and isinstance(part["type"], str) for part in parts)
            return {"type": [part["type"] for part in parts]} if plain else {"anyOf": parts}
        case "reference":
            assert field.target is not None
            return {"$ref": f"#/$defs/{field.target.name}"}
        case "any":
            return {}
        case "choice":
            kinds = list(dict.fromkeys(_json_type(choice) for choice in field.choices))
            return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(field.choices)}
    kind = {"type": field.kind if field.kind in ("string", "boolean", "integer") else "number"}
    return {**kind, "enum": list(field.choices)} if field.choices else kind


def _json_type(value: object) -> str:
    return {bool: "boolean", int: "integer", float: "number", str: "string"}.get(type(value), "null")


# Reading


def parse_arguments(text: str, fields: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the fields that are present and not null, by name. Unknown fields are ignored.

    Args:
        text: The JSON text from the model.
        fields: The allowed fields.

    Raises:
        ToolError: The text is not a JSON object, or a field is missing or of the wrong kind; the message is for the model.
    """
    try:
        found = read_json(text, Argument("object", fields=fields))
    except ValueError as error:
        raise ToolError(f"{PREFIX}{error}") from None
    return {
        name: value for name, value in found.items() if name in fields and (value is not None or fields[name].required)
    }


def read_json(text: str, row: Argument, where: str = "") -> Any:
    """Return the value of a JSON text that fits a row.

    Args:
        where: The name of the whole value, for problems of a conversion.

    Raises:
        ValueError: The text is not JSON, does not fit, or cannot be converted. The message is for the model.
    """
    if "\\ud" in text or "\\uD" in text:
        _reader(text).check_text()  # half a surrogate pair is not valid text
    value: Any = None
    try:
        value = strict_json(text)
        fits = _fits(value, row)
    except (ValueError, RecursionError):
        fits = False
    if not fits:
        _reader(text).explain(row)
    problems: list[_Problem] = []
    value = _convert(value, row, where, problems)
    if problems:
        lines = [f"{place}: {fact}" if place else fact for place, fact in problems]
        raise ValueError("\n- ".join([f"{len(lines)} problems", *lines]) if len(lines) > 1 else lines[0])
    return value


def _reader(text: str) -> _Reader:
    return _Reader(text.encode("utf-8", "surrogatepass"))


def _fits(value: object, field: Argument) -> bool:
    if value is None and field.nullable:
        return True
    if (limits := _INTEGERS.get(field.kind)) is not None:
        return isinstance(value, int) and not isinstance(value, bool) and limits[0] <= value <= limits[1]
    match field.kind:
        case "string":
            return isinstance(value, str) and (not field.choices or value in field.choices)
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "object":
            return isinstance(value, dict) and _fields_fit(value, field)
        case "strings" | "objects" | "list":
            element = _element(field)
            return isinstance(value, list) and all(_fits(item, element) for item in value)
        case "map":
            element = _element(field)
            return isinstance(value, dict) and all(_fits(item, element) for item in value.values())
        case "choice":
            return any(_same(value, choice) for choice in field.choices)
        case "union":
            return any(_fits(value, each) for each in field.any_of)
        case "reference":
            return _fits(value, _follow_references(field))
    return True


def _fields_fit(value: Mapping[str, object], row: Argument) -> bool:
    fields = row.fields
    seen = set()
    for key, item in value.items():
        name = key if key in fields else _name_of(key, fields)
        if name is None:
            if row.closed:
                return False
        elif _fits(item, fields[name]) or (item is None and not fields[name].required):
            seen.add(name)
        else:
            return False
    return all(name in seen for name, field in fields.items() if field.required)


def _name_of(alias: str, fields: Mapping[str, Argument]) -> str | None:
    return next((name for name, field in fields.items() if alias in field.aliases), None)


def _element(field: Argument) -> Argument:
    """Return the row of the elements of a list or map."""
    if field.kind == "strings":
        return _TEXT
    if field.kind == "objects":
        return Argument("object", required=True, fields=field.fields, closed=field.closed)
    return field.items or _ANYTHING


def _follow_references(field: Argument) -> Argument:
    """Return the row that a reference refers to."""
    while field.target is not None:
        if field.target.row is None:
            raise TypeError(f"{field.target.name} refers to itself without anything between")
        row = field.target.row
        field = row._replace(required=field.required, nullable=field.nullable or row.nullable)
    return field


def _same(value: object, choice: object) -> bool:
    return value == choice and isinstance(value, bool) is isinstance(choice, bool)


def _takes_null(field: Argument) -> bool:
    """Return whether null is a value of an optional field, which is otherwise absent then."""
    if field.nullable or None in field.choices:
        return True
    if field.target is not None:
        return _takes_null(_follow_references(field))
    return any(_takes_null(part) for part in field.any_of)


# Conversion

_Problem: TypeAlias = tuple[str, str]
"""The path of a value, and its problem."""


class ConversionError(ValueError):
    """Several problems of a value, each with its path within the value."""

    def __init__(self, problems: Sequence[_Problem]) -> None:
        super().__init__("; ".join(fact for _, fact in problems))
        self.problems = problems


def wrong_value(expected: str, value: object) -> ValueError:
    """Return the error about a value that cannot be converted."""
    if isinstance(value, (list, dict)):
        shown = "an array" if isinstance(value, list) else "an object"
    else:
        shown = json.dumps(value, ensure_ascii=False)
    return ValueError(f"expected {expected}, got {_shorten(shown)}")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _convert(value: Any, field: Argument, where: str, problems: list[_Problem]) -> Any:
    """Convert a value that fits a row, from its parts upwards. The result is meaningless if there are problems."""
    if field.nullable and value is None:
        return None
    before = len(problems)
    match field.kind:
        case "object":
            value = _convert_fields(value, field, where, problems)
        case "objects" | "list":
            element = _element(field)
            value = [_convert(item, element, f"{where}[{place}]", problems) for place, item in enumerate(value)]
        case "map":
            element = _element(field)
            value = {key: _convert(item, element, _child_path(where, key), problems) for key, item in value.items()}
        case "union":
            value = _convert_union(value, field, where, problems)
        case "reference":
            value = _convert(value, _follow_references(field), where, problems)
    if field.convert is None or len(problems) > before:
        return value
    try:
        return field.convert(value)
    except ConversionError as error:
        problems += [(f"{where}{place}".removeprefix("."), fact) for place, fact in error.problems]
    except (ValueError, TypeError, ArithmeticError) as error:
        problems.append((where, str(error)))
    return None


def _convert_fields(value: Mapping[str, Any], row: Argument, where: str, problems: list[_Problem]) -> dict[str, Any]:
    found = {}
    for key, item in value.items():
        name = key if key in row.fields else _name_of(key, row.fields)
        field = row.fields[name] if name is not None else _ANYTHING
        if item is not None or field.required or _takes_null(field):
            plain = field.convert is None and field.kind in _UNCHANGED
            found[name or key] = item if plain else _convert(item, field, _child_path(where, key), problems)
        elif not row.closed:
            found[name or key] = None
    return found


def _convert_union(value: Any, row: Argument, where: str, problems: list[_Problem]) -> Any:
    """Convert a value to the first type that takes it. If none does, report the problems that are farthest within the value."""
    nearest: list[_Problem] = []
    for each in row.any_of:
        found: list[_Problem] = []
        if _fits(value, each):
            converted = _convert(value, each, where, found)
            if not found:
                return converted
            nearest = max(nearest, found, key=lambda some: len(some[0][0]) if some else -1)
    problems += nearest
    return None


def _child_path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


class _Reader:
    """A JSON reader that reports where and why the text is invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def explain(self, row: Argument) -> NoReturn:
        """Raise an error for the first problem, in reading order."""
        self._space()
        if row.kind == "object" and self._peek() == b"[":
            self._value(1)
            self._fail("invalid type: sequence, expected a map")
        self._field(row._replace(required=True), 1)
        self._end()
        self._fail("the value cannot be read")  # never happens unless the two readers disagree

    def check_text(self) -> None:
        """Raise an error if the text is not JSON, whatever its type."""
        self._value(0)
        self._end()

    # Errors

    def _fail(self, what: str, *, ahead: int = 0) -> NoReturn:
        at = min(self._at + ahead, len(self._data))
        line = self._data.count(b"\n", 0, at) + 1
        column = at - (self._data.rfind(b"\n", 0, at) + 1)
        raise ValueError(f"{what} at line {line} column {column}")

    def _mistype(self, expected: str) -> NoReturn:
        """Raise an error about the type of the next value."""
        first = self._peek()
        if first == b"{":
            self._fail(f"invalid type: map, expected {expected}")
        if first == b"[":
            self._fail(f"invalid type: sequence, expected {expected}")
        start = self._at
        self._value(1)
        value = json.loads(self._data[start : self._at])
        if expected in _INTEGERS and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**64:
            self._fail(f"invalid value: {_describe(value)}, expected {expected}")
        self._fail(f"invalid type: {_describe(value)}, expected {expected}")

    # The grammar

    def _peek(self) -> bytes:
        return self._data[self._at : self._at + 1]

    def _space(self) -> None:
        while self._peek() in (b" ", b"\t", b"\n", b"\r"):
            self._at += 1

    def _end(self) -> None:
        self._space()
        if self._peek():
            self._fail("trailing characters", ahead=1)

    def _object(self, row: Argument, depth: int) -> None:
        """Parse an object and check its fields; then check for missing ones."""
        seen = set()
        for key, end in self._keys():
            name = key if key in row.fields else _name_of(key, row.fields)
            if name is not None:
                seen.add(name)
                self._field(row.fields[name], depth + 1)
            elif row.closed:
                known = f"expected {_one_of(tuple(row.fields))}" if row.fields else "there are no fields"
                self._at = end
                self._fail(f"unknown field `{key}`, {known}")
            else:
                self._value(depth + 1)
        for name, field in row.fields.items():
            if field.required and name not in seen:
                self._fail(f"missing field `{name}`")

    def _keys(self) -> Iterator[tuple[str, int]]:
        """Yield each key with its end. The reader is then before its value, and the caller must consume it."""
        self._at += 1
        first = True
        while True:
            self._space()
            if self._peek() == b"}":
                self._at += 1
                return
            if not first:
                self._separator(b"}", "object")
            first = False
            if self._peek() != b'"':
                if not self._peek():
                    self._fail("EOF while parsing an object", ahead=1)
                self._fail("key must be a string", ahead=1)
            key, end = self._string(), self._at
            self._space()
            if self._peek() != b":":
                self._fail("expected `:`" if self._peek() else "EOF while parsing an object", ahead=1)
            self._at += 1
            self._space()
            yield key, end

    def _separator(self, closing: bytes, what: str) -> None:
        if not self._peek():
            self._fail(f"EOF while parsing {'an' if what == 'object' else 'a'} {what}", ahead=1)
        if self._peek() != b",":
            self._fail(f"expected `,` or `{closing.decode()}`", ahead=1)
        self._at += 1
        self._space()
        if self._peek() == closing:
            self._fail("trailing comma", ahead=1)

    def _field(self, field: Argument, depth: int) -> None:
        field = _follow_references(field)
        start = self._at
        if field.kind in ("union", "choice", "any"):
            self._value(depth)
            if self._accepts(field, start):
                return
            self._at = start
            field = self._nearest(field)
        if self._peek() == b"[" and field.kind in ("strings", "objects", "list"):
            self._items(depth, _element(field))
        elif self._peek() == b"{" and field.kind == "object":
            self._object(field, depth)
        elif self._peek() == b"{" and field.kind == "map":
            element = _element(field)
            for _ in self._keys():
                self._field(element, depth + 1)
        else:
            self._scalar(field, depth)

    def _accepts(self, field: Argument, start: int) -> bool:
        """Return whether the value that was just read fits a field."""
        value = json.loads(self._data[start : self._at])
        return (value is None and not field.required) or _fits(value, field)

    def _nearest(self, field: Argument) -> Argument:
        """Return the intended type of the next value in a union, which explains a problem best."""
        kinds = {b"{": ("object", "map"), b"[": ("strings", "objects", "list")}.get(self._peek(), ())
        for part in map(_follow_references, field.any_of):
            nearest = self._nearest(part) if part.kind == "union" else part
            if nearest.kind in kinds:
                return nearest
        return field

    def _scalar(self, field: Argument, depth: int) -> None:
        start = self._at
        self._value(depth)
        if self._accepts(field, start):
            return
        value = json.loads(self._data[start : self._at])
        if field.kind == "choice":
            self._fail(f"invalid value: {_describe(value)}, expected {noun(field)}")
        if not field.choices:
            self._at = start
            self._mistype(noun(field))
        if not isinstance(value, str):
            self._at = start
            self._fail("expected value", ahead=1)
        self._fail(f"unknown variant `{value}`, expected {_one_of(field.choices)}")

    def _value(self, depth: int) -> None:
        if depth > _DEEPEST:
            self._fail("recursion limit exceeded", ahead=1)
        self._space()
        first = self._peek()
        if not first:
            self._fail("EOF while parsing a value", ahead=1)
        if first == b'"':
            self._string()
        elif first == b"{":
            for _ in self._keys():
                self._value(depth + 1)
        elif first == b"[":
            self._items(depth, None)
        elif first in b"-0123456789":
            self._number()
        else:
            self._word()

    def _items(self, depth: int, element: Argument | None) -> None:
        self._at += 1
        first = True
        while True:
            self._space()
            if self._peek() == b"]":
                self._at += 1
                return
            if not first:
                self._separator(b"]", "list")
            first = False
            if not self._peek():
                self._fail("EOF while parsing a list", ahead=1)
            if element is None:
                self._value(depth + 1)
            elif (element.kind, self._peek()) in (("string", b"{"), ("string", b"["), ("object", b"[")):
                self._mistype(noun(element))
            else:
                self._field(element._replace(required=True), depth + 1)

    def _word(self) -> None:
        for word in (b"true", b"false", b"null"):
            if word[:1] != self._peek():
                continue
            for letter in word:
                if not self._peek():
                    self._fail("EOF while parsing a value")
                if self._data[self._at] != letter:
                    self._fail("expected ident", ahead=1)
                self._at += 1
            return
        self._fail("expected value", ahead=1)

    def _number(self) -> None:
        match = re.compile(_NUMBER).match(self._data, self._at)
        if match is None:  # a minus without a digit
            self._at += 1
            self._fail("invalid number" if self._peek() else "EOF while parsing a value", ahead=1)
        self._at = match.end()
        if self._peek() and self._peek() in b".eE0123456789":  # 01, 1., 1e
            self._at += 1
            self._fail("invalid number", ahead=0)
        if float(match.group()) in (float("inf"), float("-inf")):
            self._fail("number out of range", ahead=0)

    def _string(self) -> str:
        start = self._at
        self._at += 1
        while True:
            byte = self._peek()
            if not byte:
                self._fail("EOF while parsing a string")
            if byte < b" ":
                self._fail("control character (\\u0000-\\u001F) found while parsing a string")
            self._at += 1
            if byte == b'"':
                return str(json.loads(self._data[start : self._at].decode("utf-8", "replace")))
            if byte == b"\\":
                self._escape()

    def _escape(self) -> None:
        byte = self._peek()
        if not byte:
            self._fail("EOF while parsing a string")
        self._at += 1
        if byte != b"u":
            if byte[0] not in _ESCAPES:
                self._fail("invalid escape")
            return
        code = self._hex()
        if 0xDC00 <= code <= 0xDFFF:
            self._fail("lone leading surrogate in hex escape")
        if 0xD800 <= code <= 0xDBFF:
            if self._data[self._at : self._at + 2] != b"\\u":
                self._fail("unexpected end of hex escape", ahead=1)
            self._at += 2
            if not 0xDC00 <= self._hex() <= 0xDFFF:
                self._fail("lone leading surrogate in hex escape")

    def _hex(self) -> int:
        digits = self._data[self._at : self._at + 4]
        if len(digits) < 4:
            self._at = len(self._data)
            self._fail("EOF while parsing a string")
        self._at += 4
        if not re.fullmatch(rb"[0-9a-fA-F]{4}", digits):
            self._fail("invalid escape")
        return int(digits, 16)


def _describe(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case str():
            return f"string {_shorten(json.dumps(value, ensure_ascii=False))}"
        case int() if abs(value) < 2**64:
            return f"integer `{value}`"
        case int() | float():
            return f"floating point `{float(value)}`"
    return "sequence" if isinstance(value, list) else "map"


def noun(field: Argument) -> str:
    """Return the name of a field's type with its article, such as ``a string``."""
    match field.kind:
        case "choice":
            shown = [json.dumps(choice, ensure_ascii=False) for choice in field.choices]
            expected = shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"
        case "union":
            expected = " or ".join(noun(_follow_references(part)) for part in field.any_of)
        case kind:
            expected = _EXPECTED.get(kind, kind)
    return f"{expected} or null" if field.nullable else expected


def _one_of(choices: tuple[str, ...]) -> str:
    if len(choices) <= 2:
        return " or ".join(f"`{choice}`" for choice in choices)
    return "one of " + ", ".join(f"`{choice}`" for choice in choices)
