"""The agents that one thread has started."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import (
    Agent,
    CodexError,
    ThreadContext,
    ToolError,
)
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.protocol.ops import UserInputItem, UserInputOp
from codex_plugin_sub_agents.settings import Settings
from codex_plugin_sub_agents.status import (
    INTERRUPTED,
    NOT_FOUND,
    PENDING,
    RUNNING,
    SHUTDOWN,
    Status,
    is_final,
    status_after,
)
from codex_plugin_sub_agents.tree import Member, Tree

__all__ = ["Family", "check_id"]

_ENTRY = "agent"
"""The kind of the entries about agents: ``{"id", "of", "name", "role", "status", "open"}``. The last one of an id counts.

``of`` is the id of the thread that has started it. A fork of this thread has copies of the entries, but the agents are not its
own.
"""

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_TASK_LENGTH = 200


def check_id(text: str) -> str:
    """Return the id of a thread in its usual form.

    Raises:
        ToolError: It is not an id.
    """
    found = text.strip().lower()
    if not _ID.fullmatch(found):
        raise ToolError(f"invalid agent id {text[:80]}: use the agent_id that spawn_agent returned")
    return found


class Family:
    """The agents of one thread: the open agents, and the record of all agents.

    Attributes:
        tree: The open agents of all threads below the same root.
        shortest_wait_ms: The shortest time limit of a wait.
    """

    def __init__(self, thread: ThreadContext, tree: Tree, settings: Settings) -> None:
        self.thread = thread
        self.tree = tree
        self.shortest_wait_ms = settings.shortest_wait_ms
        self.children: dict[str, Member] = {}
        self._closing = False

    async def bring_back(self) -> None:
        """Resume the agents that were open when the thread's process ended."""
        for thread_id, entry in self._record().items():
            if not entry.get("open"):
                continue
            try:
                await self.revive(thread_id)
            except CodexError as error:
                self._keep(thread_id, {**entry, "open": False})
                self.thread.warn(f"the sub-agent {entry.get('name')} ({thread_id}) was not brought back: {error}")

    def close_all(self) -> None:
        """Forget the agents, which have ended with the thread."""
        self._closing = True
        for member in list(self.children.values()):
            self._forget(member)

    # Starting and ending

    async def spawn(
        self, agent: Agent[Any], role: str | None, items: Sequence[UserInputItem], task: str, *, fork: bool
    ) -> Member:
        """Start an agent with a task.

        Raises:
            ToolError: The limit is reached, or the agent asks for more than this thread may do.
        """
        self.tree.take_place()
        try:
            name = self.tree.new_name()
            extra = self._extra(name, role)
            client = await self.thread.spawn(agent, fork=None if fork else 0, extra=extra)
            member = Member(client, name, role, task[:_TASK_LENGTH])
        except BaseException as error:
            self.tree.give_back()
            if isinstance(error, CodexError):
                raise ToolError(str(error)) from error
            raise
        self._adopt(member)
        await self.give(member, items, task)
        return member

    def _extra(self, name: str, role: str | None) -> Mapping[str, Any]:
        """Return the metadata of a child, with Codex's names."""
        spawned = {
            "parent_thread_id": self.thread.id,
            "depth": self.thread.depth + 1,
            "agent_path": None,
            "agent_nickname": name,
            "agent_role": role,
        }
        return {
            "source_detail": {"subagent": {"thread_spawn": spawned}},
            "thread_source": "subagent",
            "agent_nickname": name,
            **({} if role is None else {"agent_role": role}),
        }

    async def revive(self, thread_id: str) -> Member:
        """Bring back an agent of this thread that is not open.

        Raises:
            ToolError: The agent does not exist, or the limit is reached.
            CodexError: Its session cannot be read, or its agent type no longer exists.
        """
        entry = self._record().get(thread_id)
        if entry is None:
            raise ToolError(f"agent with id {thread_id} not found")
        self.tree.take_place()
        try:
            role = entry.get("role")
            agent = self.agent(role if isinstance(role, str) else None)
            client = await self.thread.spawn(agent, resume=thread_id)
            member = Member(client, str(entry.get("name")), agent.name if role else None, "")
        except BaseException:
            self.tree.give_back()
            raise
        status = entry.get("status")
        member.status = status if isinstance(status, Mapping) else INTERRUPTED
        self._adopt(member)
        return member

    async def close(self, member: Member) -> None:
        """End an agent and those below it."""
        self._forget(member)
        self._tell_record(member, is_open=False)
        await member.client.shutdown()

    def agent(self, role: str | None) -> Agent[Any]:
        """Return the agent of a type, with this thread's base instructions by default.

        Raises:
            ToolError: The type does not exist.
        """
        try:
            agent = self.thread.kernel.agent(role or "default")
        except CodexError:
            if role is not None:
                raise ToolError(f"unknown agent_type {role[:80]!r}") from None
            agent = Agent(name="default")
        if agent.instructions is None and self.thread.meta.base_instructions and agent.model is None:
            agent = agent.evolve(instructions=self.thread.meta.base_instructions)
        return agent

    # Talking

    async def give(self, member: Member, items: Sequence[UserInputItem], task: str) -> str:
        """Give an agent input and return the submission's id. A running turn of the agent takes it up."""
        member.task = task[:_TASK_LENGTH]
        submission = await member.client.submit(UserInputOp(tuple(items)))
        if member.client.status in ("running", "waiting"):
            member.status = RUNNING
        return submission

    def member(self, thread_id: str) -> Member:
        """Return an open agent of this thread by id.

        Raises:
            ToolError: The agent does not exist.
        """
        found = self.children.get(thread_id)
        if found is None:
            raise ToolError(f"agent with id {thread_id} not found")
        return found

    def status_of(self, thread_id: str) -> Status:
        """Return the status of an agent of this thread."""
        found = self.children.get(thread_id)
        return NOT_FOUND if found is None else found.status

    # Following

    def _adopt(self, member: Member) -> None:
        self.children[member.id] = member
        self.tree.add(member)
        self._tell_record(member, is_open=True)
        events = member.client.events(answers=False)
        self.thread.background(self._watch(member, events), name=f"agent {member.name}")

    async def _watch(self, member: Member, events: Any) -> None:
        """Follow the status of an agent, and tell this thread's model when it is final."""
        async for event in events:
            status = status_after(event.msg)
            if isinstance(event.msg, ErrorEvent) and member.client.status == "idle" and not is_final(member.status):
                status = {"errored": event.msg.message}  # its input was refused, so there is no turn
            if status is None or self._closing or self.children.get(member.id) is not member:
                continue
            before, member.status = member.status, status
            if status == SHUTDOWN:
                self._forget(member)
            if is_final(status) and status != before:
                self._tell_record(member, is_open=status != SHUTDOWN)
                self._notify(member, event.id)

    def _notify(self, member: Member, turn_id: str) -> None:  # noqa: ARG002  # for teams
        """Tell this thread's model and its clients that an agent has finished a turn."""
        note = json.dumps({"agent_path": member.id, "status": member.status}, ensure_ascii=False, separators=(",", ":"))
        note = note.replace("</", "<\\/")  # the same JSON, in which the agent's words cannot end the notification
        self.thread.deliver([user_message(f"<subagent_notification>\n{note}\n</subagent_notification>")])

    def _forget(self, member: Member) -> None:
        self.children.pop(member.id, None)
        self.tree.remove(member)

    # The record

    def _tell_record(self, member: Member, *, is_open: bool) -> None:
        status = member.status if member.status not in (PENDING, RUNNING) else None
        path = {} if member.path is None else {"path": member.path}
        self._keep(member.id, {"name": member.name, "role": member.role, "status": status, "open": is_open, **path})

    def _keep(self, thread_id: str, entry: Mapping[str, Any]) -> None:
        self.thread.append_entry(_ENTRY, {**entry, "id": thread_id, "of": self.thread.id})

    def _record(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the last entry of each agent, by id."""
        own = self.thread.id
        return {str(entry.get("id")): entry for entry in self.thread.entries(_ENTRY) if entry.get("of", own) == own}
