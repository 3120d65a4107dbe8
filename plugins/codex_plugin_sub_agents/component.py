"""The component, which gives threads the tools for sub-agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

from codex_framework import (
    Component,
    ConfigLayer,
    ServiceError,
    ThreadComponent,
    ThreadContext,
    Tool,
    TurnFacts,
)
from codex_plugin_sub_agents.part import AgentsPart, ResumedPart
from codex_plugin_sub_agents.settings import Settings, read_settings, without_shorter_wait
from codex_plugin_sub_agents.versions import NONE, SECOND, Rules, is_possible, recorded_version

__all__ = ["AgentsPart", "SubAgents"]


class SubAgents(Component):
    """Gives root threads and sub-agents their part. Reviewers and other special threads get none.

    Args:
        layers: The sources of the kernel's configuration.

    Attributes:
        parts: The parts of all threads by the thread's id.
    """

    name = "sub_agents"
    part_class = AgentsPart
    part_when = "use"
    part_entries = ("agent", "multi_agent_version")
    part_in_children = True

    def __init__(self, layers: Sequence[ConfigLayer] = ()) -> None:
        self._layers = layers
        self._common: Rules | None = None
        self.parts: WeakValueDictionary[str, AgentsPart] = WeakValueDictionary()

    def rules(self, turn: TurnFacts) -> Rules | None:
        """Return the rules for a thread and the threads below it. None if the thread gets no tools.

        As long as a root thread has no part, its first model and its configuration decide. Threads that agree on both share
        rules.
        """
        part = self.parts.get(turn.thread_id)
        if part is not None:
            part.rules.decide(turn.config, turn.first_model or turn.model)
            return part.rules
        if turn.depth or not is_possible(turn.config):
            return None
        model = turn.first_model or turn.model
        if self._common is None or not self._common.hold_for(turn.config, model):
            self._common = Rules(without_shorter_wait(read_settings(turn.config), self._layers), self._layers)
            self._common.decide(turn.config, model)
        return self._common

    def shared_tools(self, turn: TurnFacts) -> Sequence[Tool]:
        """Return the tools. At the greatest depth they are those for mail."""
        rules = self.rules(turn)
        if rules is None or rules.version == NONE:
            return ()
        everything = rules.may_start(turn.depth)
        if rules.version == SECOND:
            from codex_plugin_sub_agents.team_forms import team_tools

            return team_tools(rules.options, everything)
        from codex_plugin_sub_agents.forms import agent_tools

        return agent_tools(everything)

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread."""
        if not is_possible(thread.config):
            return None
        settings = without_shorter_wait(thread.plugin_settings(Settings), self._layers)
        above = None
        if thread.parent is not None:
            if not _is_spawned(thread.meta.extra.get("source_detail")):
                return None
            try:
                above = thread.parent.component(AgentsPart)
            except ServiceError:
                return None
        rules = self._new_rules(thread, settings) if above is None else above.rules
        kind = ResumedPart if thread.origin == "resumed" else AgentsPart
        part = self.parts[thread.id] = kind(thread, settings, above, rules, self.parts)
        return part

    def _new_rules(self, root: ThreadContext, settings: Settings) -> Rules:
        rules = Rules(settings, self._layers, recorded=recorded_version(root))
        if root.first_model is not None:
            rules.decide(root.config, root.first_model)
        return rules


def _is_spawned(detail: object) -> bool:
    kind = detail.get("subagent") if isinstance(detail, Mapping) else None
    return isinstance(kind, Mapping) and "thread_spawn" in kind
