"""The context that a plugin gets when it is loaded: the kernel's implementation of ``PluginContext``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework.config.keys import format_key, lookup
from codex_framework.contract.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from codex_framework.config.config import Config
    from codex_framework.contract.roles.plugins import ConfigLayer, Offer, PluginContext

__all__ = ["LoadContext", "configuration_of"]

T = TypeVar("T")


class LoadContext:
    """The ``PluginContext`` of one plugin in one kernel.

    Args:
        name: The plugin's name.
        config: The kernel's configuration.
        environ: The kernel's environment variables.

    Attributes:
        collected: Returns the objects that other plugins offer to this plugin's own hooks. None until they are collected.
        registered: Returns the objects of all plugins for a role of the framework. None until everything is loaded.
    """

    def __init__(self, name: str, config: Config, environ: Mapping[str, str]) -> None:
        self.name = name
        self.environ = environ
        self.collected: Callable[[type[Any]], Sequence[Any]] | None = None
        self.registered: Callable[[type[Any]], Mapping[str, Offer[Any]] | None] | None = None
        self._config = config
        self._settings: dict[type[Any], Any] = {}
        self._layers: Sequence[ConfigLayer] | None = None

    @property
    def configuration(self) -> Config:
        """The kernel's configuration."""
        return self._config

    def configure(self, config: Config) -> None:
        """Replace the configuration."""
        self._config, self._layers = config, None

    @property
    def is_configured(self) -> bool:
        """Whether the configuration has a table of the plugin."""
        return self._config.get(f"framework.plugins.{format_key([self.name])}") is not None

    def set_by_project(self) -> ConfigError | None:
        """Return an error if a project's own file configures the plugin, otherwise None."""
        key = ("framework", "plugins", self.name)
        for layer in self._config.layers:
            if layer.name == "project" and lookup(layer.table, key) is not None:
                return layer.error(
                    key,
                    f"`{format_key(key)}`: a project's own file cannot configure the plugin {self.name!r},"
                    " because it makes safety decisions",
                    hint="Move the table from this file to your own config.toml.",
                    slug="config-project",
                )
        return None

    @property
    def has_settings(self) -> bool:
        """Whether the plugin has read its settings."""
        return bool(self._settings)

    @property
    def config(self) -> Mapping[str, Any]:
        """The kernel's configuration as plain tables."""
        return self._config.tables

    @property
    def layers(self) -> Sequence[ConfigLayer]:
        """The sources of the configuration."""
        if self._layers is None:
            from codex_framework.config.sources import config_sources

            self._layers = config_sources(self._config)
        return self._layers

    @property
    def codex_home(self) -> Path:
        """The folder with the user's configuration and sessions."""
        return self._config.codex_home

    def settings(self, kind: type[T]) -> T:
        """Return the plugin's settings, which are read once per class.

        Raises:
            ConfigError: A key is unknown, missing or mistyped.
        """
        if kind not in self._settings:
            from codex_framework.config.plugin_tables import plugin_settings

            self._settings[kind] = plugin_settings(self._config, self.name, kind)
        found: T = self._settings[kind]
        return found

    def offers(self, role: type[T]) -> Sequence[T]:
        """Return the objects that other plugins offer to this plugin's own hook for a role.

        Raises:
            PluginError: The objects are not collected yet, or the plugin declares no such hook.
        """
        if self.collected is None:
            raise PluginError(
                self.name,
                f"plugin {self.name!r} requested the objects of other plugins before they were collected",
                slug="plugin-hook",
                hint="Request them in a hook that offers objects of the framework, such as codex_tools, or later.",
            )
        return self.collected(role)

    def offered(self, role: type[T]) -> Mapping[str, Offer[T]]:
        """Return the objects of all plugins for a role of the framework, by name.

        Raises:
            PluginError: The plugins are not loaded yet, or the objects of the role have no names.
        """
        if self.registered is None:
            raise PluginError(
                self.name,
                f"plugin {self.name!r} requested the objects of all plugins before they were loaded",
                slug="plugin-hook",
                hint="Request them in a command, in a component's start or in a call, not in a hook.",
            )
        found = self.registered(role)
        if found is None:
            raise PluginError(
                self.name,
                f"plugin {self.name!r} requested {getattr(role, '__name__', role)}, which is no role with names",
                slug="plugin-hook",
                hint="Request a role that a hook of the framework collects by name, such as Tool or ModelProvider.",
            )
        return found

    def refuse_role(self, role: type[Any]) -> Sequence[Any]:
        """Raise an error for a role that no hook of the plugin collects.

        Raises:
            PluginError: Always.
        """
        raise PluginError(
            self.name,
            f"plugin {self.name!r} declares no hook that collects {getattr(role, '__name__', role)}",
            slug="plugin-hook",
            hint="Return the role from codex_roles, under the name of its hook.",
        )


def configuration_of(plugin: PluginContext) -> Config:
    """Return the configuration that a plugin was loaded with. Raises ConfigError for anything but a context of the loader."""
    if isinstance(plugin, LoadContext):
        return plugin.configuration
    raise ConfigError(
        f"a kernel cannot be created from a {type(plugin).__name__}",
        hint="Pass the Config of load_config(), or the PluginContext that a hook of your plugin gets.",
    )
