"""The tools of a server that can be offered: filtered, checked and with schemas that model providers accept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codex_lib_model_client.tool_schemas import normalised_schema
from codex_plugin_mcp.servers import ServerConfig

__all__ = ["admitted", "describe_tool"]

_MAX_BYTES = 256 * 1024
"""Maximum size of a tool's description, and of its schema, in bytes."""

_TOO_LARGE = "The schema of its arguments is too large to be shown."


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
            found[name] = tool
    return tuple(found[name] for name in sorted(found))


def describe_tool(tool: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the description of a tool for the model, and the schema of its arguments in the form that model servers accept.

    Constraints that this form cannot express are added to the description.
    """
    described = tool.get("description")
    given = tool.get("inputSchema")
    if isinstance(given, Mapping):
        given = {key: value for key, value in given.items() if key != "$schema"}
    if len(json.dumps(given)) > _MAX_BYTES:
        given, note = None, _TOO_LARGE
    else:
        given, note = normalised_schema(given)
    parts = (described[:_MAX_BYTES] if isinstance(described, str) else "", note)
    return "\n\n".join(part for part in parts if part), given or normalised_schema(None).schema


def _for_the_model(tool: Mapping[str, Any]) -> bool:
    """Return whether the tool's ``_meta.ui.visibility`` includes the model. Without it, it does."""
    meta = tool.get("_meta")
    ui = meta.get("ui") if isinstance(meta, Mapping) else None
    visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
    return "model" in visibility if isinstance(visibility, (list, str)) else True
