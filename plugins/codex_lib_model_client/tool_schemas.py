"""JSON Schemas of tools' arguments in the form that model servers accept.

A server refuses a whole request because of one schema that it does not take, and every later request of the thread as well.
Servers check schemas against draft 2020-12, and additionally demand ``items`` of every array and an object without combinators
in the root. So a keyword that cannot be expressed is dropped, and never the tool. Words tell the model what dropped combinators
and tuples demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["SendableSchema", "normalised_schema"]

_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_DEEPEST = 20
_MOST_PARTS = 2_000
_LONGEST = 20_000
"""The limits of schemas that need no closer look."""

_NOT_IN_ROOT = ("enum", "anyOf")


class SendableSchema(NamedTuple):
    """A schema that model servers accept.

    Attributes:
        schema: The schema. It is the given one if no change was needed.
        note: The constraints of dropped root combinators, for the description of the tool. May be empty.
    """

    schema: Mapping[str, Any]
    note: str


def normalised_schema(parameters: object) -> SendableSchema:
    """Return the schema of a tool's arguments in the form that model servers accept: an object with properties.

    Args:
        parameters: The schema as the tool's author wrote it, or any other value.
    """
    if not isinstance(parameters, Mapping):
        return SendableSchema({"type": "object", "properties": {}}, "")
    is_object = parameters.get("type") == "object" and "properties" in parameters
    if is_object and not any(map(parameters.get, _NOT_IN_ROOT)) and _is_plain(parameters, [_MOST_PARTS]):
        return SendableSchema(parameters, "")
    from codex_lib_model_client.schema_repairs import repaired_schema

    return SendableSchema(*repaired_schema(parameters))


def _is_plain(schema: Any, left: list[int], depth: int = 0) -> bool:
    """Return whether a schema has only the usual keywords, with values that every server accepts. Most schemas do.

    Args:
        left: The maximum number of schemas to check.
    """
    left[0] -= 1
    if type(schema) is not dict or left[0] < 0 or depth > _DEEPEST:
        return False
    for word, value in schema.items():
        kind = type(value)
        match word:
            case "type":
                plain = kind is str and value in _TYPES and (value != "array" or "items" in schema)
            case "description":
                plain = kind is str and len(value) <= _LONGEST
            case "properties":
                plain = (
                    kind is dict
                    and _are_names(list(value))
                    and all(_is_plain(part, left, depth + 1) for part in value.values())
                )
            case "required":
                plain = kind is list and _are_names(value) and _has_all(schema.get("properties"), value)
            case "items":
                plain = _is_plain(value, left, depth + 1)
            case "enum":
                plain = kind is list and len(value) > 0 and _are_names(value)
            case "additionalProperties":
                plain = kind is bool or _is_plain(value, left, depth + 1)
            case "anyOf":
                plain = (
                    kind is list and len(value) > 0 and all(part and _is_plain(part, left, depth + 1) for part in value)
                )
            case _:
                plain = False
        if not plain:
            return False
    return True


def _are_names(values: list[Any]) -> bool:
    """Return whether a list has texts, each of them once."""
    return len(values) <= _MOST_PARTS and all(type(name) is str for name in values) and len(set(values)) == len(values)


def _has_all(properties: Any, names: list[str]) -> bool:
    return type(properties) is dict and all(name in properties for name in names)
