"""The component, which gives root threads a goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import Component, ThreadComponent, ThreadContext, Tool, TurnFacts

__all__ = ["Goals"]


class Goals(Component):
    """Gives threads a goal if ``features.goals`` is on, as it is by default. Sub-agents have no goals."""

    name = "goals"
    part_when = "use"
    part_entries = ("goal",)

    @property
    def part_class(self) -> type[ThreadComponent]:  # type: ignore[override]  # imported late
        """The class of the parts."""
        from codex_plugin_goals.pursuit import Pursuit

        return Pursuit

    def shared_tools(self, turn: TurnFacts) -> Sequence[Tool]:
        """Return the tools for goals."""
        if not _may_have_goal(turn.depth, turn.config):
            return ()
        from codex_plugin_goals.tools import TOOLS

        return TOOLS

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread."""
        if not _may_have_goal(thread.depth, thread.config):
            return None
        from codex_plugin_goals.pursuit import Pursuit

        return Pursuit(thread)


def _may_have_goal(depth: int, config: Mapping[str, Any]) -> bool:
    features = config.get("features")
    return not depth and not (isinstance(features, Mapping) and features.get("goals") is False)
