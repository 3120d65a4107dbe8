"""What a plugin gets when it is loaded: the kernel's side of ``PluginContext``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from codex_framework.config.config import Config

__all__ = ["LoadContext"]

T = TypeVar("T")


class LoadContext:
    """The ``PluginContext`` of one plugin in one kernel.

    Args:
        name: The plugin's name.
        config: The kernel's configuration.
        environ: The kernel's environment variables.
    """

    def __init__(self, name: str, config: Config, environ: Mapping[str, str]) -> None:
        self.name = name
        self.environ = environ
        self._config = config
        self._settings: dict[type[Any], Any] = {}

    @property
    def config(self) -> Mapping[str, Any]:
        """The kernel's configuration as plain tables."""
        return self._config.tables

    @property
    def codex_home(self) -> Path:
        """The folder with the user's configuration and sessions."""
        return self._config.codex_home

    def settings(self, kind: type[T]) -> T:
        """Return the plugin's settings; they are read at the first call for each class.

        Raises:
            ConfigError: A key is unknown, missing or mistyped.
        """
        if kind not in self._settings:
            from codex_framework.config.plugin_tables import plugin_settings

            self._settings[kind] = plugin_settings(self._config, self.name, kind)
        found: T = self._settings[kind]
        return found
