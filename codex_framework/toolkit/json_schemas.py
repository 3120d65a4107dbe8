"""Changes to a JSON Schema: definitions in its root, null as a value, and the strict subset that model servers enforce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["allows_null", "nullable_schema", "strict_schema", "with_definitions", "without_root_reference"]

_PREFIX = "#/$defs/"
_Schema = Mapping[str, Any]


def with_definitions(schema: _Schema) -> dict[str, Any]:
    """Return a schema with all definitions of its parts in its root, which is where references look for them.

    If two definitions have the same name and different content, one of them gets another name.
    """
    found = _Definitions()
    whole = found.without(schema, {})
    return {**whole, "$defs": found.hoisted} if found.hoisted else whole


def without_root_reference(schema: _Schema) -> dict[str, Any]:
    """Return a schema with the definition in its root that the root refers to."""
    name = str(schema.get("$ref", "")).removeprefix(_PREFIX)
    definition = schema.get("$defs", {}).get(name)
    if not isinstance(definition, Mapping):
        return dict(schema)
    return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}


_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


class _Definitions:
    """The definitions that were met in the parts of a schema, by their final names."""

    def __init__(self) -> None:
        self.hoisted: dict[str, Any] = {}
        self._contents: dict[str, Any] = {}

    def without(self, schema: Any, names: Mapping[str, str]) -> Any:
        """Return a schema without its definitions, and with the final names in its references."""
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(own := schema.get("$defs"), Mapping):
            names = {**names, **{name: self._final_name(name, definition) for name, definition in own.items()}}
            for name, definition in own.items():
                final = names[name]
                if final not in self.hoisted:
                    self.hoisted[final] = {}  # keeps the order, and ends the walk where a definition contains itself
                    self.hoisted[final] = self.without(definition, names)
        return {key: self._part(key, value, names) for key, value in schema.items() if key != "$defs"}

    def _part(self, key: str, value: Any, names: Mapping[str, str]) -> Any:
        if key == "$ref" and isinstance(value, str) and value.startswith(_PREFIX):
            name = value.removeprefix(_PREFIX)
            return f"{_PREFIX}{names.get(name, name)}"
        if key in _SINGLE:
            return self.without(value, names)
        if key in _LISTED:
            return [self.without(part, names) for part in value]
        if key in _BY_NAME and isinstance(value, Mapping):
            return {name: self.without(part, names) for name, part in value.items()}
        return value

    def _final_name(self, name: str, definition: Any) -> str:
        final, number = name, 1
        while final in self._contents and self._contents[final] != definition:
            number += 1
            final = f"{name}_{number}"
        self._contents[final] = definition
        return final


def allows_null(schema: _Schema, definitions: _Schema | None = None) -> bool:
    """Return whether null fits a schema. ``definitions`` are in the root of the schema."""
    if definitions is None:
        definitions = schema.get("$defs", {})
    assert definitions is not None
    seen = set()
    while (name := schema.get("$ref", "").removeprefix(_PREFIX)) in definitions and name not in seen:
        seen.add(name)
        schema = definitions[name]
    kind = schema.get("type")
    return (
        not schema.keys() & {"type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"}
        or kind == "null"
        or (isinstance(kind, list) and "null" in kind)
        or any(allows_null(part, definitions) for part in schema.get("anyOf", ()))
    )


def nullable_schema(schema: _Schema, definitions: _Schema | None = None) -> dict[str, Any]:
    """Return a schema that null fits as well."""
    if allows_null(schema, definitions):
        return dict(schema)
    if schema.keys() == {"type"}:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {"type": [*kinds, "null"]}
    if schema.keys() == {"anyOf"}:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


_LENGTHS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
}
"""Keywords outside of the strict subset, and how a description expresses them."""

_NOT_STRICT = frozenset({*_LENGTHS, "default", "uniqueItems", "title", "oneOf", "discriminator"})


def strict_schema(schema: _Schema, definitions: _Schema | None = None) -> dict[str, Any]:
    """Return a schema of the strict subset: objects are closed, and every property is required, and null if it was not.

    Raises:
        TypeError: The strict subset cannot express it.
    """
    if definitions is None:
        definitions = schema.get("$defs", {})
    assert definitions is not None
    schema = dict(schema)
    if not schema.keys() - {"description"}:
        raise TypeError("a value of any type cannot be described in strict mode")
    if "oneOf" in schema:
        schema["anyOf"] = schema["oneOf"]
    if schema.get("type") == "object":
        if schema.get("additionalProperties"):
            raise TypeError("an object with free keys cannot be described in strict mode")
        schema |= _strict_properties(schema, definitions)
    if isinstance(schema.get("items"), Mapping):
        schema["items"] = strict_schema(schema["items"], definitions)
    for key in ("anyOf", "prefixItems"):
        if key in schema:
            schema[key] = [strict_schema(part, definitions) for part in schema[key]]
    if "$defs" in schema:
        schema["$defs"] = {name: strict_schema(part, definitions) for name, part in schema["$defs"].items()}
    if "$ref" in schema and "description" in schema:  # nothing may stand beside a reference
        schema = {"anyOf": [{"$ref": schema.pop("$ref")}], **schema}
    lengths = ", ".join(text.format(schema[key]) for key, text in _LENGTHS.items() if key in schema)
    if lengths:
        schema["description"] = f"{schema.get('description', '')} {lengths[0].upper()}{lengths[1:]}.".strip()
    return {key: part for key, part in schema.items() if key not in _NOT_STRICT}


def _strict_properties(schema: _Schema, definitions: _Schema) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, part in schema.get("properties", {}).items():
        strict = strict_schema(part, definitions)
        if name not in schema.get("required", ()):
            described = {"description": strict.pop("description")} if "description" in strict else {}
            strict = {**nullable_schema(strict, definitions), **described}
        properties[name] = strict
    return {"properties": properties, "required": list(properties), "additionalProperties": False}
