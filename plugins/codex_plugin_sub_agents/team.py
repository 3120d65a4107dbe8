"""The agents that one member of a team has started. In a team agents have paths, and a finished agent makes room for others.

The number of open agents is limited. If another one is needed, the agent that has been idle for longest is closed. It comes
back, with its conversation, when it is addressed again. So an agent of a team never disappears, and need not be closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from codex_framework import Agent, CodexError, EventMsg, ThreadClient, ThreadContext, ToolError
from codex_framework.contract.protocol.events import ItemCompletedEvent
from codex_plugin_sub_agents.family import Family
from codex_plugin_sub_agents.mail import FINAL_ANSWER, Communication
from codex_plugin_sub_agents.mailbox import Mailbox
from codex_plugin_sub_agents.older_events import older_end
from codex_plugin_sub_agents.paths import ROOT, check_name
from codex_plugin_sub_agents.settings import Settings
from codex_plugin_sub_agents.status import INTERRUPTED, NOT_FOUND, PENDING, RUNNING, Status
from codex_plugin_sub_agents.tree import Member, Tree
from codex_plugin_sub_agents.versions import Rules

__all__ = ["Team", "TeamPart", "activity"]

_TASK_LENGTH = 200


class TeamPart(Protocol):
    """The functions of a thread's part that a team needs."""

    @property
    def thread(self) -> ThreadContext:
        """The thread."""
        ...

    @property
    def rules(self) -> Rules:
        """The rules for all threads below the same root."""
        ...

    @property
    def parts(self) -> Mapping[str, TeamPart]:
        """The parts of all threads of the kernel, by the thread's id."""
        ...

    @property
    def root(self) -> TeamPart:
        """The part of the root thread."""
        ...

    @property
    def mailbox(self) -> Mailbox:
        """The messages that the thread's model has not read."""
        ...

    @property
    def takes_letters(self) -> bool:
        """Whether the thread's model takes items of the type ``agent_message``."""
        ...

    def expect_letters(self, takes: bool) -> None:  # noqa: FBT001  # as the part's
        """Say before the first turn whether the thread's model takes such items."""
        ...

    def team(self) -> Team:
        """Return the agents of the thread."""
        ...

    def offers_all(self) -> bool:
        """Return whether the thread may start agents."""
        ...

    def receive(self, mail: Communication, kind: str | None = None) -> None:
        """Deliver a message to the thread."""
        ...


class Room(Tree):
    """The open agents of a team.

    Args:
        limit: Maximum number of open agents.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.owners: dict[str, Team] = {}

    async def make_room(self) -> None:
        """Reserve a place. If all are taken, close an idle agent.

        Raises:
            ToolError: All agents are at work.
        """
        while True:
            try:
                self.take_place()
            except ToolError:
                member = self._most_idle()
                if member is None:
                    raise
                await self.owners[member.id].put_away(member)
            else:
                return

    def _most_idle(self) -> Member | None:
        """Return the agent that has been idle for longest and has no open agents below it."""
        for member in self.members.values():
            below = f"{member.path}/"
            has_agents = any((other.path or "").startswith(below) for other in self.members.values())
            is_idle = member.client.status == "idle" and member.status not in (PENDING, RUNNING)
            if is_idle and not has_agents and not member.holds:
                return member
        return None

    def touch(self, member: Member) -> None:
        """Mark an agent as the most recently used."""
        if member.id in self.members:
            self.members[member.id] = self.members.pop(member.id)

    def remove(self, member: Member) -> None:
        """Remove an agent that was closed."""
        super().remove(member)
        self.owners.pop(member.id, None)


class Team(Family):
    """The agents of one thread, by name.

    Args:
        part: The part of the thread.
        above: The team of the thread that started this one.

    Attributes:
        path: The path of the thread.
        room: The open agents of all threads below the same root.
    """

    def __init__(self, part: TeamPart, settings: Settings, above: Team | None) -> None:
        self.room: Room = Room(part.rules.options.places) if above is None else above.room
        super().__init__(part.thread, self.room, settings)
        self.part = part
        self.path = ROOT if above is None else _path_of(part, above)
        self._ids: dict[str, str] = {}
        self._opening = asyncio.Lock()
        for thread_id, entry in self._record().items():
            path = entry.get("path")
            if isinstance(path, str) and path.startswith(f"{self.path}/"):
                self._ids[path.rpartition("/")[2]] = thread_id

    # Starting and ending

    async def start(self, name: str, agent: Agent[Any], role: str | None, message: str, *, fork: int | None) -> Member:
        """Start an agent with a task.

        Args:
            fork: The number of turns of the history that it starts with. By default, the whole history.

        Raises:
            ToolError: The name is wrong or taken, a limit is reached, or the agent asks for more than this thread may do.
        """
        path = f"{self.path}/{check_name(name)}"
        if name in self._ids:
            raise ToolError(f"agent path `{path}` already exists")
        self._ids[name] = ""  # so that no other call takes the name meanwhile
        try:
            member = await self._spawn_member(path, agent, role, fork)
        except BaseException as error:
            del self._ids[name]
            if isinstance(error, CodexError):
                raise ToolError(f"collab spawn failed: {error}") from error
            raise
        self._ids[name] = member.id
        part = self._part_of(member.client)
        part.expect_letters(self.part.takes_letters if agent.model is None else _takes_letters(agent.model))
        self.task(member, message, self.path)
        return member

    async def _spawn_member(self, path: str, agent: Agent[Any], role: str | None, fork: int | None) -> Member:
        await self.room.make_room()
        try:
            name = self.room.new_name()
            extra = dict(self._extra(name, role))
            extra["source_detail"]["subagent"]["thread_spawn"]["agent_path"] = path
            extra["multi_agent_version"] = "v2"
            client = await self.thread.spawn(agent, fork=fork, extra=extra)
            member = Member(client, name, role, "", path=path)
        except BaseException:
            self.room.give_back()
            raise
        self._adopt_into(member)
        return member

    def _adopt_into(self, member: Member) -> None:
        self.room.owners[member.id] = self
        self._adopt(member)

    async def put_away(self, member: Member) -> None:
        """Close an idle agent until it is addressed again. Its unread messages stay in its record."""
        self._forget(member)
        async with self._opening:
            await member.client.shutdown()

    # Finding

    @property
    def members(self) -> Mapping[str, Member]:
        """The open agents of the whole team, by path, in their order."""
        return {
            str(member.path): member for member in sorted(self.room.members.values(), key=lambda one: str(one.path))
        }

    @contextmanager
    def keep_open(self, member: Member) -> Iterator[Member]:
        """Keep an agent open during a call."""
        member.holds += 1
        try:
            yield member
        finally:
            member.holds -= 1

    async def open(self, path: str) -> Member:
        """Return the agent of a path, which comes back if it was closed. Agents above it come back first.

        Raises:
            ToolError: The agent does not exist, or all places are taken.
        """
        team = self.part.root.team()
        member: Member | None = None
        for name in path.removeprefix(f"{ROOT}/").split("/"):
            if member is None:
                member = await team.child(name, path)
            else:
                with self.keep_open(member):
                    member = await team.child(name, path)
            team = self._part_of(member.client).team()
        assert member is not None  # a path has at least one name
        self.room.touch(member)
        return member

    async def child(self, name: str, path: str) -> Member:
        """Return an agent of this thread by name, which comes back if it was closed. ``path`` is the requested path.

        Raises:
            ToolError: The agent does not exist, or all places are taken.
        """
        thread_id = self._ids.get(name)
        if not thread_id:
            raise ToolError(f"live agent path `{path}` not found")
        found = self.children.get(thread_id)
        try:
            return found or await self.revive(thread_id)
        except ToolError:
            raise
        except CodexError as error:
            raise ToolError(str(error)) from error

    async def revive(self, thread_id: str) -> Member:
        """Bring back an agent of this thread that is not open."""
        await self.room.make_room()
        try:
            async with self._opening:
                found = self.children.get(thread_id)
                if found is None:
                    return await self._resume(thread_id)
        except BaseException:
            self.room.give_back()
            raise
        self.room.give_back()  # another call was faster
        return found

    async def _resume(self, thread_id: str) -> Member:
        entry = self._record()[thread_id]
        role = entry.get("role")
        agent = self.agent(role if isinstance(role, str) else None)
        client = await self.thread.spawn(agent, resume=thread_id)
        member = Member(client, str(entry.get("name")), agent.name if role else None, "", path=entry.get("path"))
        status = entry.get("status")
        member.status = status if isinstance(status, Mapping) else INTERRUPTED
        self._adopt_into(member)
        return member

    def path_of(self, thread_id: str) -> str | None:
        """Return the path of an agent by the id of its thread. Closed agents are found by the threads that started them."""
        if thread_id == self.part.root.thread.id:
            return ROOT
        member = self.room.members.get(thread_id)
        if member is not None:
            return member.path
        names = (name for name, known in self._ids.items() if known == thread_id)
        return next((f"{self.path}/{name}" for name in names), None)

    def check_exists(self, path: str) -> None:
        """Check that this thread has started an agent.

        Raises:
            ToolError: The agent does not exist.
        """
        if not self._ids.get(path.removeprefix(f"{self.path}/")):
            raise ToolError(f"live agent path `{path}` not found")

    def status_at(self, path: str) -> Status:
        """Return the status of an agent of this thread, open or closed."""
        entry = self._record().get(self._ids.get(path.removeprefix(f"{self.path}/"), ""), {})
        status = entry.get("status")
        return status if isinstance(status, (str, Mapping)) else NOT_FOUND

    def _part_of(self, client: ThreadClient) -> TeamPart:
        part = self.part.parts.get(client.id)
        if part is None:
            raise ToolError("the agent cannot be reached, because it has no tools for agents")
        return part

    # Talking

    def task(self, member: Member, message: str, author: str) -> None:
        """Give an agent a task, which starts a turn if it is idle.

        Raises:
            ToolError: It has too many messages that it has not read.
        """
        mail = Communication(author=author, recipient=str(member.path), content=message, trigger_turn=True)
        self._part_of(member.client).receive(mail)
        member.task = message[:_TASK_LENGTH]
        if member.client.status in ("running", "waiting"):
            member.status = RUNNING
        self.room.touch(member)

    def message(self, member: Member | None, message: str, author: str) -> None:
        """Send a message without starting a turn.

        Args:
            member: The recipient. By default, the root thread.

        Raises:
            ToolError: It has too many messages that it has not read.
        """
        part = self.part.root if member is None else self._part_of(member.client)
        part.receive(Communication(author=author, recipient=part.team().path, content=message))

    # Following

    def _notify(self, member: Member, turn_id: str) -> None:
        """Send this thread's model the last message of an agent. A closed agent has nothing to say."""
        status = member.status
        if not isinstance(status, Mapping):
            return
        text = f"The agent failed: {status['errored']}" if "errored" in status else status.get("completed") or ""
        mail = Communication(author=str(member.path), recipient=self.path, content=text)
        try:
            self.part.receive(mail, FINAL_ANSWER)
        except ToolError:
            self.thread.warn(f"the last message of the agent {member.path} was not delivered: too many are unread")
        turn = self.thread.turn
        item_id, own_turn = f"subagent-completed-{turn_id}", "" if turn is None else turn.turn_id
        for event in activity("completed", item_id, member, self.thread.id, own_turn):
            self.thread.emit(event)


def activity(kind: str, item_id: str, member: Member, thread_id: str, turn_id: str, **more: Any) -> Iterator[EventMsg]:
    """Yield what clients learn about an agent: the item ``SubAgentActivity``, and the older event.

    Args:
        kind: ``started``, ``interacted``, ``interrupted`` or ``completed``.
        thread_id, turn_id: Of the thread that has started it, or talks to it.
    """
    item = {
        "type": "SubAgentActivity",
        "id": item_id,
        "kind": kind,
        "agent_thread_id": member.id,
        "agent_path": member.path,
        "model": None,
        "reasoning_effort": None,
        **more,
    }
    now = int(time.time() * 1000)
    yield ItemCompletedEvent(thread_id, turn_id, item, now)
    older = older_end(item, now)
    if older is not None:
        yield older


def _path_of(part: TeamPart, above: Team) -> str:
    """Return the path of a thread, from its metadata. The path of the thread that has started it is always before it."""
    spawned = part.thread.meta.extra["source_detail"]["subagent"]["thread_spawn"]
    path = spawned.get("agent_path") if isinstance(spawned, Mapping) else None
    if isinstance(path, str) and path.rpartition("/")[0] == above.path:
        return path
    return f"{above.path}/agent_{part.thread.id[-4:]}"


def _takes_letters(slug: str) -> bool:
    from codex_framework.toolkit.model_catalogue import known_model

    model = known_model(slug)
    return model is not None and model.namespaces
