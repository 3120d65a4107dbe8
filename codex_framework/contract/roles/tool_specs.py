"""The description of a tool for a model, and its validation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from codex_framework.contract.value import Value, field

__all__ = [
    "DeferredTool",
    "FreeformFormat",
    "FreeformSpec",
    "FunctionSpec",
    "NativeSpec",
    "ToolNamespace",
    "ToolSpec",
    "is_tool_name",
    "schema_problems",
    "spec_problems",
]


class ToolNamespace(Value):
    """A group of tools, such as all tools of one server.

    Attributes:
        name: Allowed are the same names as for tools.
        description: The common purpose of its tools.
    """

    name: str
    description: str


class FunctionSpec(Value):
    """A tool called with JSON arguments.

    Attributes:
        name: 1 to 64 of ``[a-zA-Z0-9_.-]``.
        parameters: A JSON Schema of type ``object``.
        strict: Whether the model must follow the schema (only for schemas of the strict subset).
        namespace: The group in which a model that takes groups (``ModelInfo.namespaces``) is offered the tool, if any.
        local_name: Its name within the group. The names of group and tool, joined, are a further name of the tool.
        model_only: Whether only the model itself calls it, and no program that the model writes: questions to the user, waiting.
        result: A JSON Schema of ``ToolOutput.result``, for authors of such programs. It is not sent to the model.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False
    namespace: ToolNamespace | None = None
    local_name: str = ""
    model_only: bool = False
    result: Mapping[str, Any] | None = None

    @property
    def joined_name(self) -> str | None:
        """The names of the group and of the tool in it. None without a group."""
        return None if self.namespace is None else f"{self.namespace.name}{self.local_name}"


class FreeformFormat(Value):
    """The grammar of a freeform tool. ``syntax`` is ``lark`` or ``regex``."""

    syntax: str
    definition: str


class FreeformSpec(Value):
    """A tool called with plain text that follows a grammar (wire type ``custom``)."""

    name: str
    description: str
    format: FreeformFormat


class NativeSpec(Value):
    """A tool that is native to the model (``local_shell``), sent as ``{"type": type, **options}``."""

    name: str
    type: str
    options: Mapping[str, Any] = field(factory=dict)


ToolSpec: TypeAlias = FunctionSpec | FreeformSpec | NativeSpec


class DeferredTool(Value, kw_only=True):
    """A tool that the model is not offered until a search has found it.

    Attributes:
        plugin: The plugin that offers it.
        keywords, source: As in ``Tool``.
        offered: Whether the model is offered it by now.
    """

    spec: ToolSpec
    plugin: str
    keywords: str = ""
    source: str = ""
    offered: bool = False


_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


def is_tool_name(text: str) -> bool:
    """Return whether model providers accept a text as the name of a tool."""
    return 1 <= len(text) <= 64 and not text.strip(_NAME_CHARACTERS)


_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


def spec_problems(spec: Any) -> Iterator[str]:
    """Yield the reasons why a tool's spec cannot be sent to a model."""
    if not isinstance(spec, (FunctionSpec, FreeformSpec, NativeSpec)):
        yield f"its spec is {type(spec).__name__}, not FunctionSpec, FreeformSpec or NativeSpec"
        return
    if not isinstance(spec.name, str) or not is_tool_name(spec.name):
        yield f"its name {spec.name!r} is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'"
    if isinstance(spec, NativeSpec):
        return
    description: Any = spec.description
    if not isinstance(description, str):
        yield f"its description is {type(description).__name__}, not a string"
    if isinstance(spec, FreeformSpec):
        if spec.format.syntax not in ("lark", "regex"):
            yield f"the syntax of its grammar is {spec.format.syntax!r}, not 'lark' or 'regex'"
        return
    yield from _namespace_problems(spec)
    yield from _parameter_problems(spec)


def _namespace_problems(spec: FunctionSpec) -> Iterator[str]:
    namespace: Any = spec.namespace
    if namespace is None:
        return
    if not isinstance(namespace, ToolNamespace) or not isinstance(namespace.description, str):
        yield "its namespace is not a ToolNamespace with a name and a description"
        return
    names = (namespace.name, spec.local_name, spec.joined_name)
    if not all(isinstance(name, str) and is_tool_name(name) for name in names):
        yield (
            f"its namespace {namespace.name!r} and its local_name {spec.local_name!r} are not allowed: use a-z, A-Z, 0-9, '_', '.'"
            " and '-', at most 64 together"
        )


def schema_problems(schema: object, where: str = "parameters") -> Iterator[str]:
    """Yield definite faults of a JSON Schema: parts of the wrong kind, unknown types, required names without a property."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{where} is {type(schema).__name__}, not a JSON Schema (a dict)"
        return
    kinds = schema.get("type", ())
    for kind in (kinds,) if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            yield f"{where} has the unknown type {kind!r}"
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        yield f"{where}.properties is {type(properties).__name__}, not a dict"
        return
    for name in schema.get("required", ()):
        if name not in properties:
            yield f"{where}.required names {name!r}, which is not among its properties"
    for name, part in properties.items():
        yield from schema_problems(part, f"{where}.{name}")
    if "items" in schema:
        yield from schema_problems(schema["items"], f"{where}[]")
    for word in ("anyOf", "oneOf", "allOf"):
        for number, part in enumerate(schema.get(word, ())):
            yield from schema_problems(part, f"{where}.{word}[{number}]")
    yield from _definition_problems(schema, where, schema_problems)


def _definition_problems(
    schema: Mapping[str, Any], where: str, check: Callable[[Any, str], Iterable[str]]
) -> Iterator[str]:
    definitions = schema.get("$defs", {})
    if not isinstance(definitions, Mapping):
        yield f"{where}.$defs is {type(definitions).__name__}, not a dict"
        return
    for name, part in definitions.items():
        yield from check(part, f"{where}.$defs.{name}")


def _parameter_problems(spec: FunctionSpec) -> Iterable[str]:
    parameters: Any = spec.parameters  # a plugin may violate the annotation
    if not isinstance(parameters, Mapping):
        return [f"its parameters are {type(parameters).__name__}, not a JSON Schema (a dict)"]
    if spec.parameters.get("type") != "object":
        return [f"its parameters are a schema of type {spec.parameters.get('type')!r}, not 'object'"]
    try:
        json.dumps(spec.parameters, allow_nan=False, default=_mapping)
        problems = list(schema_problems(spec.parameters))
    except (TypeError, ValueError, RecursionError) as error:
        return [f"its parameters are no JSON Schema: {error}"]
    if spec.strict and not problems:
        problems = list(_strict_problems(spec.parameters, "parameters"))
    return [f"its {problem}" for problem in problems]


def _strict_problems(schema: Any, where: str) -> Iterator[str]:
    """Yield violations of the strict subset: objects that are open, or have optional properties."""
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{where} is strict and needs additionalProperties: false"
        optional = [name for name in properties if name not in schema.get("required", ())]
        if optional:
            yield f"{where} is strict and must require {', '.join(optional)} (let it be null instead)"
    for name, part in properties.items():
        yield from _strict_problems(part, f"{where}.{name}")
    if "items" in schema:
        yield from _strict_problems(schema["items"], f"{where}[]")
    for number, part in enumerate(schema.get("anyOf", ())):
        yield from _strict_problems(part, f"{where}.anyOf[{number}]")
    yield from _definition_problems(schema, where, _strict_problems)


def _mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
