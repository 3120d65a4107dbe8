"""The built-in list of models."""

from __future__ import annotations

from codex_framework import ModelInfo

__all__ = ["known_model"]


def _model(slug: str, truncation: tuple[str, int] = ("tokens", 10_000)) -> ModelInfo:
    # Window, truncation and tool forms are those of Codex's bundled catalogue; verbosity and effort are what Codex sends.
    return ModelInfo(
        slug=slug,
        context_window=272_000,
        truncation=truncation,
        default_effort="medium",
        verbosity="low",
        supports_images=True,
    )


_MODELS = {
    model.slug: model
    for model in (
        _model("gpt-5.5"),
        _model("gpt-5.4"),
        _model("gpt-5.4-mini"),
        _model("gpt-5.3-codex"),
        _model("gpt-5.2", ("bytes", 10_000)),
    )
}


def known_model(slug: str) -> ModelInfo | None:
    """Return the facts about a model, or None if it is not in the list."""
    return _MODELS.get(slug)
