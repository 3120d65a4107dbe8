"""The ``update_plan`` tool: the model's checklist, shown to the user."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``update_plan``."""
    from codex_plugin_plan.tool import UpdatePlan

    return [UpdatePlan()]
