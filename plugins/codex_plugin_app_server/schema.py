"""The types of the protocol: ``protocol.json`` defines each as a JSON Schema, and values are checked against them.

The texts of errors are those of serde, which Codex uses, because clients show and sometimes parse them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from codex_framework import Value

__all__ = ["MismatchError", "Protocol", "protocol", "references"]

_PREFIX = "#/definitions/"
_TAGS = ("type", "mode", "method")
_PATH = "AbsolutePathBuf"


class MismatchError(ValueError):
    """A value is not of its type. The text is serde's."""


class Protocol(Value):
    """All types of the protocol.

    Attributes:
        definitions: The JSON Schema of each type. References have the form ``#/definitions/NAME``.
        experimental: The methods that a client gets only with the capability ``experimentalApi``.
    """

    definitions: Mapping[str, Any]
    experimental: frozenset[str]

    def methods(self, kind: str) -> Mapping[str, str | None]:
        """Return the methods of ``ClientRequest``, ``ServerRequest`` or ``ServerNotification`` with the types of their parameters."""
        found: dict[str, str | None] = {}
        for row in self.definitions[kind]["oneOf"]:
            properties = row["properties"]
            found[properties["method"]["enum"][0]] = next(iter(references(properties.get("params"))), None)
        return found

    def needs_params(self, method: str) -> bool:
        """Return whether a request of a method must have parameters."""
        rows = self.definitions["ClientRequest"]["oneOf"]
        return any("params" in row["required"] for row in rows if row["properties"]["method"]["enum"] == [method])

    def check(self, value: object, type_name: str) -> None:
        """Check that a value has a type.

        Raises:
            MismatchError: It has not.
        """
        self._check(value, self.definitions[type_name], type_name)

    def check_none(self, value: object) -> None:
        """Check the parameters of a method without parameters: they must be missing, null or empty. Raises MismatchError."""
        if value not in (None, {}):
            raise MismatchError(f"invalid type: {_describe_value(value)}, expected unit")

    def reachable(self, type_names: Iterable[str]) -> dict[str, Any]:
        """Return the definitions of some types and of all types that they use, by name."""
        found: dict[str, Any] = {}
        waiting = list(type_names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.definitions[name]
                waiting.extend(references(found[name]))
        return dict(sorted(found.items()))

    def _check(self, value: object, schema: Any, name: str) -> None:
        if schema is True or not schema:
            return
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_PREFIX)
            self._check(value, self.definitions[name], name)
        elif "allOf" in schema:
            for part in schema["allOf"]:
                self._check(value, part, name)
        elif "anyOf" in schema or "oneOf" in schema:
            self._check_union(value, schema.get("anyOf") or schema["oneOf"], name)
        elif "enum" in schema:
            if value not in schema["enum"]:
                _fail_variant(value, schema["enum"])
        elif "type" in schema:
            self._check_type(value, schema, name)

    def _check_union(self, value: object, branches: Sequence[Any], name: str) -> None:
        rest = [branch for branch in branches if branch != {"type": "null"}]
        if len(rest) < len(branches):
            if value is None:
                return
            if len(rest) == 1:
                self._check(value, rest[0], name)
                return
        words = [word for branch in rest for word in branch.get("enum", ()) if isinstance(word, str)]
        if words and not any(_takes_text(branch) for branch in rest) and not isinstance(value, Mapping):
            if value not in words:
                _fail_variant(value, [*words, *(key for branch in rest for key in branch.get("required", ()))])
            return
        tag = next((tag for tag in _TAGS if all(_tag_of(branch, tag) for branch in rest)), None)
        if tag is not None:
            self._check_tagged(value, rest, tag, name)
            return
        problems: list[MismatchError] = []
        for branch in rest:
            try:
                self._check(value, branch, name)
            except MismatchError as problem:
                problems.append(problem)
            else:
                return
        if len(problems) == 1:
            raise problems[0]
        raise MismatchError(f"data did not match any variant of untagged enum {name}")

    def _check_tagged(self, value: object, branches: Sequence[Any], tag: str, name: str) -> None:
        if not isinstance(value, Mapping):
            raise MismatchError(f"invalid type: {_describe_value(value)}, expected internally tagged enum {name}")
        if tag not in value:
            raise MismatchError(f"missing field `{tag}`")
        matching = [branch for branch in branches if value[tag] in _tag_of(branch, tag)]
        if not matching:
            _fail_variant(value[tag], [word for branch in branches for word in _tag_of(branch, tag)])
        problem: MismatchError | None = None
        for branch in matching:
            try:
                self._check(value, branch, name)
            except MismatchError as error:
                problem = problem or error
            else:
                return
        if problem is not None:
            raise problem

    def _check_type(self, value: object, schema: Mapping[str, Any], name: str) -> None:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_IS[kind](value) for kind in kinds):
            raise MismatchError(f"invalid type: {_describe_value(value)}, expected {_expectation(schema, kinds, name)}")
        if name == _PATH and not str(value).startswith("/"):
            raise MismatchError("AbsolutePathBuf deserialized without a base path")
        if isinstance(value, Mapping) and "object" in kinds:
            properties = schema.get("properties", {})
            others = schema.get("additionalProperties")
            for key, part in value.items():
                if key in properties:
                    self._check(part, properties[key], name)
                elif isinstance(others, Mapping):
                    self._check(part, others, name)
            for key in schema.get("required", ()):
                if key not in value:
                    raise MismatchError(f"missing field `{key}`")
        elif isinstance(value, list):
            for part in value:
                self._check(part, schema.get("items", True), name)
        elif isinstance(value, int) and value not in _RANGES.get(schema.get("format", ""), (value,)):
            raise MismatchError(f"invalid value: {_describe_value(value)}, expected {_number(schema, 'integer')}")


@functools.cache
def protocol() -> Protocol:
    """Return the types of the protocol. They are read once."""
    text = Path(__file__).with_name("protocol.json").read_text("utf-8")
    read = json.loads(text)
    return Protocol(read["definitions"], frozenset(read["experimental"]))


_IS: Mapping[str, Any] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
}


def _expectation(schema: Mapping[str, Any], kinds: Sequence[str], name: str) -> str:
    match next(kind for kind in kinds if kind != "null"):
        case "boolean":
            return "a boolean"
        case "integer" | "number" as kind:
            return _number(schema, kind)
        case "string":
            return "path string" if name == _PATH else "a string"
        case "array":
            return "a sequence"
        case _:
            return f"struct {name}" if "properties" in schema else "a map"


_NUMBERS = {
    "double": "f64",
    "uint": "usize",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""How serde names the formats of numbers."""


_RANGES = {
    "uint": range(1 << 64),
    **{f"uint{bits}": range(1 << bits) for bits in (8, 16, 32, 64)},
    **{f"int{bits}": range(-1 << bits - 1, 1 << bits - 1) for bits in (8, 16, 32, 64)},
}


def _number(schema: Mapping[str, Any], kind: str) -> str:
    return _NUMBERS.get(schema.get("format", ""), kind)


def _describe_value(value: object) -> str:
    """Return a value as serde names it in errors."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{value}`"
        case str():
            return f"string {json.dumps(value, ensure_ascii=False)}"
        case list():
            return "sequence"
        case _:
            return "map"


def _fail_variant(value: object, words: Sequence[str]) -> None:
    if not isinstance(value, str):
        raise MismatchError(f"invalid type: {_describe_value(value)}, expected string or map")
    shown = [f"`{word}`" for word in words]
    if len(shown) > 2:
        raise MismatchError(f"unknown variant `{value}`, expected one of {', '.join(shown)}")
    raise MismatchError(f"unknown variant `{value}`, expected {' or '.join(shown)}")


def _tag_of(branch: Mapping[str, Any], tag: str) -> Sequence[str]:
    """Return the values of a branch's tag. Empty if it has no such tag."""
    schema = branch.get("properties", {}).get(tag)
    return cast("Sequence[str]", schema.get("enum", ())) if isinstance(schema, Mapping) else ()


def _takes_text(branch: Mapping[str, Any]) -> bool:
    kinds = branch.get("type")
    return "enum" not in branch and "string" in (kinds if isinstance(kinds, list) else [kinds])


def references(schema: Any) -> Iterable[str]:
    """Yield the names of the types that a schema refers to."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_PREFIX)
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)
