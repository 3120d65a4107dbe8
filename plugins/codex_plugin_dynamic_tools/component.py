"""The component, which gives each thread the tools of its client."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import Component, ThreadComponent, ThreadContext, Tool, TurnFacts

__all__ = ["DynamicTools", "ThreadTools"]


class ThreadTools(ThreadComponent):
    """The tools of one thread."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # the role's
        """Return all tools, which do not change during the thread's life."""
        return self._tools


class DynamicTools(Component):
    """Reads the tools from the thread's metadata, where they are stored for resuming."""

    name = "dynamic_tools"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the tools of a thread, or None if its client has defined none.

        Raises:
            ConfigError: The plugin's settings are invalid.
        """
        given = thread.meta.extra.get("dynamic_tools")
        if given is None:
            return None
        from codex_plugin_dynamic_tools.definitions import definitions
        from codex_plugin_dynamic_tools.settings import Settings
        from codex_plugin_dynamic_tools.tool import DynamicTool

        limit_s = thread.plugin_settings(Settings).timeout_s
        found, problems = definitions(given)
        for problem in problems:
            thread.warn(problem)
        return ThreadTools([DynamicTool(definition, limit_s) for definition in found]) if found else None
