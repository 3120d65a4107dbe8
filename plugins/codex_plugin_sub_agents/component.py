"""The component, which gives threads the tools for sub-agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from codex_framework import Component, ConfigLayer, ServiceError, ThreadComponent, ThreadContext, Tool, TurnFacts
from codex_plugin_sub_agents.settings import Settings, held_back, is_on, most_deep, most_threads

if TYPE_CHECKING:
    from codex_plugin_sub_agents.family import Family
    from codex_plugin_sub_agents.tree import Tree

__all__ = ["AgentsPart", "SubAgents"]


class AgentsPart(ThreadComponent):
    """The part of one thread. Its agents are kept by a family, which is imported when the first of them is needed.

    Args:
        above: The part of the thread that started this one.
    """

    def __init__(self, thread: ThreadContext, settings: Settings, above: AgentsPart | None) -> None:
        self._thread = thread
        self._settings = settings
        self._above = above
        self._offers_all = thread.depth < most_deep(thread.config)
        self._tools: Sequence[Tool] | None = None
        self._family: Family | None = None
        self._tree: Tree | None = None

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # the role's
        """Return the tools. At the greatest depth they are those for mail."""
        if self._tools is None:
            from codex_plugin_sub_agents.forms import tools_of

            self._tools = tools_of(self.family, self._offers_all)
        return self._tools

    def family(self) -> Family:
        """Return the agents of the thread."""
        if self._family is None:
            from codex_plugin_sub_agents.family import Family

            self._family = Family(self._thread, self.tree(), self._settings)
        return self._family

    def tree(self) -> Tree:
        """Return the open agents of all threads below the same root."""
        if self._above is not None:
            return self._above.tree()
        if self._tree is None:
            from codex_plugin_sub_agents.tree import Tree

            self._tree = Tree(most_threads(self._thread.config))
        return self._tree

    async def start(self) -> None:
        """Bring back the agents that were open when the thread's process ended."""
        if self._thread.origin == "resumed" and self._offers_all and self._thread.entries("agent"):
            await self.family().bring_back()

    async def aclose(self) -> None:
        """Forget the agents, which have ended with the thread."""
        if self._family is not None:
            self._family.close_all()


class SubAgents(Component):
    """Gives root threads and sub-agents their part. Reviewers and other threads with a purpose of their own get none.

    Args:
        layers: The sources of the kernel's configuration.
    """

    name = "sub_agents"

    def __init__(self, layers: Sequence[ConfigLayer] = ()) -> None:
        self._layers = layers

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread."""
        if not is_on(thread.config) or not most_deep(thread.config):
            return None
        settings = held_back(thread.plugin_settings(Settings), self._layers)
        parent = thread.parent
        if parent is None:
            return AgentsPart(thread, settings, None)
        if not _is_spawned(thread.meta.extra.get("source_detail")):
            return None
        try:
            return AgentsPart(thread, settings, parent.component(AgentsPart))
        except ServiceError:
            return None


def _is_spawned(detail: object) -> bool:
    kind = detail.get("subagent") if isinstance(detail, Mapping) else None
    return isinstance(kind, Mapping) and "thread_spawn" in kind
