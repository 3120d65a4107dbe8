"""A model provider for the Messages API of Anthropic (``wire_api = "messages"``)."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, hookimpl


@hookimpl
def codex_model_providers() -> Iterable[ModelProvider]:
    """Offer the ``messages`` provider, with the built-in table ``anthropic``."""
    from codex_contrib_anthropic.provider import MessagesProvider

    return [MessagesProvider()]
