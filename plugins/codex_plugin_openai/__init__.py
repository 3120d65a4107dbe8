"""A model provider for servers with the Responses API: OpenAI and compatible servers."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, PluginContext, Tool, hookimpl


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``responses`` provider."""
    from codex_plugin_openai.provider import ResponsesProvider

    return [ResponsesProvider(plugin.config)]


@hookimpl
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:
    """Offer ``web_search`` and ``image_generation``, which servers with the Responses API run themselves."""
    from codex_plugin_openai.image_generation import ImageGeneration
    from codex_plugin_openai.web_search import WebSearch

    return [WebSearch(), ImageGeneration(plugin.codex_home)]
