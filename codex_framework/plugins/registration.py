"""Looks at a tool once, when it is registered: its form is checked, and its optional abilities are found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from codex_framework.plugins.validation import role_problems
from codex_framework.protocol.events import EventMsg
from codex_framework.roles.tools import (
    Aliased,
    BringsPrograms,
    FreeformSpec,
    FunctionSpec,
    NativeSpec,
    Offered,
    ParallelSafe,
    StreamsArguments,
    SuitsModel,
    Tool,
    ToolSpec,
    TurnFacts,
)
from codex_framework.value import Value

__all__ = ["TOOL_NAME", "RegisteredTool", "registered_tool", "schema_problems", "spec_problems"]

TOOL_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
"""What model providers accept as a tool's name."""

_ABILITIES: Mapping[str, Any] = {
    "aliases": Aliased,
    "offered": Offered,
    "parallel_safe": ParallelSafe,
    "preview": StreamsArguments,
    "programs": BringsPrograms,
    "spec_for": SuitsModel,
}
"""The optional abilities, by the member that shows them."""

_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


class RegisteredTool(Value, kw_only=True):
    """A tool with what is known of it.

    Attributes:
        plugin: The name of the plugin that offers it.
        spec: Read once.
        parallel: Whether its calls may overlap with those of other such tools.
        aliases: Other names it answers to.
        offered: Whether to offer it in a turn; None: always.
        preview: Takes input that is still being written; None: it does not care.
        programs: Commands it puts on the ``PATH`` of what the model runs.
        spec_for: Its form in a turn; None: ``spec``.
    """

    tool: Tool
    plugin: str
    spec: ToolSpec
    parallel: bool = False
    aliases: tuple[str, ...] = ()
    offered: Callable[[TurnFacts], bool] | None = None
    preview: Callable[[str, str], EventMsg | None] | None = None
    programs: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    spec_for: Callable[[TurnFacts], ToolSpec] | None = None


def registered_tool(plugin: str, tool: Any) -> tuple[RegisteredTool | None, list[str]]:
    """The tool, or every reason why it cannot be used."""
    problems = role_problems(tool, Tool)
    if problems:
        return None, problems
    problems = list(spec_problems(tool.spec))
    able = [name for name in _ABILITIES if _has(tool, name)]
    for name in able:
        problems += role_problems(tool, _ABILITIES[name])
    if problems:
        return None, problems
    try:
        registered = RegisteredTool(
            tool=tool,
            plugin=plugin,
            spec=tool.spec,
            parallel="parallel_safe" in able and bool(tool.parallel_safe),
            aliases=tuple(tool.aliases) if "aliases" in able else (),
            offered=tool.offered if "offered" in able else None,
            preview=tool.preview if "preview" in able else None,
            programs=dict(tool.programs) if "programs" in able else {},
            spec_for=tool.spec_for if "spec_for" in able else None,
        )
    except (TypeError, ValueError) as error:
        return None, [f"its abilities cannot be read: {error}"]
    problems = list(_ability_problems(registered))
    return (None, problems) if problems else (registered, [])


def _has(tool: Any, name: str) -> bool:
    try:
        return hasattr(tool, name)
    except Exception:  # a property that raises is there; the check of its role tells what is wrong with it
        return True


def _ability_problems(registered: RegisteredTool) -> Iterator[str]:
    for alias in registered.aliases:
        if not isinstance(alias, str) or not TOOL_NAME.match(alias):
            yield f"its alias {alias!r} is no tool name: 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'"
    for name, argv in registered.programs.items():
        if not isinstance(name, str) or not name or "/" in name or not _words(argv):
            yield f"its program {name!r} does not stand for a list of words (with a name that is no path)"


def spec_problems(spec: Any) -> Iterator[str]:
    """Why a tool's spec cannot be sent to a model."""
    if not isinstance(spec, (FunctionSpec, FreeformSpec, NativeSpec)):
        yield f"its spec is {type(spec).__name__}, not FunctionSpec, FreeformSpec or NativeSpec"
        return
    if not isinstance(spec.name, str) or not TOOL_NAME.match(spec.name):
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
    yield from _parameter_problems(spec)


def schema_problems(schema: object, where: str = "parameters") -> Iterator[str]:
    """What is surely wrong with a JSON Schema: parts of the wrong kind, unknown types, required names without a property."""
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


def _parameter_problems(spec: FunctionSpec) -> Iterable[str]:
    parameters: Any = spec.parameters  # a plugin need not keep to the annotation
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
    """What the strict subset forbids: objects that are open, or have optional properties."""
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


def _words(argv: object) -> bool:
    return isinstance(argv, (list, tuple)) and bool(argv) and all(isinstance(word, str) for word in argv)


def _mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
