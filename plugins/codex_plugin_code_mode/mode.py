"""Decides which turns are in code mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import TurnFacts

__all__ = ["BOTH", "ONLY", "asked_for", "mode_of"]

ONLY = "code_mode_only"
"""The model calls tools by scripts."""

BOTH = "code_mode"
"""The model calls tools by scripts and directly."""


def asked_for(config: Mapping[str, Any]) -> str | None:
    """Return the feature of the configuration that asks for code mode, or None."""
    features = config.get("features")
    if not isinstance(features, Mapping):
        return None
    return next((name for name in (ONLY, BOTH) if features.get(name) is True), None)


def mode_of(turn: TurnFacts) -> str | None:
    """Return how the model of a turn calls tools: ``code_mode_only``, ``code_mode``, or None for directly.

    The configuration precedes the model's properties. ``code_mode_only = false`` means directly, also for a model that is made
    for scripts: whoever calls tools without a model needs them so.
    """
    found = asked_for(turn.config)
    features = turn.config.get("features")
    if found is None and not (isinstance(features, Mapping) and features.get(ONLY) is False):
        found = turn.model.tool_mode
    return found if found in (ONLY, BOTH) else None
