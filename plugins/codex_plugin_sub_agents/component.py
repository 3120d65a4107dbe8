"""The component, which gives threads the tools for sub-agents."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import Component, ServiceError, ThreadComponent, ThreadContext
from codex_plugin_sub_agents.settings import Settings, is_on, most_deep, most_threads

__all__ = ["SubAgents"]


class SubAgents(Component):
    """Gives root threads and sub-agents their part. Reviewers and other threads with a purpose of their own get none."""

    name = "sub_agents"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread."""
        if not is_on(thread.config) or not most_deep(thread.config):
            return None
        from codex_plugin_sub_agents.family import Family
        from codex_plugin_sub_agents.tools import tools_of
        from codex_plugin_sub_agents.tree import Tree

        settings = thread.plugin_settings(Settings)
        parent = thread.parent
        if parent is None:
            return Family(thread, Tree(most_threads(thread.config)), settings, tools_of)
        if not _is_spawned(thread.meta.extra.get("source_detail")):
            return None
        try:
            return Family(thread, parent.component(Family).tree, settings, tools_of)
        except ServiceError:
            return None


def _is_spawned(detail: object) -> bool:
    kind = detail.get("subagent") if isinstance(detail, Mapping) else None
    return isinstance(kind, Mapping) and "thread_spawn" in kind
