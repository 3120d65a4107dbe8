"""The component: it gives each thread the tools that its client has brought."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import Component, ThreadComponent, ThreadContext, Tool, TurnFacts
from codex_plugin_dynamic_tools.settings import Settings

__all__ = ["DynamicTools", "ThreadTools"]


class ThreadTools(ThreadComponent):
    """The tools of one thread."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # the role's
        """Return them all: they do not change while the thread lives."""
        return self._tools


class DynamicTools(Component):
    """Reads the tools from the head of a thread, where they are kept for when it is resumed."""

    name = "dynamic_tools"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the tools of a thread, or None if its client has brought none.

        Raises:
            ConfigError: The plugin's settings are wrong.
        """
        given = thread.meta.extra.get("dynamic_tools")
        if given is None:
            return None
        from codex_plugin_dynamic_tools.definitions import definitions
        from codex_plugin_dynamic_tools.tool import DynamicTool

        limit_s = thread.plugin_settings(Settings).timeout_s
        found, problems = definitions(given)
        for problem in problems:
            thread.warn(problem)
        return ThreadTools([DynamicTool(definition, limit_s) for definition in found]) if found else None
