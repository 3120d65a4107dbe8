"""Properties of models, as entries of a catalogue in Codex's form, which ``model_catalog_json`` reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from codex_framework import Kernel, ModelInfo
from codex_framework.config import Config
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.faults import Label
from codex_framework.toolkit.model_catalogue import bundled_models
from codex_framework.toolkit.model_checks import asked_models

__all__ = ["catalogue", "entry"]


async def catalogue(config: Config | None, plugins: Sequence[Path] = ()) -> dict[str, Any]:
    """Return what catalogues of plugins know about models of the configured provider, and then the built-in list.

    Args:
        config: The configuration. With None, there is only the built-in list.
        plugins: One-file plugins to load in addition.

    Raises:
        CodexError: The configuration is invalid, or a catalogue cannot be read.
    """
    models: dict[str, ModelInfo] = {}
    if config is not None:
        async with await Kernel.create(config, plugins=plugins) as kernel:
            for model in _known_models(kernel):
                models.setdefault(model.slug, model)
    for model in bundled_models():
        models.setdefault(model.slug, model)
    return {"models": [entry(model, number) for number, model in enumerate(models.values(), 1)]}


def _known_models(kernel: Kernel) -> Iterator[ModelInfo]:
    provider = kernel.settings().provider
    for name, known in kernel.registry.catalogues.items():
        owner = kernel.registry.owners.get(("catalogues", name), "")
        yield from asked_models(Label("model catalogue", name, owner), known.models, provider)


def entry(model: ModelInfo, priority: int) -> dict[str, Any]:
    """Return the properties of a model, with Codex's keys in Codex's order."""
    found = {
        "slug": model.slug,
        "display_name": model.display_name or model.slug,
        "default_reasoning_level": model.default_effort,
        "supported_reasoning_levels": [{"effort": effort, "description": ""} for effort in model.efforts],
        "shell_type": model.shell_type,
        "visibility": "hide" if model.hidden else "list",
        "supported_in_api": True,
        "priority": priority,
        "base_instructions": model.base_instructions or "",
        "supports_reasoning_summaries": model.reasoning,
        "default_reasoning_summary": model.default_summary or "none",
        "support_verbosity": model.verbosity is not None,
        "default_verbosity": model.verbosity,
        "apply_patch_tool_type": model.apply_patch,
        "truncation_policy": dict(zip(("mode", "limit"), model.truncation, strict=True)),
        "supports_parallel_tool_calls": model.parallel_tool_calls,
        "supports_image_detail_original": model.image_detail_original,
        "context_window": model.context_window,
        "max_context_window": model.max_context_window,
        "comp_hash": model.compaction_hash,
        "effective_context_window_percent": model.usable_percent,
        "experimental_supported_tools": list(model.extra_tools),
        "input_modalities": ["text", "image"] if model.supports_images else ["text"],
        "supports_search_tool": model.tool_search or model.lite,
        "use_responses_lite": model.lite,
        "tool_mode": None if model.tool_mode == "direct" else model.tool_mode,
        "multi_agent_version": model.multi_agent,
        "prices": None if model.prices is None else to_wire(model.prices),
    }
    return {key: value for key, value in found.items() if value is not None}
