"""The choice whether the tools of this plugin are the command tools of a turn."""

from __future__ import annotations

from codex_framework import TurnFacts

__all__ = ["is_offered"]


def is_offered(facts: TurnFacts) -> bool:
    """Return whether this is the family of command tools that the turn offers.

    ``features.shell_tool = false`` and a model without command tools disable all of them. ``features.unified_exec`` decides if it
    is set, else the model's properties do.
    """
    features = facts.config.get("features") or {}
    if features.get("shell_tool") is False or facts.model.shell_type == "disabled":
        return False
    wanted = features.get("unified_exec")
    return facts.model.shell_type == "unified_exec" if wanted is None else bool(wanted)
