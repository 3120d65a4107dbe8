"""The part of one thread, which keeps its agents and its mail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework import ThreadComponent, ThreadContext
from codex_plugin_sub_agents.settings import Settings, most_deep, most_threads
from codex_plugin_sub_agents.versions import FIRST, SECOND, Rules

if TYPE_CHECKING:
    from codex_plugin_sub_agents.family import Family
    from codex_plugin_sub_agents.mail import Communication
    from codex_plugin_sub_agents.mailbox import Mailbox
    from codex_plugin_sub_agents.team import Team
    from codex_plugin_sub_agents.tree import Tree

__all__ = ["AgentsPart", "ResumedPart"]


class AgentsPart(ThreadComponent):
    """The part of one thread. Its agents are kept by a family or a team, which is imported when the first of them is needed.

    Args:
        above: The part of the thread that started this one.
        rules: The rules for all threads below the same root.

    Attributes:
        parts: The parts of all threads of the kernel, by the thread's id.
        root: The part of the root thread.
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
        self._takes_letters = above is not None and above.takes_letters
        self._settings = settings
        self._above = above
        self._family: Family | None = None
        self._team: Team | None = None
        self._tree: Tree | None = None
        self._mailbox: Mailbox | None = None

    # What the thread is offered

    def offers_all(self) -> bool:
        """Return whether the thread may start agents."""
        return self.rules.may_start(self.thread.depth)

    @property
    def takes_letters(self) -> bool:
        """Whether the thread's model takes items of the type ``agent_message``."""
        model = self.thread.model
        return self._takes_letters if model is None else model.namespaces

    def expect_letters(self, takes: bool) -> None:  # noqa: FBT001  # the answer of a property
        """Say before the first turn whether the thread's model takes such items."""
        self._takes_letters = takes

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

    async def aclose(self) -> None:
        """Forget the agents, which have ended with the thread."""
        for agents in (self._family, self._team):
            if agents is not None:
                agents.close_all()


class ResumedPart(AgentsPart):
    """The part of a resumed thread."""

    async def start(self) -> None:
        """Bring back the agents that were open when the thread's process ended.

        Agents of a team come back when they are needed.
        """
        entries = self.thread.entries("agent")
        is_family = self._above is None or self.rules.version == FIRST
        if is_family and entries and "path" not in entries[-1] and self.thread.depth < most_deep(self.thread.config):
            await self.family().bring_back()
