"""The ``tool_search`` tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework import (
    Argument,
    DeferredTool,
    FreeformSpec,
    FunctionSpec,
    NativeSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)

if TYPE_CHECKING:
    from codex_plugin_tool_search.ranking import Index

__all__ = ["ToolSearch"]

_NAME = "tool_search"

_ARGUMENTS = {
    "query": Argument("string", "Search query for deferred tools.", required=True),
    "limit": Argument("usize", "Maximum number of tools to return. Defaults to 8."),
}
_PARAMETERS = arguments_schema(_ARGUMENTS)

_DESCRIPTION = (
    "Finds tools that you do not have yet, and gives them to you. There are more tools than those in your list: if none of"
    " yours fits the task, search with a few words about what the tool does or where it belongs, such as 'create issue"
    " github'. The tools that it returns can be called in your next step."
)

_DEFAULT_LIMIT = 8
_MAX_LIMIT = 50
_MAX_OUTPUT = 100_000
"""Maximum length of the specs in one output, in characters."""

_MANY = 200
"""Number of tools above which the index is created on a separate thread: 2,000 tools take a tenth of a second."""

_MAX_SOURCES = 50
_MAX_SOURCE_LENGTH = 200


class ToolSearch(Tool):
    """Finds deferred tools of all plugins and makes them available to the model.

    If the model and its provider have tool search on the wire, the output contains the specs, and the list of tools is
    unchanged. Otherwise ``tool_search`` is a function, and the found tools join the list of tools with the next sample.
    """

    parallel_safe = True
    reads = frozenset({"deferred_tools", "model"})
    spec: ToolSpec = FunctionSpec(_NAME, _DESCRIPTION, _PARAMETERS)

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether there is anything to find."""
        return bool(turn.deferred_tools)

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the spec in the form that the model knows, with the sources of the tools."""
        description = f"{_DESCRIPTION}{_sources(turn.deferred_tools)}"
        if not turn.model.tool_search:
            return FunctionSpec(_NAME, description, _PARAMETERS)
        options = {"execution": "client", "description": description, "parameters": _PARAMETERS}
        return NativeSpec(_NAME, _NAME, options)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Search, and return the found tools.

        Raises:
            ToolError: The arguments are invalid.
        """
        query, limit = _check_arguments(parse_arguments(call.arguments, _ARGUMENTS))
        tools = context.turn.facts.deferred_tools
        index = await _index(context, tools)
        found = [tools[number] for number in index.find(query, limit)]
        if call.kind == "tool_search":
            specs = _within_limit(found)
            wire = _in_groups(specs) if context.model.namespaces else [_on_wire(spec) for spec in specs]
            return ToolOutput(json.dumps({"tools": wire}, default=dict), truncate=False)
        context.turn.thread.offer_tools([tool.spec.name for tool in found])
        return ToolOutput(json.dumps({"tools": [_brief(tool) for tool in found]}, ensure_ascii=False), truncate=False)


def _check_arguments(arguments: Mapping[str, Any]) -> tuple[str, int]:
    query, limit = arguments["query"].strip(), arguments.get("limit", _DEFAULT_LIMIT)
    if not query:
        raise ToolError("query must not be empty")
    if limit < 1:
        raise ToolError("limit must be greater than zero")
    return query, min(limit, _MAX_LIMIT)


async def _index(context: ToolContext, tools: Sequence[DeferredTool]) -> Index:
    """Return the index of the tools, which is kept for the thread. An index of many tools is created outside of the event loop."""
    from codex_plugin_tool_search.ranking import Index

    kept: list[Index] = context.state("index", list)
    if kept and kept[0].covers(tools):
        return kept[0]
    index = await asyncio.to_thread(Index, tools) if len(tools) > _MANY else Index(tools)
    kept[:] = [index]
    return index


def _within_limit(found: Sequence[DeferredTool]) -> list[ToolSpec]:
    """Return the specs that fit into the limit. The best tool's spec is always included."""
    specs: list[ToolSpec] = []
    length = 0
    for tool in found:
        length += len(json.dumps(_on_wire(tool.spec), default=dict))
        if specs and length > _MAX_OUTPUT:
            break
        specs.append(tool.spec)
    return specs


def _in_groups(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return tools in wire form, with the tools of a namespace in one group."""
    tools: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    for spec in specs:
        if not isinstance(spec, FunctionSpec) or spec.namespace is None:
            tools.append(_on_wire(spec))
            continue
        group = spec.namespace
        if group.name not in groups:
            groups[group.name] = []
            described = {"name": group.name, "description": group.description, "tools": groups[group.name]}
            tools.append({"type": "namespace", **described})
        groups[group.name].append({**_on_wire(spec), "name": spec.local_name})
    return tools


def _on_wire(spec: ToolSpec) -> dict[str, Any]:
    """Return a found tool as on the wire."""
    match spec:
        case FunctionSpec(name=name, description=description, parameters=parameters, strict=strict):
            wire = {"type": "function", "name": name, "description": description, "strict": strict}
            return {**wire, "defer_loading": True, "parameters": parameters}
        case FreeformSpec(name=name, description=description, format=form):
            grammar = {"type": "grammar", "syntax": form.syntax, "definition": form.definition}
            return {
                "type": "custom",
                "name": name,
                "description": description,
                "defer_loading": True,
                "format": grammar,
            }
        case NativeSpec(type=kind, options=options):
            return {"type": kind, **options}


def _brief(tool: DeferredTool) -> dict[str, Any]:
    """Return a found tool as text for the model, which sees the whole spec in its list of tools."""
    description = getattr(tool.spec, "description", "")
    return {"name": tool.spec.name, "description": _one_line(description)}


def _sources(tools: Sequence[DeferredTool]) -> str:
    sources = list(dict.fromkeys(_one_line(tool.source) for tool in tools if tool.source.strip()))
    if not sources:
        return ""
    more = ["- ..."] if len(sources) > _MAX_SOURCES else []
    return "\n".join(["\nThe tools come from:", *(f"- {source}" for source in sources[:_MAX_SOURCES]), *more])


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SOURCE_LENGTH else f"{line[:_MAX_SOURCE_LENGTH]}..."
