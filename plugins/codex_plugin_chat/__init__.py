"""A model provider for servers with the Chat Completions API (``wire_api = "chat"``)."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, hookimpl


@hookimpl
def codex_model_providers() -> Iterable[ModelProvider]:
    """Offer the ``chat`` provider."""
    from codex_plugin_chat.provider import ChatProvider

    return [ChatProvider()]
