"""The MCP server: ``codex-framework mcp-server`` lets MCP clients run the agent, and call tools of plugins.

It is built on the official SDK, which the extra ``mcp`` installs. Nothing of it is imported unless the command runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands"]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework mcp-server``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "mcp-server",
            "Serve the agent to MCP clients, over stdio or HTTP.",
            "codex_plugin_mcp_server.command:mcp_server",
            obj=plugin,
            group="Serve",
        )
    ]
