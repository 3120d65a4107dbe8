"""The tools for sub-agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from codex_framework import (
    Argument,
    CodexError,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolNamespace,
    ToolOutput,
    arguments_schema,
    parse_arguments,
)
from codex_plugin_sub_agents.arguments import AGENT_ITEMS, agent_for, check_fork, given_input
from codex_plugin_sub_agents.family import Family, checked_id
from codex_plugin_sub_agents.items import CallItem
from codex_plugin_sub_agents.mail import Communication, InterAgentCommunication
from codex_plugin_sub_agents.waiting import first_final, time_limit_s

__all__ = ["tools_of"]

_GROUP = ToolNamespace("multi_agent_v1", "Tools for starting sub-agents and working with them.")

_MAX_TARGETS = 64


def tools_of(family: Family, everything: bool) -> Sequence[Tool]:  # noqa: FBT001  # a family calls it
    """Return the tools of a thread.

    Args:
        everything: Whether the thread may start agents. Otherwise it gets the tools for mail.
    """
    kinds = (SpawnAgent, SendInput, ResumeAgent, WaitAgent, CloseAgent) if everything else ()
    return [kind(family) for kind in (*kinds, ListAgents, SendMessage)]


class AgentTool(Tool):
    """The base of the tools."""

    exposure = "deferred"
    source = "sub-agents: start further agents, talk with them, wait for them"
    name = ""
    description = ""
    arguments: ClassVar[Mapping[str, Argument]] = {}

    def __init__(self, family: Family) -> None:
        self.family = family
        schema = arguments_schema(self.arguments)
        self.spec = FunctionSpec(self.name, self.description, schema, namespace=_GROUP, local_name=self.name)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        output = await self.act(parse_arguments(call.arguments, self.arguments), context)
        return ToolOutput(json.dumps(output, ensure_ascii=False, separators=(",", ":")), truncate=False)

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Run one call with checked arguments and return its output.

        Raises:
            ToolError: It failed.
        """
        raise NotImplementedError


class SpawnAgent(AgentTool):
    """Starts an agent."""

    tells_clients = True
    name = "spawn_agent"
    description = (
        "Starts a sub-agent with a task of its own and returns its agent_id. It works beside you, in the same folder and with at"
        " most your permissions, and cannot ask you anything: give it a task that is complete in itself, and say what its answer"
        " must contain. Use it only if the user or the instructions of the project ask for sub-agents or parallel work. Do not"
        " start one for a step that you need the result of at once; do that step yourself. Tell agents that edit files which"
        " files are theirs. You read their results with wait_agent or in a notification. Close agents that you no longer need."
    )
    arguments: ClassVar[Mapping[str, Argument]] = {
        "message": Argument("string", "The task. Use either message or items."),
        "items": AGENT_ITEMS,
        "agent_type": Argument("string", "The type of agent: default, explorer, worker, or one of the configuration."),
        "fork_context": Argument(
            "boolean", "Whether the agent starts with this conversation. By default it only gets its task."
        ),
        "model": Argument("string", "Another model. Leave it out unless the user asks for one."),
        "reasoning_effort": Argument("string", "Another reasoning effort. Leave it out unless the user asks for one."),
    }

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Start an agent."""
        items, task = given_input(given)
        fork = bool(given.get("fork_context"))
        if fork:
            check_fork(given)
        role = given.get("agent_type")
        agent = agent_for(self.family.agent(role), given, context)
        item = CallItem(context, self.name, (), task)
        try:
            member = await self.family.spawn(agent, role, items, task, fork=fork)
        except ToolError as error:
            item.end({}, failed=True)
            raise ToolError(f"collab spawn failed: {error}") from error
        except BaseException:
            item.end({}, failed=True)
            raise
        model = agent.model or context.model.slug
        item.end({member.id: "pending_init"}, names={member.id: member.name}, model=model)
        return {"agent_id": member.id, "nickname": member.name}


class SendInput(AgentTool):
    """Gives an agent more input."""

    tells_clients = True
    name = "send_input"
    description = (
        "Sends a message to an agent that you have started. If it is working, it reads the message during its turn; otherwise it"
        " starts a turn. With interrupt it stops what it is doing first."
    )
    arguments: ClassVar[Mapping[str, Argument]] = {
        "target": Argument("string", "The agent_id of the agent.", required=True),
        "message": Argument("string", "The message. Use either message or items."),
        "items": AGENT_ITEMS,
        "interrupt": Argument("boolean", "Whether to interrupt what the agent is doing."),
    }

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Send the input."""
        items, task = given_input(given)
        target = checked_id(given["target"])
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
            item.end({target: self.family.status_of(target)}, names=_names(self.family, [target]), failed=failed)
        return {"submission_id": submission}


class ResumeAgent(AgentTool):
    """Opens an agent again."""

    tells_clients = True
    name = "resume_agent"
    description = "Opens an agent again that you have closed, so that it can get input. It remembers its conversation."
    arguments: ClassVar[Mapping[str, Argument]] = {
        "id": Argument("string", "The agent_id of the agent.", required=True)
    }

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Open the agent."""
        target = checked_id(given["id"])
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
            item.end({target: self.family.status_of(target)}, names=_names(self.family, [target]), failed=failed)
        return {"status": self.family.status_of(target)}


class WaitAgent(AgentTool):
    """Waits for agents."""

    parallel_safe = True
    tells_clients = True
    name = "wait_agent"
    description = (
        "Waits until one of the given agents has finished, and returns the status of those that have, with their last message."
        " The status is empty if the time is over first. Wait long rather than often."
    )
    arguments: ClassVar[Mapping[str, Argument]] = {
        "targets": Argument("strings", "The agent_ids of the agents.", required=True),
        "timeout_ms": Argument("i64", "Time limit in milliseconds: 10000 to 3600000; by default 30000."),
    }

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call. Without targets it says so, as for an empty list."""
        found = parse_arguments(call.arguments, {**self.arguments, "targets": Argument("strings")})
        return ToolOutput(
            json.dumps(await self.act(found, context), ensure_ascii=False, separators=(",", ":")), truncate=False
        )

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Wait."""
        targets = list(dict.fromkeys(checked_id(target) for target in given.get("targets", ())))
        if not targets:
            raise ToolError("agent ids must be non-empty")
        if len(targets) > _MAX_TARGETS:
            raise ToolError(f"at most {_MAX_TARGETS} agents can be waited for at once")
        limit_s = time_limit_s(given.get("timeout_ms"), self.family.shortest_wait_ms)
        item = CallItem(context, "wait", targets)
        states: Mapping[str, Any] = {}
        try:
            states = await first_final(self.family, targets, limit_s)
        finally:
            item.end(states, names=_names(self.family, states))
        return {"status": states, "timed_out": not states}


class CloseAgent(AgentTool):
    """Ends an agent."""

    tells_clients = True
    name = "close_agent"
    description = (
        "Ends an agent that you no longer need, and the agents that it has started. Open agents count towards the limit even if"
        " they have finished. Returns the status that the agent had."
    )
    arguments: ClassVar[Mapping[str, Argument]] = {
        "target": Argument("string", "The agent_id of the agent.", required=True)
    }

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """End the agent."""
        target = checked_id(given["target"])
        item = CallItem(context, self.name, [target])
        names = _names(self.family, [target])
        before = self.family.status_of(target)
        try:
            await self.family.close(self.family.member(target))
        finally:
            item.end({target: before}, names=names)
        return {"previous_status": before}


class ListAgents(AgentTool):
    """Lists agents."""

    parallel_safe = True
    name = "list_agents"
    description = "Lists the open agents of this session with their status."

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


class SendMessage(AgentTool):
    """Sends mail to another agent."""

    name = "send_message"
    description = (
        "Sends a message to another agent of this session without starting a turn. It reads the message when it goes on. The"
        " target is an agent_id, a nickname, or `parent` for the agent that has started you."
    )
    arguments: ClassVar[Mapping[str, Argument]] = {
        "target": Argument("string", "Who gets the message.", required=True),
        "message": Argument("string", "The message.", required=True),
    }

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


def _names(family: Family, ids: Sequence[str] | Mapping[str, Any]) -> Mapping[str, str]:
    return {key: family.children[key].name for key in ids if key in family.children}
