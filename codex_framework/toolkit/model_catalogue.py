"""The built-in list of models.

It contains the facts of the catalogue that Codex 0.171 bundles and, for the models before ``gpt-5.5``, of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from codex_framework.contract.roles.models import ModelInfo
from codex_framework.toolkit.model_checks import fallback_model

__all__ = ["bundled_models", "fallback_model", "known_model"]

# Models are described once, so that threads share the objects, and recognise an unchanged model without comparing its fields.

_EFFORTS = ("low", "medium", "high", "xhigh", "max", "ultra")

_NEW = {
    # slug: name, default effort, number of efforts, context window, largest window, hidden
    "gpt-6.2-sol": ("GPT-6.2-Sol", "low", 6, 500_000, 872_000, False),
    "gpt-6.2-astra": ("GPT-6.2-Astra", "low", 6, 272_000, 872_000, False),
    "gpt-6.1-terra": ("GPT-6.1 Terra", "low", 6, 500_000, 872_000, False),
    "gpt-6.1-sol": ("GPT-6.1-Sol", "low", 6, 500_000, 872_000, False),
    "gpt-6-astra": ("GPT-6-Astra", "low", 6, 272_000, 872_000, False),
    "gpt-6-sol": ("GPT-6-Sol", "medium", 6, 272_000, 872_000, False),
    "gpt-6-luna": ("GPT-6-Luna", "medium", 5, 272_000, 872_000, False),
    "gpt-5.6-sol": ("GPT-5.6-Sol", "low", 6, 272_000, 872_000, False),
    "gpt-5.6-terra": ("GPT-5.6-Terra", "medium", 6, 272_000, 872_000, False),
    "gpt-5.6-luna": ("GPT-5.6-Luna", "medium", 5, 272_000, 872_000, False),
    "gpt-daybreak-blue-latest": ("Daybreak Blue", "low", 6, 272_000, 872_000, True),
    "gpt-daybreak-red-latest": ("Daybreak Red", "medium", 6, 372_000, 372_000, True),
    "codex-auto-review": ("Codex Auto Review", "medium", 5, 272_000, 872_000, True),
}
"""Models that take requests in the shorter form, by Codex's priority."""

_FIRST_AGENT_TOOLS = ("gpt-5.6-luna", "codex-auto-review")
"""Models of that list that know the first group of tools for sub-agents. The others know the second one."""

_EXTRA_TOOLS = {
    "gpt-6.2-": (
        "request_user_input_async",
        "send_message_to_user_async",
        "clock",
        "literature_search_query",
        "multi_agent_v2_in_code_mode",
    ),
    "gpt-6": ("send_user_message_async", "clock"),
}
"""Tools that models of this list know besides the usual ones, by the start of the model's name. The first match counts."""

_OLD = {
    # slug: name, largest window, output limit, image detail, tool search
    "gpt-5.5": ("GPT-5.5", 272_000, ("tokens", 10_000), True, True),
    "gpt-5.4": ("GPT-5.4", 1_000_000, ("tokens", 10_000), False, False),
    "gpt-5.4-mini": ("GPT-5.4-Mini", 272_000, ("tokens", 10_000), False, False),
    "gpt-5.3-codex": ("GPT-5.3-Codex", 272_000, ("tokens", 10_000), False, False),
    "gpt-5.2": ("GPT-5.2", 272_000, ("bytes", 10_000), False, False),
}


@lru_cache(maxsize=64)
def known_model(slug: str) -> ModelInfo | None:
    """Return the description of a model, or None if it is not in the list."""
    if slug in _NEW:
        return _new(slug)
    return _old(slug) if slug in _OLD else None


def bundled_models() -> Iterable[ModelInfo]:
    """Yield all models of the list, the recommended ones first."""
    for slug in (*_NEW, *_OLD):
        model = known_model(slug)
        assert model is not None
        yield model


def _new(slug: str) -> ModelInfo:
    name, effort, efforts, window, largest, hidden = _NEW[slug]
    return ModelInfo(
        slug=slug,
        display_name=name,
        context_window=window,
        max_context_window=largest,
        parallel_tool_calls=False,
        default_effort=effort,
        efforts=_EFFORTS[:efforts],
        verbosity="high" if slug == "gpt-daybreak-red-latest" else "low",
        image_detail_original=True,
        namespaces=True,
        lite=True,
        multi_agent="v1" if slug in _FIRST_AGENT_TOOLS else "v2",
        tool_mode="code_mode_only",
        hidden=hidden,
        compaction_hash="3000",
        extra_tools=next((tools for start, tools in _EXTRA_TOOLS.items() if slug.startswith(start)), ()),
    )


def _old(slug: str) -> ModelInfo:
    name, largest, truncation, original, search = _OLD[slug]
    return ModelInfo(
        slug=slug,
        display_name=name,
        max_context_window=largest,
        truncation=truncation,
        efforts=_EFFORTS[:4] if slug == "gpt-5.5" else (),
        verbosity="low",
        image_detail_original=original,
        tool_search=search,
        namespaces=True,
        compaction_hash="2911" if slug == "gpt-5.5" else None,
    )
