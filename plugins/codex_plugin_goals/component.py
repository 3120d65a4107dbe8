"""The component, which gives root threads a goal."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import Component, ThreadComponent, ThreadContext

__all__ = ["Goals"]


class Goals(Component):
    """Gives threads their part if ``features.goals`` is on, as it is by default. Sub-agents have no goals of their own."""

    name = "goals"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread."""
        features = thread.config.get("features")
        off = isinstance(features, Mapping) and features.get("goals") is False
        if thread.depth or off:
            return None
        from codex_plugin_goals.pursuit import Pursuit
        from codex_plugin_goals.tools import tools_of

        return Pursuit(thread, tools_of)
