"""A model provider for servers with the Responses API: OpenAI and compatible servers."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, PluginContext, hookimpl


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``responses`` provider."""
    from codex_plugin_openai.provider import ResponsesProvider

    return [ResponsesProvider(plugin.config)]
