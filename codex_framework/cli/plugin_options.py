"""The options and subcommands of ``exec`` that plugins add: loaded only if the command line needs them, and for help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codex_framework.cli.argv import Option
from codex_framework.config import Config
from codex_framework.config.keys import dotted
from codex_framework.contract.roles.exec_commands import ExecCommand
from codex_framework.contract.value import Value
from codex_framework.plugins.registry import load_exec_commands, load_exec_options

__all__ = ["PluginOption", "own_options", "plugin_commands", "plugin_options"]


class PluginOption(Value):
    """An option of a plugin.

    Attributes:
        key: The dotted key of the setting.
        is_path: Whether its values are paths, which become absolute.
    """

    option: Option
    key: str
    is_path: bool

    def setting(self, value: Any) -> Any:
        """Return the value of the setting for the value of the option."""
        if not self.is_path:
            return value
        folder = Path.cwd()
        return [str(folder / each) for each in value] if isinstance(value, list) else str(folder / value)


def plugin_options(config: Config, files: Sequence[str]) -> list[PluginOption]:
    """Return the options of the plugins that a configuration loads.

    Args:
        files: The one-file plugins to load in addition.

    Raises:
        ConfigError: The plugins cannot be loaded with this configuration.
    """
    found = []
    for plugin, offered in load_exec_options(config, [Path(file) for file in files]).values():
        names = f"--{offered.name}"
        choices = tuple(offered.choices)
        option = Option(names, offered.text, metavar=offered.metavar, many=offered.many, choices=choices)
        key = dotted(("framework", "plugins", plugin, offered.setting))
        found.append(PluginOption(option, key, offered.is_path))
    return found


def plugin_commands(config: Config, files: Sequence[str]) -> dict[str, ExecCommand]:
    """Return the subcommands of the plugins that a configuration loads, by name. Arguments and errors as above."""
    offered = load_exec_commands(config, [Path(file) for file in files])
    return {name: offer.item for name, offer in offered.items()}


def own_options(command: ExecCommand) -> list[Option]:
    """Return the options that a subcommand adds to those of ``exec``."""
    return [Option(f"--{option.name}", option.text, metavar=option.metavar) for option in command.options]
