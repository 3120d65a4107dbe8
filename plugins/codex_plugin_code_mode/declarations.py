"""JSON Schemas as TypeScript types, which models read more easily."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from codex_framework import FreeformSpec, FunctionSpec

__all__ = ["declaration", "identifier"]

_DEEPEST = 8
_LONGEST = 20_000
"""Maximum nesting and maximum length of one type. Anything beyond is ``unknown``."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_$]")
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SIMPLE = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def identifier(name: str) -> str:
    """Return the name of a tool as a name in JavaScript."""
    found = _NOT_IN_NAMES.sub("_", name)
    return found if _PLAIN.fullmatch(found) else f"_{found}"


def declaration(spec: FunctionSpec | FreeformSpec) -> str:
    """Return the declaration of a tool as a method of ``tools``."""
    name = identifier(spec.name)
    if isinstance(spec, FreeformSpec):
        return f"declare const tools: {{ {name}(input: string): Promise<unknown>; }};"
    given = _bounded_type(spec.parameters, spec.parameters)
    result = "unknown" if spec.result is None else _bounded_type(spec.result, spec.result)
    return f"declare const tools: {{ {name}(args: {given}): Promise<{result}>; }};"


def _bounded_type(schema: Any, root: Mapping[str, Any]) -> str:
    text = _type(schema, root, 0)
    return text if len(text) <= _LONGEST else "unknown"


def _type(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return "unknown"
    if isinstance(schema.get("$ref"), str):
        return _type(_definition(schema["$ref"], root), root, depth + 1)
    if isinstance(schema.get("enum"), (list, tuple)):
        return " | ".join(map(_literal, schema["enum"])) or "never"
    if "const" in schema:
        return _literal(schema["const"])
    for key, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if isinstance(schema.get(key), (list, tuple)) and schema[key]:
            return sign.join(dict.fromkeys(_type(part, root, depth + 1) for part in schema[key]))
    kind = schema.get("type")
    if isinstance(kind, (list, tuple)):
        return " | ".join(dict.fromkeys(_type({**schema, "type": each}, root, depth + 1) for each in kind)) or "unknown"
    if kind == "array":
        return f"Array<{_type(schema.get('items'), root, depth + 1)}>"
    if kind == "object" or (kind is None and "properties" in schema):
        return _object(schema, root, depth)
    return _SIMPLE.get(str(kind), "unknown")


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        if schema.get("additionalProperties") is False or not depth:
            return "{}"
        return f"Record<string, {_type(schema.get('additionalProperties'), root, depth + 1)}>"
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, (list, tuple)) else set()
    lines = _members(properties, needed, root, depth)
    return "\n".join(["{", *(f"  {line}" for line in lines), "}"])


def _members(properties: Mapping[str, Any], needed: set[str], root: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, part in sorted(properties.items()):
        described = part.get("description") if isinstance(part, Mapping) else None
        if isinstance(described, str) and described.strip():
            yield from (f"// {line}" for line in described.strip().splitlines())
        key = name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        member = f"{key}{'' if name in needed else '?'}: {_type(part, root, depth + 1)};"
        yield from member.split("\n")


def _definition(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within the schema, or None for any other reference."""
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if reference.startswith("#/") and isinstance(found, Mapping) else None
    return found


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
