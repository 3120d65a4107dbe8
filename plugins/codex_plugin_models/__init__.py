"""Model catalogues: a file of your own (``model_catalog_json``), and the list of OpenAI's server; and the command and op about them.

No catalogue is offered or imported unless the configuration names a file or a list of the server is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import EventMsg, ModelCatalogue, Observer, OpHandler, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = [
    "codex_commands",
    "codex_events",
    "codex_model_catalogues",
    "codex_observers",
    "codex_ops",
    "codex_settings",
]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.models]``."""
    from codex_plugin_models.settings import Settings

    return Settings


@hookimpl
def codex_model_catalogues(plugin: PluginContext) -> Iterable[ModelCatalogue]:
    """Offer the catalogue of the file, then the server's."""
    if file := plugin.config.get("model_catalog_json"):
        from codex_plugin_models.file import FileCatalogue

        yield FileCatalogue(str(file))
    cache = plugin.codex_home / "models_cache.json"
    if os.path.exists(cache):  # noqa: PTH110  # at every start
        from codex_plugin_models.server import ServerCatalogue

        yield ServerCatalogue(cache)


@hookimpl
def codex_observers(plugin: PluginContext) -> Iterable[Observer]:
    """Offer the observer that keeps the server's list fresh, if there is a login with ChatGPT."""
    if not _may_refresh(plugin):
        return []
    from codex_plugin_models.refreshing import Refresher

    return [Refresher(plugin)]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework models``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "models",
            "List models and their properties.",
            "codex_plugin_models.cli:models",
            obj=plugin,
            group="Inspect",
        )
    ]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handler of ``list_models``."""
    from codex_plugin_models.ops import ListModelsHandler

    return [ListModelsHandler(plugin)]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare the answer to ``list_models``."""
    from codex_plugin_models.ops import ListModelsResponseEvent

    return [ListModelsResponseEvent]


def _may_refresh(plugin: PluginContext) -> bool:
    """Return whether a login with ChatGPT may be used, as far as this can be said without reading it."""
    name = plugin.config.get("model_provider", "openai")
    table = plugin.config.get("model_providers", {}).get(name, {})
    if name != "openai" and not table.get("requires_openai_auth"):
        return False
    if plugin.environ.get("CODEX_API_KEY"):
        return False
    stored = plugin.config.get("cli_auth_credentials_store", "file")
    return stored in ("keyring", "auto") or os.path.exists(plugin.codex_home / "auth.json")  # noqa: PTH110
