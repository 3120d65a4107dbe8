"""The component, which gives threads the tools for sub-agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
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
from codex_plugin_sub_agents.settings import Settings, held_back, most_deep, most_threads
from codex_plugin_sub_agents.versions import FIRST, NONE, SECOND, Rules, is_possible

if TYPE_CHECKING:
    from codex_plugin_sub_agents.family import Family
    from codex_plugin_sub_agents.mail import Communication
    from codex_plugin_sub_agents.mailbox import Mailbox
    from codex_plugin_sub_agents.team import Team
    from codex_plugin_sub_agents.tree import Tree

__all__ = ["AgentsPart", "SubAgents"]


class AgentsPart(ThreadComponent):
    """The part of one thread. Its agents are kept by a family or a team, which is imported when the first of them is needed.

    Args:
        above: The part of the thread that started this one.
        rules: What holds for all threads below the same root.

    Attributes:
        parts: The parts of all threads of the kernel, by the thread's id.
        root: The part of the root thread.
        takes_letters: Whether the thread's model takes items of the type ``agent_message``.
    """

    def __init__(
        self,
        thread: ThreadContext,
        settings: Settings,
        above: AgentsPart | None,
        rules: Rules,
        parts: Mapping[str, AgentsPart],
    ) -> None:
        self.thread = thread
        self.rules = rules
        self.parts = parts
        self.root: AgentsPart = self if above is None else above.root
        self.takes_letters: bool = above is not None and above.takes_letters
        self._settings = settings
        self._above = above
        self._tools: Sequence[Tool] | None = None
        self._family: Family | None = None
        self._team: Team | None = None
        self._tree: Tree | None = None
        self._mailbox: Mailbox | None = None

    # What the thread is offered

    def offers_all(self) -> bool:
        """Return whether the thread may start agents."""
        return self.thread.depth < self.rules.deepest

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:
        """Return the tools. At the greatest depth they are those for mail."""
        self.takes_letters = turn.model.namespaces
        if self._tools is None:
            self._tools = self._found_tools(self.rules.decide(turn.model))
        return self._tools

    def _found_tools(self, kind: str) -> Sequence[Tool]:
        if kind == NONE:
            return ()
        if kind == SECOND:
            from codex_plugin_sub_agents.team_forms import team_tools

            return team_tools(self)
        from codex_plugin_sub_agents.forms import tools_of

        return tools_of(self.family, self.offers_all())

    @property
    def path(self) -> str | None:
        """The thread's path in its team. None if it is in none."""
        return self.team().path if self.rules.version == SECOND else None

    # The agents

    def family(self) -> Family:
        """Return the agents of the thread, for the first group."""
        if self._family is None:
            from codex_plugin_sub_agents.family import Family

            self._family = Family(self.thread, self.tree(), self._settings)
        return self._family

    def team(self) -> Team:
        """Return the agents of the thread, for the second group."""
        if self._team is None:
            from codex_plugin_sub_agents.team import Team

            above = None if self._above is None else self._above.team()
            self._team = Team(self, self._settings, above)
        return self._team

    def tree(self) -> Tree:
        """Return the open agents of all threads below the same root."""
        if self._above is not None:
            return self._above.tree()
        if self._tree is None:
            from codex_plugin_sub_agents.tree import Tree

            self._tree = Tree(most_threads(self.thread.config))
        return self._tree

    # Mail

    @property
    def mailbox(self) -> Mailbox:
        """The messages that the thread's model has not read."""
        if self._mailbox is None:
            from codex_plugin_sub_agents.mailbox import Mailbox

            self._mailbox = Mailbox()
        return self._mailbox

    def receive(self, mail: Communication, kind: str | None = None) -> None:
        """Deliver a message to the thread.

        Args:
            kind: The kind of message in a team, if it does not follow from the message.

        Raises:
            ToolError: The thread has too many messages that it has not read.
        """
        from codex_plugin_sub_agents.mail import letter, team_letter

        history = self.thread.history
        length = len(mail.content) + len(mail.encrypted_content or "")
        self.mailbox.check_room(length, history)
        in_team = self.rules.version == SECOND
        item = team_letter(mail, kind=kind, as_item=self.takes_letters) if in_team else letter(mail)
        self.mailbox.add(item, length, history)
        self.thread.deliver([item], "steer" if mail.trigger_turn else "join", trigger=mail.trigger_turn)

    # The life of the part

    async def start(self) -> None:
        """Bring back the agents that were open when the thread's process ended. Those of a team come back when they are needed."""
        is_family = self._above is None or self.rules.version == FIRST
        if self.thread.origin != "resumed" or not is_family:
            return
        entries = self.thread.entries("agent")
        if entries and "path" not in entries[-1] and self.thread.depth < most_deep(self.thread.config):
            await self.family().bring_back()

    async def aclose(self) -> None:
        """Forget the agents, which have ended with the thread."""
        for agents in (self._family, self._team):
            if agents is not None:
                agents.close_all()


class SubAgents(Component):
    """Gives root threads and sub-agents their part. Reviewers and other threads with a purpose of their own get none.

    Args:
        layers: The sources of the kernel's configuration.

    Attributes:
        parts: The parts of all threads by the thread's id.
    """

    name = "sub_agents"

    def __init__(self, layers: Sequence[ConfigLayer] = ()) -> None:
        self._layers = layers
        self.parts: WeakValueDictionary[str, AgentsPart] = WeakValueDictionary()

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread."""
        if not is_possible(thread.config):
            return None
        settings = held_back(thread.plugin_settings(Settings), self._layers)
        above = None
        if thread.parent is not None:
            if not _is_spawned(thread.meta.extra.get("source_detail")):
                return None
            try:
                above = thread.parent.component(AgentsPart)
            except ServiceError:
                return None
        rules = Rules(thread, settings, self._layers) if above is None else above.rules
        part = self.parts[thread.id] = AgentsPart(thread, settings, above, rules, self.parts)
        return part


def _is_spawned(detail: object) -> bool:
    kind = detail.get("subagent") if isinstance(detail, Mapping) else None
    return isinstance(kind, Mapping) and "thread_spawn" in kind
