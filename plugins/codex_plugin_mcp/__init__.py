"""MCP: tools, resources and prompts of servers that the configuration names in ``[mcp_servers]``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Component, OpHandler, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_components", "codex_ops", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.mcp]``."""
    from codex_plugin_mcp.settings import Settings

    return Settings


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component ``mcp``."""
    from codex_plugin_mcp.component import Mcp

    return [Mcp(plugin.environ, plugin.codex_home)]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer the command ``mcp``."""
    from codex_plugin_mcp.cli import McpGroup

    return [McpGroup(plugin)]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handlers of the ops with which clients answer, inspect, use and replace servers."""
    from codex_plugin_mcp import ops

    return [
        ops.ResolveHandler(),
        ops.ListToolsHandler(),
        ops.ListPromptsHandler(),
        ops.UsePromptHandler(),
        ops.CallToolHandler(),
        ops.ReadResourceHandler(),
        ops.LoginHandler(plugin.codex_home),
        ops.RefreshHandler(),
    ]
