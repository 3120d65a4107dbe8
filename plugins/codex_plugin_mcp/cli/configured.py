"""The configured servers, as the commands need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from codex_framework import ConfigError, PluginContext
from codex_framework.toolkit.suggestions import did_you_mean
from codex_plugin_mcp.cli.text import paragraph
from codex_plugin_mcp.servers import ServerConfig, read_servers

__all__ = ["Configured", "ServerName"]

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # click 8.1 has no type parameter
    _TextType = click.ParamType


class Configured:
    """The servers of a configuration.

    Attributes:
        servers: The usable servers, by name.
        errors: The errors of the other servers, by name.
    """

    def __init__(self, plugin: PluginContext) -> None:
        self.servers, self.errors = read_servers(plugin.config)
        self._tables = plugin.config.get("mcp_servers") or {}
        self._layers = plugin.layers

    def names(self) -> list[str]:
        """Return the names of all servers, in order."""
        return sorted({*self.servers, *self.errors})

    def table(self, name: str) -> Mapping[str, Any]:
        """Return the table of a server, as configured."""
        table: Mapping[str, Any] = self._tables[name]
        return table

    def place(self, name: str) -> str:
        """Return the source with the highest precedence that has settings of a server: a file, or ``-c``."""
        return next(layer.path for layer in reversed(self._layers) if name in (layer.table.get("mcp_servers") or {}))

    def server(self, name: str) -> ServerConfig:
        """Return a server.

        Raises:
            ConfigError: The server is not configured, or its table is invalid.
        """
        if name in self.errors:
            raise self.errors[name]
        if name not in self.servers:
            raise self.missing(name)
        return self.servers[name]

    def usable(self, name: str) -> ServerConfig:
        """Return a server that is enabled.

        Raises:
            ConfigError: As for :meth:`server`, or it is disabled.
        """
        server = self.server(name)
        if server.enabled and not server.disabled_reason:
            return server
        raise ConfigError(
            f"the MCP server {name!r} is disabled{f': {server.disabled_reason}' if server.disabled_reason else ''}",
            key=f"mcp_servers.{name}.enabled",
            slug="mcp-disabled",
            hint="Remove `enabled = false` from its table.",
        )

    def missing(self, name: str) -> ConfigError:
        """Return the error for a name that no server has."""
        listed = ", ".join(self.names())
        known = f"Configured are: {listed}." if listed else "Add it: codex-framework mcp add NAME -- COMMAND"
        return ConfigError(
            f"No MCP server named '{name}' found.",
            key="mcp_servers",
            slug="mcp-unknown",
            hint=f"{did_you_mean(name, self.names())}{known}",
        )

    def warn(self) -> None:
        """Print the errors of servers that cannot be used."""
        for error in self.errors.values():
            click.echo(paragraph(f"warning: {error}\n{error.hint}"), err=True)


class ServerName(_TextType):
    """The name of a configured server.

    Args:
        plugin: The plugin, with the configuration.
    """

    name = "name"

    def __init__(self, plugin: PluginContext) -> None:
        self._plugin = plugin

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the servers whose names start with ``incomplete``."""
        return [CompletionItem(name) for name in Configured(self._plugin).names() if name.startswith(incomplete)]
