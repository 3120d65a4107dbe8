"""The tools of a server that can be offered: filtered, checked and with schemas that model providers accept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codex_framework.contract.roles.tool_specs import schema_problems
from codex_plugin_mcp.servers import ServerConfig

__all__ = ["admitted", "parameters_of"]

_MAX_BYTES = 256 * 1024
"""Maximum size of a tool's description and schema, in bytes."""


def admitted(
    tools: Sequence[Mapping[str, Any]], server: ServerConfig, on_fault: Callable[[str], None]
) -> tuple[Mapping[str, Any], ...]:
    """Return the tools that may be offered, by name. The others are left out, with a sentence if they are wrong."""
    found: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            on_fault("it lists a tool without a name, which is ignored")
        elif name in found:
            on_fault(f"it lists two tools with the name {name[:80]!r}; the second is ignored")
        elif server.offers(name) and _for_the_model(tool):
            problem = _problem(tool)
            if problem is None:
                found[name] = tool
            else:
                on_fault(f"its tool {name[:80]!r} is ignored: {problem}")
    return tuple(found[name] for name in sorted(found))


def parameters_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, of the type ``object`` and with properties, which some servers omit."""
    given = tool.get("inputSchema")
    schema = {key: value for key, value in given.items() if key != "$schema"} if isinstance(given, Mapping) else {}
    schema.setdefault("type", "object")
    if not isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {}
    if isinstance(schema.get("required"), list):
        schema["required"] = [name for name in schema["required"] if name in schema["properties"]]
    return schema


def _for_the_model(tool: Mapping[str, Any]) -> bool:
    """Return whether the tool's ``_meta.ui.visibility`` includes the model. Without it, it does."""
    meta = tool.get("_meta")
    ui = meta.get("ui") if isinstance(meta, Mapping) else None
    visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
    return "model" in visibility if isinstance(visibility, (list, str)) else True


def _problem(tool: Mapping[str, Any]) -> str | None:
    given = tool.get("inputSchema")
    if given is not None and not isinstance(given, Mapping):
        return f"its inputSchema is {type(given).__name__}, not an object"
    parameters = parameters_of(tool)
    if parameters["type"] != "object":
        return f"its inputSchema has the type {str(parameters['type'])[:80]!r}, not 'object'"
    try:
        if len(json.dumps(tool)) > _MAX_BYTES:
            return f"its description and schema are larger than {_MAX_BYTES >> 10} KiB"
        problem = next(iter(schema_problems(parameters, "its inputSchema")), None)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its inputSchema is no JSON Schema: {type(error).__name__}"
    return problem
