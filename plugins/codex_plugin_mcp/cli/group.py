"""The group of the commands. Each command is imported when it is first used."""

from __future__ import annotations

import importlib

import click

from codex_framework import PluginContext

__all__ = ["McpGroup"]

_COMMANDS = {
    "list": ("listing", "list_command"),
    "get": ("listing", "get_command"),
    "add": ("editing", "add_command"),
    "remove": ("editing", "remove_command"),
    "login": ("accounts", "login_command"),
    "logout": ("accounts", "logout_command"),
    "tools": ("tools", "tools_command"),
    "call": ("calling", "call_command"),
    "prompts": ("offers", "prompts_command"),
    "prompt": ("offers", "prompt_command"),
    "resources": ("offers", "resources_command"),
    "resource": ("offers", "resource_command"),
}
"""By name: the module, and the function that makes the command for a plugin."""


class McpGroup(click.Group):
    """``codex-framework mcp``.

    Args:
        plugin: The plugin, with the configuration.
    """

    def __init__(self, plugin: PluginContext) -> None:
        super().__init__(
            "mcp", help="Manage MCP servers: list, add and remove them, log in and out, and use their tools."
        )
        self._plugin = plugin
        self.help_group = "Configure"

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        module, function = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), function)(self._plugin)
        return command
