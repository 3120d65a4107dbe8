"""Models on this machine: ``exec --oss`` finds Ollama or LM Studio, and downloads the model if it is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import ExecOption, ModelCatalogue, PluginContext, hookimpl

__all__ = ["codex_exec_options", "codex_model_catalogues", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.local_models]``."""
    from codex_plugin_local_models.settings import Settings

    return Settings


@hookimpl
def codex_exec_options(plugin: PluginContext) -> Iterable[ExecOption]:
    """Offer ``--oss`` and ``--local-provider``."""
    from codex_plugin_local_models.options import options

    return options(plugin)


@hookimpl
def codex_model_catalogues() -> Iterable[ModelCatalogue]:
    """Offer the properties of gpt-oss. A thread, an agent or a fallback may use a local provider other than the configured one."""
    from codex_plugin_local_models.catalogue import OpenModels

    return [OpenModels()]
