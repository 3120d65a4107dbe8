"""The set-up that ``doctor`` examines: configuration, plugins and model provider, each as far as it can be loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from codex_framework.config import Config, find_codex_home, load_config, settings_from
from codex_framework.config.dotenv import load_dotenv
from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.loader.registry import Registry, load_registry

__all__ = ["Setup"]


class Setup:
    """The set-up of a folder.

    Args:
        arguments: ``overrides``, ``profile`` and ``flags``, as for ``load_config``.
        plugins: One-file plugins to load in addition.

    Attributes:
        home: ``$CODEX_HOME``. None if it cannot be used; ``home_error`` says why.
        environ: The environment, with the variables of ``$CODEX_HOME/.env``. ``env_error`` says why they cannot be read.
        config: The configuration; if it is invalid, ``config_error`` contains the reason, and this is the usable part:
            everything if the only problem is unknown keys, otherwise the defaults.
    """

    def __init__(self, environ: Mapping[str, str], arguments: Mapping[str, Any], plugins: Sequence[Path] = ()) -> None:
        self.environ = environ
        self.arguments = arguments
        self.plugins = plugins
        self.home: Path | None = None
        self.home_error: CodexError | None = None
        self.env_error: CodexError | None = None
        self.config_error: CodexError | None = None
        try:
            self.home = find_codex_home(environ)
        except CodexError as error:
            self.home_error = error
        else:
            self._load_variables(self.home)
        self.config = Config(tables={}, codex_home=self.home or Path.home() / ".codex", cwd=Path.cwd())
        try:
            self.config = self._load({})
        except CodexError as error:
            self.config_error = error
            with contextlib.suppress(CodexError):
                self.config = self._load({"framework.unknown_keys": "warn"})

    def _load_variables(self, home: Path) -> None:
        try:
            self.environ = {**self.environ, **load_dotenv(home, self.environ)}
        except CodexError as error:
            self.env_error = error

    def _load(self, flags: Mapping[str, Any]) -> Config:
        home = self.config.codex_home
        return load_config(cwd=Path.cwd(), environ=self.environ, codex_home=home, flags=flags, **self.arguments)

    @property
    def is_broken(self) -> bool:
        """Whether no other command can start with it."""
        return (self.home_error or self.env_error or self.config_error) is not None

    @property
    def options(self) -> list[str]:
        """The options of the command line for this set-up, to be put before a command."""
        profile = self.arguments.get("profile")
        settings = [part for setting in self.arguments.get("overrides", ()) for part in ("-c", setting)]
        return [*(f"--plugin={file}" for file in self.plugins), *settings, *(("-p", profile) if profile else ())]

    @cached_property
    def registry(self) -> Registry:
        """The plugins. Plugins that cannot be loaded are in its reports.

        Raises:
            CodexError: The configuration of plugins is invalid.
        """
        return load_registry(self.config, environ=self.environ, extra_plugins=self.plugins, tolerant=True)

    @cached_property
    def provider(self) -> ProviderInfo:
        """The model provider.

        Raises:
            CodexError: It is unknown, or the settings are invalid.
        """
        return settings_from(self.config, self.registry.builtin_providers).provider
