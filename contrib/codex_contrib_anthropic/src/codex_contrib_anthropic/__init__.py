"""A model provider for the Messages API of Anthropic (``wire_api = "messages"``)."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, PluginContext, hookimpl


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``messages`` provider, with the built-in table ``anthropic``."""
    from codex_contrib_anthropic.provider import MessagesProvider

    return [MessagesProvider(plugin.config)]
