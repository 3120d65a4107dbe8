"""A model provider without a model: it plays a script, or a recorded cassette. Offline and deterministic."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ModelProvider, hookimpl


@hookimpl
def codex_model_providers() -> Iterable[ModelProvider]:
    """The ``replay`` provider."""
    from codex_plugin_replay.provider import ReplayProvider

    return [ReplayProvider()]
