"""The options and subcommands of ``exec`` that plugins add: loaded only if the command line needs them, and for help."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from codex_framework.cli.argv import Option
from codex_framework.config import Config
from codex_framework.config.keys import format_key
from codex_framework.config.layers import merge_layers
from codex_framework.contract.errors import CodexError, PluginError, described
from codex_framework.contract.hookspecs import EXEC_COMMANDS, EXEC_OPTIONS, Hook
from codex_framework.contract.roles.exec_commands import ExecCommand
from codex_framework.contract.roles.exec_options import ExecRun, ExecThread, OptionUse
from codex_framework.contract.value import Value
from codex_framework.loader.loading import load_plugins
from codex_framework.loader.offers import Offer, Offers

__all__ = ["PluginOption", "command_line_settings", "own_options", "plugin_commands", "plugin_options"]

T = TypeVar("T")


class PluginOption(Value):
    """An option of a plugin.

    Attributes:
        key: The dotted key of the setting. None if it sets none.
        is_path: Whether its values are paths, which become absolute.
        plugin: The plugin's name.
        implies, open_thread: As in :class:`~codex_framework.ExecOption`.
    """

    option: Option
    key: str | None
    is_path: bool
    plugin: str = ""
    implies: Callable[[OptionUse], Mapping[str, Any]] | None = None
    open_thread: Callable[[ExecRun], AbstractAsyncContextManager[ExecThread]] | None = None

    def setting(self, value: Any) -> Any:
        """Return the value of the setting for the value of the option."""
        if not self.is_path:
            return value
        folder = Path.cwd()
        return [str(folder / each) for each in value] if isinstance(value, list) else str(folder / value)

    def implied_settings(self, value: Any, config: Config) -> dict[str, Any]:
        """Return the settings that follow from the option and that the command line does not set itself.

        Raises:
            CodexError: The plugin refuses, or it failed.
        """
        assert self.implies is not None
        given = command_line_settings(config)
        with self._attributed():
            found = dict(self.implies(OptionUse(value=self.setting(value), config=config.tables, given=given)))
        return {key: setting for key, setting in found.items() if key not in given}

    @asynccontextmanager
    async def opened_thread(self, run: ExecRun) -> AsyncIterator[ExecThread]:
        """Open the thread of a run.

        Raises:
            CodexError: The plugin refuses, or it failed.
        """
        assert self.open_thread is not None
        async with AsyncExitStack() as stack:
            with self._attributed():
                thread = await stack.enter_async_context(self.open_thread(run))
            yield thread

    @contextmanager
    def _attributed(self) -> Iterator[None]:
        """Say which plugin has failed in the block."""
        try:
            yield
        except CodexError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise PluginError(
                self.plugin,
                f"the option {self.option.names[0]} of plugin {self.plugin!r} failed: {described(error)}",
                hint=f"Fix the plugin, or leave {self.option.names[0]} out.",
            ) from error


def command_line_settings(config: Config) -> dict[str, Any]:
    """Return the settings from the command line alone, by top-level key."""
    return merge_layers([layer for layer in config.layers if layer.name in ("override", "flags")])


def plugin_options(config: Config, files: Sequence[str]) -> list[PluginOption]:
    """Return the options of the plugins that a configuration loads.

    Args:
        files: The one-file plugins to load in addition.

    Raises:
        ConfigError: The plugins cannot be loaded with this configuration.
    """
    found = []
    for plugin, offered in _load_offers(EXEC_OPTIONS, config, files).values():
        names = f"--{offered.name}"
        choices = tuple(offered.choices)
        option = Option(names, offered.text, metavar=offered.metavar, many=offered.many, choices=choices)
        key = None if offered.setting is None else format_key(("framework", "plugins", plugin, offered.setting))
        found.append(
            PluginOption(option, key, offered.is_path, plugin, offered.implies, open_thread=offered.open_thread)
        )
    return found


def plugin_commands(config: Config, files: Sequence[str]) -> dict[str, ExecCommand]:
    """Return the subcommands of the plugins that a configuration loads, by name. Arguments and errors as above."""
    return {name: offer.item for name, offer in _load_offers(EXEC_COMMANDS, config, files).items()}


def _load_offers(hook: Hook[T], config: Config, files: Sequence[str]) -> Mapping[str, Offer[T]]:
    """Return the objects of one hook by name. Nothing else that the plugins offer is made."""
    plugins = load_plugins(config, environ=os.environ, extra_plugins=[Path(file) for file in files])
    return Offers(plugins).of(hook)


def own_options(command: ExecCommand) -> list[Option]:
    """Return the options that a subcommand has in addition to the options of ``exec``."""
    return [Option(f"--{option.name}", option.text, metavar=option.metavar) for option in command.options]
