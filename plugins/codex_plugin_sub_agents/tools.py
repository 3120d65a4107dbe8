"""The work of the tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from codex_framework import (
    Argument,
    CodexError,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    parse_arguments,
)
from codex_plugin_sub_agents.arguments import agent_for, check_fork, read_input
from codex_plugin_sub_agents.family import Family, check_id
from codex_plugin_sub_agents.items import CallItem
from codex_plugin_sub_agents.mail import Communication, InterAgentCommunication
from codex_plugin_sub_agents.tree import Member
from codex_plugin_sub_agents.waiting import time_limit_s, wait_for_final

__all__ = ["ACTIONS"]

_MAX_TARGETS = 64


class Action:
    """The work of one call. The base of the tools' actions."""

    name: ClassVar[str] = ""

    def __init__(self, family: Family, arguments: Mapping[str, Argument]) -> None:
        self.family = family
        self.arguments = arguments

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        output = await self.act(parse_arguments(call.arguments, self.arguments), context)
        return _report_output(output)

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Run one call with checked arguments and return its output.

        Raises:
            ToolError: It failed.
        """
        raise NotImplementedError


def _report_output(output: Mapping[str, Any]) -> ToolOutput:
    return ToolOutput(json.dumps(output, ensure_ascii=False, separators=(",", ":")), truncate=False, result=output)


class SpawnAgent(Action):
    """Starts an agent."""

    name = "spawn_agent"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Start an agent."""
        items, task = read_input(given, context.access)
        fork = bool(given.get("fork_context"))
        if fork:
            check_fork(given)
        role = given.get("agent_type")
        agent = agent_for(self.family.agent(role), given, context)
        effort = agent.reasoning_effort or self.family.thread.settings.reasoning_effort or context.model.default_effort
        about = {"model": agent.model or context.model.slug, "reasoning_effort": effort}
        item = CallItem(context, self.name, (), task, about=about)
        try:
            member = await self.family.spawn(agent, role, items, task, fork=fork)
        except ToolError as error:
            item.end({}, failed=True)
            raise ToolError(f"collab spawn failed: {error}") from error
        except BaseException:
            item.end({}, failed=True)
            raise
        item.end({member.id: "pending_init"}, members=[member])
        return {"agent_id": member.id, "nickname": member.name}


class SendInput(Action):
    """Gives an agent more input."""

    name = "send_input"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Send the input."""
        items, task = read_input(given, context.access)
        target = check_id(given["target"])
        item = CallItem(context, self.name, [target], task)
        failed = True
        try:
            member = self.family.member(target)
            if given.get("interrupt"):
                await member.client.interrupt()
            submission = await self.family.give(member, items, task)
            failed = False
        except CodexError as error:
            raise ToolError(str(error)) from error
        finally:
            item.end({target: self.family.status_of(target)}, members=_open(self.family, [target]), failed=failed)
        return {"submission_id": submission}


class ResumeAgent(Action):
    """Opens an agent again."""

    name = "resume_agent"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Open the agent."""
        target = check_id(given["id"])
        item = CallItem(context, self.name, [target])
        failed = True
        try:
            if target not in self.family.children:
                await self.family.revive(target)
            failed = False
        except ToolError:
            raise
        except CodexError as error:
            raise ToolError(str(error)) from error
        finally:
            item.end({target: self.family.status_of(target)}, members=_open(self.family, [target]), failed=failed)
        return {"status": self.family.status_of(target)}


class WaitAgent(Action):
    """Waits for agents."""

    name = "wait_agent"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call. Without targets it says so, as for an empty list."""
        found = parse_arguments(call.arguments, {**self.arguments, "targets": Argument("strings")})
        return _report_output(await self.act(found, context))

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Wait."""
        targets = list(dict.fromkeys(check_id(target) for target in given.get("targets", ())))
        if not targets:
            raise ToolError("agent ids must be non-empty")
        if len(targets) > _MAX_TARGETS:
            raise ToolError(f"at most {_MAX_TARGETS} agents can be waited for at once")
        limit_s = time_limit_s(given.get("timeout_ms"), self.family.shortest_wait_ms)
        item = CallItem(context, "wait", targets, members=_open(self.family, targets))
        states: Mapping[str, Any] = {}
        try:
            states = await wait_for_final(self.family, targets, limit_s)
        finally:
            item.end(states, members=_open(self.family, states))
        return {"status": states, "timed_out": not states}


class CloseAgent(Action):
    """Ends an agent."""

    name = "close_agent"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """End the agent."""
        target = check_id(given["target"])
        item = CallItem(context, self.name, [target])
        members = _open(self.family, [target])
        before = self.family.status_of(target)
        try:
            await self.family.close(self.family.member(target))
        finally:
            item.end({target: before}, members=members)
        return {"previous_status": before}


class ListAgents(Action):
    """Lists agents."""

    name = "list_agents"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:  # noqa: ARG002  # the base's
        """List the agents."""
        agents = [
            {
                "agent_name": member.id,
                "nickname": member.name,
                "agent_type": member.role,
                "agent_status": member.status,
                "last_task_message": member.task,
            }
            for member in self.family.tree.members.values()
        ]
        return {"agents": agents}


class SendMessage(Action):
    """Sends mail to another agent."""

    name = "send_message"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Send the message."""
        message, target = given["message"], given["target"].strip()
        if not message.strip():
            raise ToolError("Empty message can't be sent to an agent")
        receiver: Any = self.family.thread.parent if target == "parent" else self._member(target)
        if receiver is None:
            raise ToolError("you have no parent: you work for the user")
        mail = Communication(author=context.thread_id, recipient=receiver.id, content=message)
        try:
            await receiver.submit(InterAgentCommunication(mail))
        except CodexError as error:
            raise ToolError(str(error)) from error
        return {"sent_to": receiver.id}

    def _member(self, target: str) -> Any:
        members = self.family.tree.members
        named = {member.name.lower(): member for member in members.values()}
        found = members.get(target.lower()) or named.get(target.lower())
        if found is None or found.id == self.family.thread.id:
            raise ToolError(f"there is no open agent {target[:80]!r}; list_agents shows those that there are")
        return found.client


def _open(family: Family, ids: Iterable[str]) -> Sequence[Member]:
    return [family.children[key] for key in ids if key in family.children]


ACTIONS: Mapping[str, type[Action]] = {
    action.name: action
    for action in (SpawnAgent, SendInput, ResumeAgent, WaitAgent, CloseAgent, ListAgents, SendMessage)
}
"""The actions by the name of the tool."""
