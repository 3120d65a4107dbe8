"""The properties of OpenAI's open models."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelCatalogue, ModelInfo, ProviderInfo

__all__ = ["OpenModels"]

_WINDOW = 131_072
"""Context window in tokens, as published with the models."""
_NAMES = {"ollama": ("gpt-oss:20b", "gpt-oss:120b"), "lmstudio": ("openai/gpt-oss-20b", "openai/gpt-oss-120b")}


class OpenModels(ModelCatalogue):
    """Knows gpt-oss. Requests are the same as for an unknown model, but the context window is the real one."""

    name = "local_models"

    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo | None:
        """Return the properties of a model."""
        if slug not in _NAMES.get(provider.id, ()):
            return None
        return ModelInfo(
            slug=slug,
            context_window=_WINDOW,
            max_context_window=_WINDOW,
            truncation=("bytes", 10_000),
            apply_patch="function",
            default_effort=None,
            default_summary="auto",
            efforts=("low", "medium", "high"),
            supports_images=False,
        )

    def models(self, provider: ProviderInfo) -> Iterable[ModelInfo]:
        """Return the models of a provider."""
        found = (self.model(slug, provider) for slug in _NAMES.get(provider.id, ()))
        return [model for model in found if model is not None]
