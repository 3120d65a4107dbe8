"""Model providers that speak the Responses wire: OpenAI, and every server that does as OpenAI does."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, hookimpl


@hookimpl
def codex_model_providers() -> Iterable[ModelProvider]:
    """The ``responses`` provider."""
    from codex_plugin_openai.provider import ResponsesProvider

    return [ResponsesProvider()]
