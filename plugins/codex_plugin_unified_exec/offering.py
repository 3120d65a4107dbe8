"""Whether the tools of this plugin are the command tools of a turn."""

from __future__ import annotations

from codex_framework import TurnFacts

__all__ = ["is_offered"]


def is_offered(facts: TurnFacts) -> bool:
    """One family of command tools is offered in a turn; this says whether it is this one.

    ``features.shell_tool = false`` and a model without command tools switch all of them off. ``features.unified_exec`` decides if it
    is set, else what is known of the model does.
    """
    features = facts.config.get("features") or {}
    if features.get("shell_tool") is False or facts.model.shell_type == "disabled":
        return False
    wanted = features.get("unified_exec")
    return facts.model.shell_type == "unified_exec" if wanted is None else bool(wanted)
