"""Repairs of schemas that model servers would refuse; see :mod:`codex_lib_model_client.tool_schemas`. Few threads need it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

__all__ = ["repaired_schema"]

_DEEPEST = 64
"""How many schemas may be nested in one another."""

_MOST_PARTS = 20_000
_LONGEST = 1_000_000
"""The most schemas within one schema, and the most characters of its texts. A larger one keeps the names of the arguments only."""

_MOST_NAMES = 200
_LONGEST_NOTE = 2_000
_LONGEST_PATTERN = 2_000
_TOO_LARGE = "The schema of the arguments is too large to be shown."

_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_TYPES_BY_WORD = {
    **{kind: kind for kind in _TYPES},
    **dict.fromkeys(("str", "text", "char", "date", "datetime", "date-time", "uuid", "uri", "url", "file"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "long", "short", "uint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal", "numeric"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("dict", "map", "mapping", "record", "struct", "hash"), "object"),
    **dict.fromkeys(("list", "tuple", "set", "sequence"), "array"),
    **dict.fromkeys(("none", "nil"), "null"),
}
"""The types, by the words with which servers of tools name them. A schema with another word takes any value."""

_COMBINED = ("allOf", "anyOf", "oneOf")
_ONLY_BELOW_ROOT = (*_COMBINED, "not", "enum", "const")
"""Keywords that servers refuse in the root of a schema."""

_REFINING = (("anyOf",), ("oneOf",), ("not",), ("if", "then", "else"))
"""Keywords whose schemas may only say more about the properties beside them. The keywords of a group belong together."""

_ARRAY_WORDS = ("items", "prefixItems", "additionalItems")


def repaired_schema(parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return a schema that model servers accept, and the constraints that it can no longer express."""
    try:
        found, note = _Normaliser(parameters).root()
        while found is not parameters:  # what was dropped may have been the target of a reference
            parameters, (found, _) = found, _Normaliser(found).root()
        return found, note
    except (_TooLargeError, RecursionError):
        names = parameters.get("properties")
        known = [name for name in names if isinstance(name, str)] if isinstance(names, Mapping) else []
        properties: dict[str, Any] = {name: {} for name in known[:_MOST_NAMES]}
        return {"type": "object", "properties": properties}, _TOO_LARGE


class _TooLargeError(Exception):
    """A schema has more parts or longer texts than a request should carry."""


class _Normaliser:
    """Normalises one schema.

    Attributes:
        hoisted: Referenced definitions of inner schemas, for the root.
    """

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._parts = self._length = 0
        self._inner: dict[str, Any] | None = None
        self.hoisted: dict[str, Any] = {}

    def root(self) -> tuple[Mapping[str, Any], str]:
        """Return the whole schema: an object without combinators in its root."""
        schema, lost = self._without_combinators(self._whole, frozenset())
        schema.pop("$schema", None)
        if schema.get("type") != "object":
            schema["type"] = "object"
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            schema["properties"] = {}
        found = self.schema(schema, 0)
        waiting = dict(self.hoisted)
        definitions: dict[str, Any] = {}
        while waiting:  # a definition may lead to further ones
            name, definition = waiting.popitem()
            definitions[name] = {}
            definitions[name] = self.schema(definition, 1)
            waiting |= {name: part for name, part in self.hoisted.items() if name not in definitions}
        if definitions:
            found["$defs"] = {**definitions, **found.get("$defs", {})}
        note = f"The arguments must also follow this JSON schema:\n{_json(lost)}" if lost else ""
        note = note if len(note) <= _LONGEST_NOTE else ""
        return (self._whole if found == self._whole else found), note

    def schema(self, schema: Any, depth: int) -> dict[str, Any]:
        """Return a schema without the keywords that cannot be expressed."""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _TooLargeError
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return {}
        found: dict[str, Any] = {}
        lost: dict[str, Any] = {}
        for word, value in schema.items():
            if not isinstance(word, str):
                continue
            self._count(word)
            kept = self._value(word, value, depth)
            if kept is not None or (value is None and word in ("default", "const")):
                found[word] = kept
        _convert_bounds(schema, found)
        self._convert_array(schema, found, lost, depth)
        self._require(schema, found)
        self._drop_refinements(schema, found, lost)
        if lost and len(text := _json(lost)) <= _LONGEST_NOTE:
            described = found.get("description")
            found["description"] = f"{described}\n\n" * bool(described) + f"Must also follow this JSON schema: {text}"
        return found

    def _value(self, word: str, value: Any, depth: int) -> Any:
        """Return the value of a keyword, or None if the keyword is dropped."""
        if word in _ARRAY_WORDS:
            return value  # what it becomes depends on other keywords
        if word == "required":
            return value if _is_list(value) else None
        if word in _CHECKS:
            return value if _CHECKS[word](value) and self._fits(value) else None
        match word:
            case "type":
                return _type(value)
            case "$ref":
                return self._reference(value)
            case "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions":
                return self._named_schemas(word, value, depth)
            case "allOf" | "anyOf" | "oneOf":
                return self._branches(value, depth)
            case "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems":
                if isinstance(value, bool):
                    return value
                return self.schema(value, depth + 1) if isinstance(value, Mapping) else None
            case "not" | "if" | "then" | "else" | "contains" | "propertyNames":
                return self.schema(value, depth + 1) if isinstance(value, Mapping) else None
            case _:
                return value if self._fits(value) else None

    def _fits(self, value: Any) -> bool:
        """Return whether a value is JSON."""
        if isinstance(value, str):
            self._count(value)
            return True
        if isinstance(value, (bool, int)):
            return True
        try:
            self._count(json.dumps(value, allow_nan=False, default=_plain))
        except (TypeError, ValueError, RecursionError):
            return False
        return True

    def _count(self, text: str) -> None:
        self._length += len(text)
        if self._length > _LONGEST:
            raise _TooLargeError

    def _named_schemas(self, word: str, value: Any, depth: int) -> dict[str, Any] | None:
        """Return schemas by name. A property for which there is no value (false) is dropped."""
        if not isinstance(value, Mapping):
            return None
        found = {}
        for name, part in value.items():
            if not isinstance(name, str) or part is False or (word == "patternProperties" and not _is_pattern(name)):
                continue
            self._count(name)
            found[name] = self.schema(part, depth + 1)
        return found

    def _branches(self, value: Any, depth: int) -> list[Any] | None:
        if not isinstance(value, (list, tuple)):
            return None
        return [self.schema(part, depth + 1) for part in value if isinstance(part, Mapping) or part is True] or None

    def _convert_array(
        self, schema: Mapping[str, Any], found: dict[str, Any], lost: dict[str, Any], depth: int
    ) -> None:
        """Give an array one schema for all of its items, which some servers demand. They take none for each place."""
        kinds = found.get("type", ())
        items, prefix, rest = (schema.get(word) for word in _ARRAY_WORDS)
        for word in _ARRAY_WORDS:
            if not (word == "items" and isinstance(items, Mapping)):
                found.pop(word, None)
        if isinstance(items, (list, tuple)):
            prefix, items = items, rest  # as earlier drafts write it
        if isinstance(prefix, (list, tuple)) and prefix:
            lost["prefixItems"] = list(prefix)
            places: list[Any] = []
            for part in [*prefix, *([items] if isinstance(items, Mapping) else [])]:
                if (place := self.schema(part, depth + 1)) not in places:
                    places.append(place)
            found["items"] = {} if {} in places else places[0] if len(places) == 1 else {"anyOf": places}
            if items is False:
                found.setdefault("maxItems", len(prefix))
        elif isinstance(items, Mapping):
            found["items"] = self.schema(items, depth + 1)
        elif items is False:
            found["items"], found["maxItems"] = {}, 0
        elif items is True or kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
            found["items"] = {}

    def _require(self, schema: Mapping[str, Any], found: dict[str, Any]) -> None:
        """Require those properties that the schema has. Draft 3 says it in the property."""
        properties = found.get("properties", {})
        names = _names(schema)
        own = schema.get("properties")
        for name, part in own.items() if isinstance(own, Mapping) else ():
            if isinstance(part, Mapping) and part.get("required") is True:
                names.append(name)
        kept = list(dict.fromkeys(name for name in names if name in properties))
        if kept:
            found["required"] = kept
        elif schema.get("required"):
            found.pop("required", None)

    def _drop_refinements(self, schema: Mapping[str, Any], found: dict[str, Any], lost: dict[str, Any]) -> None:
        """Drop schemas that require properties beside them, which servers look for in the schemas themselves."""
        if any(map(_requires_others, _as_list(schema.get("allOf")))):
            lost["allOf"] = [part for part in _as_list(schema["allOf"]) if _requires_others(part)]
            found["allOf"] = [part for part in found.get("allOf", ()) if part]
            if not found["allOf"]:
                del found["allOf"]
        for words in _REFINING:
            values = {word: schema[word] for word in words if word in found}
            if any(_requires_others(part) for value in values.values() for part in _as_list(value) or [value]):
                lost |= values
                for word in values:
                    del found[word]

    # References

    def _reference(self, value: Any) -> str | None:
        """Return a reference to a schema."""
        if not isinstance(value, str):
            return None
        seen = set()
        pointer: Any = value
        while isinstance(pointer, str):
            target = None if pointer in seen else self._target(pointer)
            if target is None:
                return self._root_reference(value)
            seen.add(pointer)
            pointer = target.get("$ref")
        return value

    def _target(self, pointer: str) -> Mapping[str, Any] | None:
        """Return the schema that a reference points to."""
        if not pointer.startswith("#"):
            return None
        target: Any = self._whole
        for step in pointer[1:].split("/")[1:] if pointer != "#" else ():
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping):
                target = target.get(key)
            elif isinstance(target, (list, tuple)) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                return None
        return target if isinstance(target, Mapping) and (pointer == "#" or pointer.startswith("#/")) else None

    def _root_reference(self, pointer: str) -> str | None:
        """Return a reference to a definition in the root instead of one in the schema that refers to it."""
        kind, _, name = pointer.rpartition("/")
        if kind not in ("#/$defs", "#/definitions"):
            return None
        if self._inner is None:
            self._inner = dict(_definitions(self._whole))
        definition = self._inner.get(name)
        if not isinstance(definition, Mapping) or definition.get("$ref") == pointer:
            return None
        self.hoisted[name] = definition
        return f"#/$defs/{name}"

    def _inline(self, schema: Mapping[str, Any], outer: frozenset[str]) -> tuple[dict[str, Any], frozenset[str]]:
        """Return a schema with the keywords of the referenced schema.

        Args:
            outer: The references that led to the schema. They are not followed again. Newly followed references are added.
        """
        found = dict(schema)
        while (pointer := found.pop("$ref", None)) is not None:
            target = self._target(pointer) if isinstance(pointer, str) and pointer not in outer else None
            if target is not None:
                outer |= {pointer}
                found = {**target, **found}
        return found, outer

    def _without_combinators(
        self, schema: Mapping[str, Any], outer: frozenset[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a schema of an object with the properties of its branches, and the constraints that are lost with its combinators."""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _TooLargeError
        whole, outer = self._inline(schema, outer)
        lost = {word: whole[word] for word in _ONLY_BELOW_ROOT if whole.get(word)}
        found = {word: value for word, value in whole.items() if word not in _ONLY_BELOW_ROOT}
        properties: dict[str, Any] = {}
        required = list(_names(found))
        for word in _COMBINED:
            branches = [
                self._without_combinators(branch, outer)[0]
                for branch in _as_list(lost.get(word))
                if isinstance(branch, Mapping)
            ]
            for branch in branches:
                own = branch.get("properties")
                properties = {**(own if isinstance(own, Mapping) else {}), **properties}
                if word == "allOf":
                    required += _names(branch)
            if word != "allOf" and branches:
                required += [name for name in _names(branches[0]) if all(name in _names(part) for part in branches[1:])]
        own = found.get("properties")
        if properties:
            found["properties"] = {**properties, **(own if isinstance(own, Mapping) else {})}
        if required:
            found["required"] = list(dict.fromkeys(required))
        return found, lost


def _names(schema: Mapping[str, Any]) -> list[str]:
    return [name for name in _as_list(schema.get("required")) if isinstance(name, str)]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _requires_others(branch: Any) -> bool:
    """Return whether a schema requires properties that it does not have itself."""
    if not isinstance(branch, Mapping):
        return False
    own = branch.get("properties")
    return any(name not in (own if isinstance(own, Mapping) else ()) for name in _names(branch))


def _definitions(schema: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the definitions of the schemas within a schema. Definitions of outer schemas come last, so that they win."""
    if depth > _DEEPEST:
        return
    if isinstance(schema, Mapping):
        for value in schema.values():
            yield from _definitions(value, depth + 1)
        for word in ("definitions", "$defs"):
            if isinstance(own := schema.get(word), Mapping):
                yield from own.items()
    elif isinstance(schema, (list, tuple)):
        for value in schema:
            yield from _definitions(value, depth + 1)


def _type(value: Any) -> str | list[str] | None:
    """Return types by the names of JSON Schema, or None if a value of any type may follow."""
    words = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    kinds = [_TYPES_BY_WORD.get(word.lower()) if isinstance(word, str) else None for word in words]
    known = list(dict.fromkeys(kind for kind in kinds if kind is not None))
    if not known or None in kinds:
        return None
    return known[0] if isinstance(value, str) else known


def _convert_bounds(schema: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Write exclusive bounds as numbers. Draft 4 has a flag beside the bound."""
    for word, other in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(word) is True and other in found:
            found[word] = found.pop(other)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == value // 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_choice(value: Any) -> bool:
    return _is_list(value) and len(value) > 0


def _is_pattern(value: Any) -> bool:
    """Return whether a text is a regular expression for Python, with which OpenAI checks it."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN:
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_names_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_list(names) and all(isinstance(name, str) for name in names) for names in value.values()
    )


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("$id", "$schema", "$anchor", "$comment", "$dynamicRef", "$dynamicAnchor"), _is_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    "examples": _is_list,
    "enum": _is_choice,
    "pattern": _is_pattern,
    "dependentRequired": _is_names_by_name,
}
"""Keywords whose values servers check, and how."""


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError):
        return ""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
