"""``mcp tools``: the tools of the servers, under the names that the model sees, and whether they need approval."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from codex_framework import CodexError, EventMsg, PluginContext, Request, TaskContext, Tool, TurnFacts
from codex_framework.toolkit.tables import fit
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_mcp.cli.configured import Configured, ServerName
from codex_plugin_mcp.cli.decisions import decision_of
from codex_plugin_mcp.cli.text import paragraph

if TYPE_CHECKING:
    from codex_plugin_mcp.connection import Connection
    from codex_plugin_mcp.connections import Connections

__all__ = ["tools_command"]

_DECISIONS = {"run": "runs", "ask": "asks first", "refuse": "refused without asking", "hidden": "hidden"}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def tools_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp tools``."""

    @click.command("tools", short_help="Start servers, and list their tools.")
    @click.argument("name", type=ServerName(plugin), required=False)
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_context
    def command(context: click.Context, name: str | None, *, as_json: bool) -> None:
        """Start a server, or all enabled ones, and list their tools.

        Each tool has the name that the model sees, the name on the server if it differs, and whether a call runs immediately,
        asks first, or is refused because the approval policy does not allow asking. Tools that the model does not see are shown
        as hidden. Problems with a server or a tool are printed as warnings. The exit status is 1 if a server did not start.
        """
        configured = Configured(plugin)
        names = _chosen(configured, name)
        found = asyncio.run(_servers(plugin, names)) if names else []
        if as_json:
            click.echo(json.dumps(found, indent=2, ensure_ascii=True))
        else:
            shown = (fit("\n".join(_lines(server)), "    ") for server in found)
            click.echo("\n\n".join(shown) or "No MCP server is enabled.")
        if name is None:
            configured.warn()
        failed = any(server["state"] != "ready" for server in found) or (name is None and configured.errors)
        context.exit(1 if failed else 0)

    return command


def _chosen(configured: Configured, name: str | None) -> list[str]:
    if name is None:
        return [name for name, server in sorted(configured.servers.items()) if server.enabled]
    return [configured.usable(name).name]


async def _servers(plugin: PluginContext, names: list[str]) -> list[dict[str, Any]]:
    from codex_plugin_mcp.cli.thread import opened

    warnings: list[str] = []

    def on_event(event: EventMsg) -> None:
        if event.type == "warning":
            warnings.append(event.message)  # type: ignore[attr-defined]

    async with opened(plugin, names, on_event=on_event, on_request=_unattended) as thread:
        connections = await thread.connections()
        listing = await thread.run(lambda turn: _listing(connections, turn))
        found = await asyncio.gather(*(listing.server(one) for one in connections.pool.connections.values()))
    for text in warnings:
        _place(text, found)
    return list(found)


def _place(text: str, servers: Sequence[dict[str, Any]]) -> None:
    """Add a warning to the server that it is about. Why a server did not start is its error; the rest is printed."""
    for server in servers:
        about = f"MCP server `{server['name']}`: "
        if text == server["error"]:
            return
        if text.startswith(about):
            server["warnings"].append(text.removeprefix(about))
            return
    click.echo(f"warning: {paragraph(text)}", err=True)


async def _listing(connections: Connections, turn: TaskContext) -> _Listing:
    return _Listing(connections.tools(turn.facts), turn.facts)


async def _unattended(request: Request[Any]) -> object:
    return request.unattended()


class _Listing:
    """The tools that the model is offered, and what else decides about their calls.

    Args:
        tools: The tools of all servers.
    """

    def __init__(self, tools: Sequence[Tool], facts: TurnFacts) -> None:
        from codex_plugin_mcp.tools import McpTool

        self._offered = {(tool.name.server, tool.name.tool): tool for tool in tools if isinstance(tool, McpTool)}
        self._facts = facts

    async def server(self, connection: Connection) -> dict[str, Any]:
        """Return a server with all of its tools, including tools that are not offered to the model."""
        described = {"name": connection.name, "state": connection.state, "error": connection.error or None}
        try:
            raw = await _all_tools(connection)
        except CodexError as error:
            return {**described, "state": "failed", "error": str(error), "warnings": [], "tools": []}
        return {**described, "warnings": [], "tools": [self._tool(connection, tool) for tool in raw]}

    def _tool(self, connection: Connection, raw: Mapping[str, Any]) -> dict[str, Any]:
        hints = raw.get("annotations")
        annotations = hints if isinstance(hints, Mapping) else {}
        tool = self._offered.get((connection.name, raw["name"]))
        description = raw.get("description")
        return {
            "name": raw["name"],
            "model_name": None if tool is None else tool.spec.name,
            "decision": "hidden" if tool is None else decision_of(connection.server, raw, self._facts),
            "approval_mode": connection.server.tool_approval_mode(raw["name"]),
            "annotations": {key: annotations[key] for key in _HINTS if isinstance(annotations.get(key), bool)},
            "description": description if isinstance(description, str) else "",
            "input_schema": raw.get("inputSchema"),
        }


async def _all_tools(connection: Connection) -> list[Mapping[str, Any]]:
    """Return the tools of a server by name, the first of each name, including tools hidden by settings or faults."""
    session = connection.session
    if session is None or not session.offers("tools"):
        return []
    raw, _ = await session.every("tools/list", "tools", timeout_s=connection.server.startup_timeout_sec)
    tools: dict[str, Mapping[str, Any]] = {}
    for tool in raw:
        if isinstance(tool.get("name"), str):
            tools.setdefault(tool["name"], tool)
    return [tools[name] for name in sorted(tools)]


def _lines(server: Mapping[str, Any]) -> Iterator[str]:
    yield (
        printable(server["name"]) if server["state"] == "ready" else f"{printable(server['name'])} ({server['state']})"
    )
    if server["error"]:
        yield textwrap.indent(paragraph(server["error"]), "  ")
    elif not server["tools"]:
        yield "  The server offers no tools."
    for warning in server["warnings"]:
        yield textwrap.indent(paragraph(f"warning: {warning}"), "  ")
    for tool in server["tools"]:
        yield f"  {printable(tool['model_name'] or tool['name'])}: {_DECISIONS[tool['decision']]}{_hints(tool)}"
        if tool["model_name"] and not tool["model_name"].endswith(f"__{tool['name']}"):
            yield f"    on the server: {printable(tool['name'])}"
        first = next(iter(tool["description"].strip().splitlines()), "")
        if first:
            yield f"    {printable(first)}"


def _hints(tool: Mapping[str, Any]) -> str:
    words = {
        "readOnlyHint": "read-only",
        "destructiveHint": "destructive",
        "idempotentHint": "idempotent",
        "openWorldHint": "open world",
    }
    found = [word for key, word in words.items() if tool["annotations"].get(key)]
    return f" ({', '.join(found)})" if found else ""
