"""A model provider for servers with the Responses API: OpenAI and compatible servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from codex_framework import Component, ModelProvider, PluginContext, Tool, hookimpl


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``responses`` provider."""
    from codex_plugin_openai.provider import ResponsesProvider

    return [ResponsesProvider(plugin.config)]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer what opens connections before the first request, if a provider has WebSockets."""
    tables = plugin.config.get("model_providers") or {}
    if not any(isinstance(table, Mapping) and table.get("supports_websockets") is True for table in tables.values()):
        return []
    from codex_plugin_openai.prewarming import Prewarming

    return [Prewarming()]


@hookimpl
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:
    """Offer ``web_search`` and ``image_generation``, which servers with the Responses API run themselves."""
    from codex_plugin_openai.image_generation import ImageGeneration
    from codex_plugin_openai.web_search import WebSearch

    return [WebSearch(), ImageGeneration(plugin.codex_home)]
