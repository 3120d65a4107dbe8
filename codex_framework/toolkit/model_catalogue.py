"""The built-in list of models."""

from __future__ import annotations

from codex_framework.contract.roles.models import ModelInfo

__all__ = ["known_model"]


def _model(
    slug: str, truncation: tuple[str, int] = ("tokens", 10_000), *, original: bool = False, search: bool = False
) -> ModelInfo:
    # The context window, truncation, tool forms and image detail come from Codex's bundled catalogue. Verbosity and effort are
    # the values that Codex sends.
    return ModelInfo(
        slug=slug,
        context_window=272_000,
        truncation=truncation,
        default_effort="medium",
        verbosity="low",
        supports_images=True,
        image_detail_original=original,
        tool_search=search,
        namespaces=True,
    )


_MODELS = {
    model.slug: model
    for model in (
        _model("gpt-5.5", original=True, search=True),
        _model("gpt-5.4"),
        _model("gpt-5.4-mini"),
        _model("gpt-5.3-codex"),
        _model("gpt-5.2", ("bytes", 10_000)),
    )
}


def known_model(slug: str) -> ModelInfo | None:
    """Return the description of a model, or None if it is not in the list."""
    return _MODELS.get(slug)
