"""The forms of elicitations: the check of a form, its defaults, and the check of an answer."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterator, Mapping
from typing import Any

from codex_plugin_mcp.errors import ServerError
from codex_plugin_mcp.texts import plain

__all__ = ["answered", "checked_form"]

_INVALID_PARAMS = -32602
_MAX_LENGTH = 100_000
_MAX_FIELDS = 200
_MAX_TEXT = 2_000
"""Longest title or description that is shown, in characters."""

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "boolean": bool,
    "array": (list, tuple),
}
_FORMATS = {
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+"),
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+"),
    "date": re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"),
    "date-time": re.compile(
        r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?"
    ),
}


def checked_form(schema: object) -> Mapping[str, Any]:
    """Return the schema of a form: an object of plain fields.

    Raises:
        ServerError: It is something else. The text is for the server.
    """
    if not isinstance(schema, Mapping) or schema.get("type") not in (None, "object"):
        raise _invalid("requestedSchema must be a schema of an object")
    properties = {} if schema.get("properties") is None else schema["properties"]
    if not isinstance(properties, Mapping) or len(properties) > _MAX_FIELDS:
        raise _invalid(f"requestedSchema.properties must be an object of at most {_MAX_FIELDS} fields")
    for name, field in properties.items():
        if not isinstance(name, str) or not name.isprintable():
            raise _invalid("requestedSchema.properties must have printable names")
        kind = field.get("type", "string") if isinstance(field, Mapping) else None
        if not isinstance(kind, str) or kind not in _TYPES:
            raise _invalid(
                f"requestedSchema.properties.{str(name)[:80]} must be a string, number, boolean or list of strings"
            )
    required = [] if schema.get("required") is None else schema["required"]
    if not isinstance(required, (list, tuple)) or any(name not in properties for name in required):
        raise _invalid("requestedSchema.required must be a list of names of fields")
    if len(json.dumps(schema, default=str)) > _MAX_LENGTH:
        raise _invalid(f"requestedSchema is longer than {_MAX_LENGTH} characters")
    shown = {
        name: {key: _display_value(key, value) for key, value in field.items()} for name, field in properties.items()
    }
    return {**schema, "type": "object", "properties": shown, **({"required": required} if "required" in schema else {})}


def _display_value(key: str, value: Any) -> Any:
    """Return a part of a field, without control characters if it is a text for the person."""
    if key in ("title", "description") and isinstance(value, str):
        return plain(value, _MAX_TEXT)
    if key == "enumNames" and isinstance(value, (list, tuple)):
        return [plain(name, _MAX_TEXT) if isinstance(name, str) else name for name in value]
    return value


def _invalid(text: str) -> ServerError:
    return ServerError(text, code=_INVALID_PARAMS)


def answered(form: Mapping[str, Any], content: object) -> tuple[dict[str, Any], list[str]]:
    """Return an answer completed with the form's defaults, and its problems as sentences for the user.

    Fields that the form does not have are dropped.
    """
    if not isinstance(content, Mapping):
        return {}, [f"the content is {type(content).__name__}, not an object"]
    fields = form["properties"]
    given = {name: content[name] for name in fields if content.get(name) is not None}
    for name, field in fields.items():
        if name not in given and field.get("default") is not None:
            given[name] = field["default"]
    problems = [f"{name} is required" for name in form.get("required", ()) if name not in given]
    for name, value in given.items():
        problems += [f"{name} {problem}" for problem in _problems(fields[name], value)]
    return given, problems


def _problems(field: Mapping[str, Any], value: Any) -> Iterator[str]:
    kind = field.get("type", "string")
    if not _is_of(kind, value):
        yield f"must be {_article(kind)}"
    elif kind == "string":
        yield from _text_problems(field, value)
    elif kind in ("number", "integer"):
        yield from _number_problems(kind, field, value)
    elif kind == "array":
        yield from _list_problems(field, value)


def _is_of(kind: str, value: object) -> bool:
    """Return whether a value is of a type of JSON Schema. True and false are no numbers."""
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) is (kind == "boolean")


def _article(kind: str) -> str:
    return {"integer": "a whole number", "array": "a list", "boolean": "true or false"}.get(kind, f"a {kind}")


def _text_problems(field: Mapping[str, Any], value: str) -> Iterator[str]:
    choices = _choices(field)
    if choices is not None and value not in choices:
        yield f"must be one of: {', '.join(map(str, choices))}"
    yield from _bounds(field, len(value), "minLength", "maxLength", "characters")
    form = _FORMATS.get(str(field.get("format")))
    if form is not None and not form.fullmatch(value):
        yield f"must be of the form {field['format']}"


def _number_problems(kind: str, field: Mapping[str, Any], value: float) -> Iterator[str]:
    if not math.isfinite(value) or (kind == "integer" and value != int(value)):
        yield f"must be {_article(kind)}"
    else:
        yield from _bounds(field, value, "minimum", "maximum", "")


def _list_problems(field: Mapping[str, Any], value: Any) -> Iterator[str]:
    items = field.get("items")
    choices = _choices(items) if isinstance(items, Mapping) else None
    for item in value:
        if not isinstance(item, str):
            yield "must be a list of strings"
            return
        if choices is not None and item not in choices:
            yield f"must consist of: {', '.join(map(str, choices))}"
            return
    yield from _bounds(field, len(value), "minItems", "maxItems", "entries")


def _bounds(field: Mapping[str, Any], size: float, low: str, high: str, unit: str) -> Iterator[str]:
    for key, word, wrong in ((low, "at least", operator.lt), (high, "at most", operator.gt)):
        bound = field.get(key)
        if isinstance(bound, (int, float)) and not isinstance(bound, bool) and wrong(size, bound):
            yield f"must be {word} {bound:g} {unit}".rstrip()


def _choices(field: Mapping[str, Any]) -> list[Any] | None:
    """Return the allowed values of a field, or None if all are allowed."""
    if isinstance(field.get("enum"), (list, tuple)):
        return list(field["enum"])
    for key in ("oneOf", "anyOf"):
        if isinstance(field.get(key), (list, tuple)):
            return [part["const"] for part in field[key] if isinstance(part, Mapping) and "const" in part]
    return None
