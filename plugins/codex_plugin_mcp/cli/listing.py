"""``mcp list`` and ``mcp get``: the configured servers. Values that may be secrets are masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from codex_framework import PluginContext
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_mcp.cli.configured import Configured, ServerName
from codex_plugin_mcp.cli.text import listed, masked, masked_map, masked_url, print_table
from codex_plugin_mcp.servers import ServerConfig

__all__ = ["get_command", "list_command"]

_AUTH = {
    "unsupported": "Unsupported",
    "not_logged_in": "Not logged in",
    "bearer_token": "Bearer token",
    "o_auth": "OAuth",
    "unknown": "Unknown",
}
_NONE = "No MCP servers configured yet. Try `codex-framework mcp add my-tool -- my-command`."


def list_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp list``."""

    @click.command("list", short_help="List the configured servers.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
    @click.pass_context
    def command(context: click.Context, *, as_json: bool) -> None:
        """List the configured servers, with their status and how they authenticate.

        Values of variables, headers and tokens are never shown. The exit status is 1 if the settings of a server are wrong.
        """
        from codex_plugin_mcp.cli.accounts import auth_statuses

        configured = Configured(plugin)
        servers = [configured.servers[name] for name in configured.names() if name in configured.servers]
        auth = auth_statuses(plugin, servers)
        if as_json:
            click.echo(json.dumps([_entry(configured, server, auth[server.name]) for server in servers], indent=2))
        elif servers:
            _print_tables(servers, auth)
        elif not configured.errors:
            click.echo(_NONE)
        configured.warn()
        context.exit(1 if configured.errors else 0)

    return command


def _print_tables(servers: list[ServerConfig], auth: Mapping[str, str]) -> None:
    def ending(server: ServerConfig) -> list[str]:
        return ["enabled" if server.enabled else "disabled", _AUTH[auth[server.name]]]

    stdio = [[server.name, *_command_cells(server), *ending(server)] for server in servers if server.is_stdio]
    http = [
        [server.name, masked_url(server.url or ""), printable(server.bearer_token_env_var or "-"), *ending(server)]
        for server in servers
        if not server.is_stdio
    ]
    if stdio:
        print_table(("Name", "Command", "Args", "Env", "Cwd", "Status", "Auth"), stdio)
    if stdio and http:
        click.echo()
    if http:
        print_table(("Name", "Url", "Bearer Token Env Var", "Status", "Auth"), http)


def _command_cells(server: ServerConfig) -> list[str]:
    return [printable(server.command or ""), listed(server.args, " "), _variables(server), printable(server.cwd or "-")]


def _variables(server: ServerConfig) -> str:
    return masked((*sorted(server.env), *server.env_vars))


def _entry(configured: Configured, server: ServerConfig, auth: str | None = None) -> dict[str, Any]:
    """Return the JSON of a server: Codex's keys, with masked values."""
    table = configured.table(server.name)
    entry = {
        "name": server.name,
        "enabled": server.enabled,
        "disabled_reason": server.disabled_reason,
        "transport": _stdio(server, table) if server.is_stdio else _http(server),
    }
    if auth is None:
        entry |= {"enabled_tools": table.get("enabled_tools"), "disabled_tools": table.get("disabled_tools")}
    return {
        **entry,
        "startup_timeout_sec": _startup_timeout(server, table),
        "tool_timeout_sec": server.tool_timeout_sec if "tool_timeout_sec" in table else None,
        **({} if auth is None else {"auth_status": auth}),
    }


def _startup_timeout(server: ServerConfig, table: Mapping[str, Any]) -> float | None:
    return server.startup_timeout_sec if {"startup_timeout_sec", "startup_timeout_ms"} & table.keys() else None


def _stdio(server: ServerConfig, table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "stdio",
        "command": server.command,
        "args": list(server.args),
        "env": masked_map(server.env) if "env" in table else None,
        "env_vars": list(table.get("env_vars", ())),
        "cwd": server.cwd,
    }


def _http(server: ServerConfig) -> dict[str, Any]:
    return {
        "type": "streamable_http",
        "url": masked_url(server.url or ""),
        "bearer_token_env_var": server.bearer_token_env_var,
        "http_headers": masked_map(server.http_headers) or None,
        "env_http_headers": dict(server.env_http_headers) or None,
        "http_headers_helper": None,
    }


def get_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp get``."""

    @click.command("get")
    @click.argument("name", type=ServerName(plugin))
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    def command(name: str, *, as_json: bool) -> None:
        """Show the settings of one server. Values of variables, headers and tokens are never shown."""
        configured = Configured(plugin)
        server = configured.server(name)
        if as_json:
            click.echo(json.dumps(_entry(configured, server), indent=2))
            return
        click.echo(server.name if server.enabled else f"{server.name} (disabled)")
        for key, value in _details(server, configured.table(name)):
            click.echo(f"  {key}: {value}")

    return command


def _details(server: ServerConfig, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines of ``mcp get``: Codex's, in its order, and then the settings that it does not show."""
    yield "enabled", str(server.enabled).lower()
    for key in ("enabled_tools", "disabled_tools"):
        if key in table:
            yield key, printable(", ".join(table[key])) or "[]"
    yield from _stdio_details(server) if server.is_stdio else _http_details(server)
    if (timeout := _startup_timeout(server, table)) is not None:
        yield "startup_timeout_sec", f"{timeout:g}"
    if "tool_timeout_sec" in table:
        yield "tool_timeout_sec", f"{server.tool_timeout_sec:g}"
    if "default_tools_approval_mode" in table:
        yield "default_tools_approval_mode", server.default_tools_approval_mode
    yield from _more_details(server)
    yield "remove", f"codex-framework mcp remove {server.name}"


def _stdio_details(server: ServerConfig) -> Iterator[tuple[str, str]]:
    yield "transport", "stdio"
    yield "command", printable(server.command or "")
    yield "args", listed(server.args, " ")
    yield "cwd", printable(server.cwd or "-")
    yield "env", _variables(server)


def _http_details(server: ServerConfig) -> Iterator[tuple[str, str]]:
    yield "transport", "streamable_http"
    yield "url", masked_url(server.url or "")
    yield "bearer_token_env_var", printable(server.bearer_token_env_var or "-")
    yield "http_headers", masked(sorted(server.http_headers))
    yield "env_http_headers", listed(f"{name}={value}" for name, value in sorted(server.env_http_headers.items()))


def _more_details(server: ServerConfig) -> Iterator[tuple[str, str]]:
    for tool, rules in server.tools.items():
        if "approval_mode" in rules:
            yield f"tools.{printable(tool)}.approval_mode", rules["approval_mode"]
    for key in ("required", "supports_parallel_tool_calls"):
        if getattr(server, key):
            yield key, "true"
    if server.sandbox is not None:
        yield "sandbox", server.sandbox
    if server.scopes is not None:
        yield "scopes", listed(server.scopes)
    if "client_id" in server.oauth:
        yield "oauth.client_id", printable(server.oauth["client_id"])
    if server.oauth_resource is not None:
        yield "oauth_resource", masked_url(server.oauth_resource)
