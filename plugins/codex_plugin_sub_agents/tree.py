"""The agents below one root thread, which share one limit."""

from __future__ import annotations

import asyncio

from codex_framework import ThreadClient, ToolError
from codex_plugin_sub_agents.names import nickname
from codex_plugin_sub_agents.status import PENDING, Status, is_final

__all__ = ["Member", "Tree"]


class Member:
    """An open agent.

    Attributes:
        role: The name of its agent type. By default, the default one.
        task: The start of its last task, for lists.
        status: Its status.
        path: Its path in a team. None without a team.
        holds: The number of calls that need it to stay open.
    """

    def __init__(
        self, client: ThreadClient, name: str, role: str | None, task: str, *, path: str | None = None
    ) -> None:
        self.client = client
        self.name = name
        self.role = role
        self.task = task
        self.path = path
        self.holds = 0
        self._status: Status = PENDING
        self._final = asyncio.Event()

    @property
    def id(self) -> str:
        """The id of its thread."""
        return self.client.id

    @property
    def status(self) -> Status:
        """Its status."""
        return self._status

    @status.setter
    def status(self, status: Status) -> None:
        self._status = status
        if is_final(status):
            self._final.set()
        else:
            self._final.clear()

    async def until_final(self) -> None:
        """Wait until the status is final."""
        await self._final.wait()


class Tree:
    """The open agents below one root thread.

    Args:
        limit: Maximum number of open agents.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._places = 0
        self._named = 0
        self.members: dict[str, Member] = {}

    def take_place(self) -> None:
        """Reserve a place for a new agent.

        Raises:
            ToolError: The limit is reached.
        """
        if self._places >= self._limit:
            raise ToolError("agent thread limit reached")
        self._places += 1

    def give_back(self) -> None:
        """Give a place back for which there is no agent."""
        self._places -= 1

    def new_name(self) -> str:
        """Return a nickname that no open agent has."""
        self._named += 1
        return nickname(self._named - 1, {member.name for member in self.members.values()})

    def add(self, member: Member) -> None:
        """Add an agent for which a place is reserved."""
        self.members[member.id] = member

    def remove(self, member: Member) -> None:
        """Remove an agent that was closed."""
        if self.members.pop(member.id, None) is not None:
            self._places -= 1
