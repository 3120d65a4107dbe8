"""Types of tool arguments that contain themselves, and the definitions that a JSON Schema refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.toolkit.argument_types import ArgumentType

__all__ = ["Named", "NamedTypes", "with_definitions", "without_root_reference"]

_PREFIX = "#/$defs/"


class Named:
    """A type with a name that parts of it refer to.

    Attributes:
        name: The name of the definition in the schema.
        target: The type. It is set when the type has been built; None until then.
        used: Whether something refers to it.
    """

    structured = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.target: ArgumentType | None = None
        self.used = False
        self._open = False

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`. A type that contains itself at its top has only its name."""
        if self._open:
            return self.name
        self._open = True
        try:
            return self._built.noun
        finally:
            self._open = False

    @property
    def nullable(self) -> bool:
        """Whether null is a valid value."""
        from codex_framework.toolkit.argument_types import takes_null

        if self._open:
            return False
        self._open = True
        try:
            return takes_null(self._built)
        finally:
            self._open = False

    @property
    def _built(self) -> ArgumentType:
        if self.target is None:
            raise TypeError(f"{self.name} refers to itself without anything between")
        return self.target

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Return a reference. Outside of the definition itself, the definition comes with it."""
        reference: dict[str, Any] = {"$ref": f"{_PREFIX}{self.name}"}
        if not self._open:
            self._open = True
            try:
                reference["$defs"] = {self.name: self._built.schema(strict=strict)}
            finally:
                self._open = False
        return reference

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        return self._built.read(value, where, problems)


class NamedTypes:
    """The named types of one tool, by what they stand for."""

    def __init__(self) -> None:
        self._types: dict[Any, Named] = {}

    def known(self, kind: Any) -> Named | None:
        """Return the named type of a class or alias, or None if nothing has referred to it yet."""
        named = self._types.get(kind)
        return named if named is not None and named.used and named.target is not None else None

    def reference(self, kind: Any) -> Named:
        """Return the named type of a class or alias that is being built."""
        named = self._types[kind]
        named.used = True
        return named

    def open(self, kind: Any) -> None:
        """Begin with a class or alias. Until it is closed, parts of it may refer to it."""
        if kind not in self._types:
            same = sum(other.__name__ == kind.__name__ for other in self._types)
            self._types[kind] = Named(kind.__name__ if not same else f"{kind.__name__}_{same + 1}")

    def close(self, kind: Any, target: ArgumentType) -> ArgumentType:
        """Return the type of a finished class or alias: by its name if something refers to it, and plain if nothing does."""
        named = self._types[kind]
        if not named.used:
            return target
        named.target = target
        return named


def with_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with all definitions of its parts in its root, which is where references look for them.

    If two definitions have the same name and different content, one of them gets another name.
    """
    found = _Definitions()
    whole = found.without(schema, {})
    return {**whole, "$defs": found.hoisted} if found.hoisted else whole


def without_root_reference(schema: Mapping[str, Any]) -> dict[str, Any]:
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
        self._given: dict[str, Any] = {}

    def without(self, schema: Any, names: Mapping[str, str]) -> Any:
        """Return a schema without definitions of its own, and with the final names in its references."""
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(own := schema.get("$defs"), Mapping):
            names = {**names, **{name: self._take(name, definition) for name, definition in own.items()}}
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

    def _take(self, name: str, definition: Any) -> str:
        """Return the final name of a definition."""
        final, number = name, 1
        while final in self._given and self._given[final] != definition:
            number += 1
            final = f"{name}_{number}"
        self._given[final] = definition
        return final
