"""Parses a client's definitions of tools, and reports invalid ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codex_framework import FunctionSpec, Value
from codex_framework.contract.roles.tool_specs import spec_problems
from codex_lib_model_client.tool_schemas import normalised_schema

__all__ = ["Definition", "definitions"]

_SEPARATOR = "__"
_MCP = "mcp__"


class Definition(Value, kw_only=True):
    """One tool.

    Attributes:
        spec: The spec for the model.
        namespace, name: As in the client's definition, used in requests to it.
        deferred: Whether it is offered only once a tool search has found it.
    """

    spec: FunctionSpec
    name: str
    namespace: str | None = None
    deferred: bool = False


def definitions(given: object) -> tuple[list[Definition], list[str]]:
    """Return the valid tools, and a sentence for each invalid one.

    Args:
        given: ``[{"namespace"?, "name", "description", "inputSchema", "deferLoading"?}]``. An entry of the type ``namespace`` groups
            others: ``{"type": "namespace", "name", "tools": [...]}``.
    """
    found: dict[str, Definition] = {}
    problems: list[str] = []
    for place, namespace, raw in _entries(given, problems):
        definition, reasons = _definition(raw, namespace)
        if definition is not None and definition.spec.name in found:
            reasons = [f"another tool has the name {definition.spec.name!r}"]
        if definition is None or reasons:
            problems.append(f"{place} is ignored: {'; '.join(reasons)}")
        else:
            found[definition.spec.name] = definition
    return list(found.values()), problems


def _entries(given: object, problems: list[str]) -> Iterator[tuple[str, object, Mapping[str, Any]]]:
    """Yield each entry with its place and its namespace."""
    if not isinstance(given, (list, tuple)):
        problems.append(f"`dynamic_tools` is {type(given).__name__}, not a list: the thread has no dynamic tools")
        return
    for number, entry in enumerate(given):
        place = f"the dynamic tool {_entry_name(entry, number)}"
        if not isinstance(entry, Mapping):
            problems.append(f"{place} is ignored: it is {type(entry).__name__}, not an object")
        elif entry.get("type") != "namespace":
            yield place, entry.get("namespace"), entry
        elif isinstance(entry.get("tools"), (list, tuple)):
            yield from _group_entries(entry, number, problems)
        else:
            problems.append(f"{place} is ignored: it is a namespace, and its `tools` are not a list")


def _group_entries(
    group: Mapping[str, Any], number: int, problems: list[str]
) -> Iterator[tuple[str, object, Mapping[str, Any]]]:
    for inner, entry in enumerate(group["tools"]):
        place = f"the dynamic tool {_entry_name(entry, inner)} in {_entry_name(group, number)}"
        if isinstance(entry, Mapping):
            yield place, group.get("name", ""), entry
        else:
            problems.append(f"{place} is ignored: it is {type(entry).__name__}, not an object")


def _entry_name(entry: object, number: int) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return repr(name) if isinstance(name, str) and name else f"number {number + 1}"


def _definition(raw: Mapping[str, Any], namespace: object) -> tuple[Definition | None, list[str]]:
    reasons = list(_type_problems(raw, namespace))
    if reasons:
        return None, reasons
    name = raw["name"]
    whole = f"{namespace}{_SEPARATOR}{name}" if namespace else name
    if whole.startswith(_MCP):
        return None, [f"names that begin with {_MCP!r} belong to MCP servers"]
    schema, note = normalised_schema(raw["inputSchema"])
    spec = FunctionSpec(whole, "\n\n".join(filter(None, (raw["description"], note))), schema)
    reasons = list(spec_problems(spec))
    if reasons:
        return None, reasons
    deferred = raw.get("deferLoading") or False
    return Definition(spec=spec, name=name, namespace=str(namespace) if namespace else None, deferred=deferred), []


def _type_problems(raw: Mapping[str, Any], namespace: object) -> Iterator[str]:
    for key in ("name", "description"):
        if not isinstance(raw.get(key), str):
            yield f"its `{key}` is {_kind(raw, key)}, not a string"
    if raw.get("name") == "":
        yield "its `name` is empty"
    if not isinstance(raw.get("inputSchema"), Mapping):
        yield f"its `inputSchema` is {_kind(raw, 'inputSchema')}, not a JSON Schema (an object)"
    if not isinstance(raw.get("deferLoading", False), bool | None):
        yield f"its `deferLoading` is {_kind(raw, 'deferLoading')}, not true or false"
    if not isinstance(namespace, str | None):
        yield f"its namespace is {type(namespace).__name__}, not a string"
    if raw.get("type", "function") != "function":
        yield f"its `type` is {raw['type']!r}, not 'function' or 'namespace'"


def _kind(raw: Mapping[str, Any], key: str) -> str:
    return type(raw[key]).__name__ if raw.get(key) is not None else "missing"
