"""One description of the arguments of a tool: the schema for the model, and parsing with error messages in Codex's words.

Wording and positions (``at line 1 column 9``) are those of Codex's JSON reader, which models know. Valid arguments cost one
``json.loads``. Invalid ones are parsed again by a reader that tracks positions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from codex_framework.contract.errors import ToolError
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["Argument", "arguments_schema", "parse_arguments"]

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
    "strings": "a sequence",
    "object": "a map",
    "objects": "a sequence",
}
_DEEPEST = 128
_NUMBER = rb"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"
"""The pattern of a number. It is compiled only when needed, which is for invalid arguments."""

_ESCAPES = frozenset(b'"\\/bfnrt')


class Argument(NamedTuple):
    """One field of the arguments.

    Attributes:
        kind: ``string``, ``boolean``, ``number``, ``strings`` (a list of strings), ``object``, ``objects`` (a list of
            objects), ``any``, or an integer range: ``i32``, ``i64``, ``u64``, ``usize``.
        description: The description for the model. Empty means that there is none.
        required: Whether the field must be present. An optional field may also be null, which means that it is absent.
        choices: The allowed strings, for ``string``. Empty means any.
        aliases: Other names of the field, which the model is not told.
        fields: The fields of each object, for ``object`` and ``objects``. Aliases are ignored there, and unknown fields
            are kept.
        hidden: Whether the model is not told of the field.
        schema: Parts of the JSON Schema that the model is told instead of those that follow from the rest.
    """

    kind: str
    description: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    fields: Mapping[str, Argument] = MappingProxyType({})
    hidden: bool = False
    schema: Mapping[str, Any] = MappingProxyType({})


def arguments_schema(fields: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments that :func:`parse_arguments` reads, for ``FunctionSpec.parameters``."""
    shown = {name: field for name, field in fields.items() if not field.hidden}
    required = [name for name, field in shown.items() if field.required]
    return {
        "type": "object",
        "properties": {name: _schema(field) for name, field in shown.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _schema(field: Argument) -> dict[str, Any]:
    """The schema of a field. A description stands before nested fields, so that it is read first."""
    described = {"description": field.description} if field.description else {}
    match field.kind:
        case "object":
            inner = arguments_schema(field.fields)
            return {"type": inner.pop("type"), **described, **inner, **field.schema}
        case "objects":
            return {"type": "array", **described, "items": arguments_schema(field.fields), **field.schema}
        case "strings":
            return {"type": "array", "items": {"type": "string"}, **field.schema, **described}
        case "any":
            return {**field.schema, **described}
    kind = {"type": field.kind if field.kind in ("string", "boolean") else "number"}
    choices = {"enum": list(field.choices)} if field.choices else {}
    return {**kind, **choices, **field.schema, **described}


def parse_arguments(text: str, fields: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the fields that are present and not null, by name. Unknown fields are ignored.

    Args:
        text: The JSON text from the model.
        fields: The allowed fields.

    Raises:
        ToolError: The text is not a JSON object, or a field is missing or of the wrong kind; the message is for the model.
    """
    found = _read_quickly(text, fields)
    if found is None:
        names = {alias: name for name, field in fields.items() for alias in (name, *field.aliases)}
        _Reader(text.encode("utf-8", "surrogatepass")).explain(fields, names)
    return found


def _read_quickly(text: str, fields: Mapping[str, Argument]) -> dict[str, Any] | None:
    if "\\ud" in text or "\\uD" in text:
        _Reader(text.encode("utf-8", "surrogatepass")).check_text()  # half a surrogate pair is not valid text
    try:
        value = strict_json(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found = {}
    for key, item in value.items():
        name = key if key in fields else _with_alias(key, fields)
        if name is None:
            continue
        if item is None and not fields[name].required:
            continue
        if not _fits(item, fields[name]):
            return None
        found[name] = item
    for name, field in fields.items():
        if field.required and name not in found:
            return None
    return found


def _with_alias(alias: str, fields: Mapping[str, Argument]) -> str | None:
    return next((name for name, field in fields.items() if alias in field.aliases), None)


def _fits(value: object, field: Argument) -> bool:
    match field.kind:
        case "string":
            return isinstance(value, str) and (not field.choices or value in field.choices)
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "strings":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "object":
            return isinstance(value, dict) and _fields_fit(value, field.fields)
        case "objects":
            return isinstance(value, list) and all(
                isinstance(item, dict) and _fields_fit(item, field.fields) for item in value
            )
        case "any":
            return True
    low, high = _INTEGERS[field.kind]
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _fields_fit(value: Mapping[str, object], fields: Mapping[str, Argument]) -> bool:
    return all(
        _fits(value[name], field) or (value[name] is None and not field.required)
        if name in value
        else not field.required
        for name, field in fields.items()
    )


class _Reader:
    """A JSON reader that reports where and why the text is invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def explain(self, fields: Mapping[str, Argument], names: Mapping[str, str]) -> NoReturn:
        """Raise an error for the first problem, in reading order."""
        self._space()
        if self._peek() == b"{":
            self._object(fields, names, depth=1)
            self._end()
        elif self._peek() == b"[":
            self._value(1)
            self._fail("invalid type: sequence, expected a map")
        else:
            self._mistype("a map")
        self._fail("the arguments cannot be read")  # never happens unless the two readers disagree

    def check_text(self) -> None:
        """Raise an error if the text is not JSON, whatever its type."""
        self._value(0)
        self._end()

    # Errors

    def _fail(self, what: str, *, ahead: int = 0) -> NoReturn:
        at = min(self._at + ahead, len(self._data))
        line = self._data.count(b"\n", 0, at) + 1
        column = at - (self._data.rfind(b"\n", 0, at) + 1)
        raise ToolError(f"{PREFIX}{what} at line {line} column {column}")

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
            self._fail(f"invalid value: {_described(value)}, expected {expected}")
        self._fail(f"invalid type: {_described(value)}, expected {expected}")

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

    def _object(self, fields: Mapping[str, Argument], names: Mapping[str, str], *, depth: int) -> None:
        """Parse the outermost object and check its fields; then check for missing ones."""
        seen = set()
        for key in self._keys():
            name = names.get(key)
            if name is None:
                self._value(depth + 1)
                continue
            seen.add(name)
            self._field(fields[name], depth + 1)
        for name, field in fields.items():
            if field.required and name not in seen:
                self._fail(f"missing field `{name}`")

    def _keys(self) -> Iterator[str]:
        """Yield each key. The reader is then before its value, and the caller must consume it."""
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
            key = self._string()
            self._space()
            if self._peek() != b":":
                self._fail("expected `:`" if self._peek() else "EOF while parsing an object", ahead=1)
            self._at += 1
            self._space()
            yield key

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
        start = self._at
        if self._peek() == b"[" and field.kind == "strings":
            self._items(depth, "a string")
            return
        if self._peek() == b"{" and field.kind == "object":
            self._object(field.fields, {name: name for name in field.fields}, depth=depth)
            return
        if self._peek() == b"[" and field.kind == "objects":
            self._items(depth, "a map", field.fields)
            return
        probe = _Reader(self._data)
        probe._at = start
        probe._value(depth)
        value = json.loads(self._data[start : probe._at])
        if (value is None and not field.required) or _fits(value, field):
            self._at = probe._at
            return
        if not field.choices:
            self._mistype(_EXPECTED.get(field.kind, field.kind))
        if not isinstance(value, str):
            self._fail("expected value", ahead=1)
        self._at = probe._at
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

    def _items(self, depth: int, expected: str | None, fields: Mapping[str, Argument] | None = None) -> None:
        self._at += 1
        opening = b'"' if fields is None else b"{"
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
            if expected is not None and self._peek() != opening:
                self._mistype(expected)
            if fields is None:
                self._value(depth + 1)
            else:
                self._object(fields, {name: name for name in fields}, depth=depth + 1)

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


def _described(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case str():
            return f"string {json.dumps(value, ensure_ascii=False)}"
        case int() if abs(value) < 2**64:
            return f"integer `{value}`"
        case int() | float():
            return f"floating point `{float(value)}`"
    return "value"


def _one_of(choices: tuple[str, ...]) -> str:
    if len(choices) <= 2:
        return " or ".join(f"`{choice}`" for choice in choices)
    return "one of " + ", ".join(f"`{choice}`" for choice in choices)
