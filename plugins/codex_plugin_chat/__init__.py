"""A model provider for servers with the Chat Completions API (``wire_api = "chat"``)."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, PluginContext, hookimpl


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``chat`` provider."""
    from codex_plugin_chat.provider import ChatProvider

    return [ChatProvider(plugin.config)]
