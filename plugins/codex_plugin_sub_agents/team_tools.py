"""The work of the tools of the second group."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from codex_framework import Argument, CodexError, ToolCall, ToolContext, ToolError, ToolOutput, parse_arguments
from codex_plugin_sub_agents.arguments import agent_for, check_text
from codex_plugin_sub_agents.items import CallItem
from codex_plugin_sub_agents.paths import ROOT, is_below, resolved
from codex_plugin_sub_agents.status import RUNNING, Status
from codex_plugin_sub_agents.team import Team, TeamPart, activity
from codex_plugin_sub_agents.tree import Member

__all__ = ["TEAM_ACTIONS"]

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class TeamAction:
    """The work of one call. The base of the tools' actions."""

    name: ClassVar[str] = ""

    def __init__(self, part: TeamPart, arguments: Mapping[str, Argument]) -> None:
        self.part = part
        self.team: Team = part.team()
        self.arguments = arguments

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        try:
            output = await self.act(parse_arguments(call.arguments, self.arguments), context)
        except ToolError:
            raise
        except CodexError as error:
            raise ToolError(str(error)) from error
        text = "" if output is None else json.dumps(output, ensure_ascii=False, separators=(",", ":"))
        return ToolOutput(text, truncate=False)

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any] | None:
        """Run one call with checked arguments and return its output, or None for an empty one.

        Raises:
            CodexError: It failed.
        """
        raise NotImplementedError

    def path(self, target: str) -> str:
        """Return the path of an agent by path, name or the id of its thread.

        Raises:
            ToolError: Nothing matches.
        """
        if _ID.fullmatch(target):
            path = self.team.path_of(target)
            if path is None:
                raise ToolError(f"agent with id {target} not found")
            return path
        return resolved(target, self.team.path)

    def tell(self, kind: str, member: Member, context: ToolContext, **more: Any) -> None:
        """Report an action on an agent to clients."""
        for event in activity(kind, context.call_id, member, context.thread_id, context.turn_id, **more):
            context.emit(event)


class SpawnAgent(TeamAction):
    """Starts an agent."""

    name = "spawn_agent"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Start an agent."""
        if given.get("fork_context") is not None:
            raise ToolError("fork_context is not supported in MultiAgentV2; use fork_turns instead")
        message = check_text(given["message"])
        fork = _read_fork(given.get("fork_turns"))
        if not self.part.offers_all():
            raise ToolError("Agent depth limit reached. Solve the task yourself.")
        role = given.get("agent_type")
        agent = agent_for(self.team.agent(role), given, context)
        member = await self.team.start(given["task_name"], agent, role, message, fork=fork)
        effort = agent.reasoning_effort or self.part.thread.settings.reasoning_effort or context.model.default_effort
        self.tell("started", member, context, model=agent.model or context.model.slug, reasoning_effort=effort)
        nickname = {"nickname": member.name} if self.part.rules.options.shows_types else {}
        return {"task_name": member.path, **nickname}


def _read_fork(given: str | None) -> int | None:
    """Return how many turns of the history an agent gets, or None for all."""
    word = (given or "all").strip().lower()
    if word in ("", "all"):
        return None
    if word == "none":
        return 0
    if word.isascii() and word.isdigit() and 0 < len(word) < 10 and int(word):
        return int(word)
    raise ToolError("fork_turns must be `none` or `all`")


class SendMessage(TeamAction):
    """Sends mail to another agent."""

    name = "send_message"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> None:
        """Send the message."""
        message = check_text(given["message"])
        path = self.path(given["target"])
        member = None if path == ROOT else await self.team.open(path)
        self.team.message(member, message, self.team.path)
        if member is not None:
            self.tell("interacted", member, context)


class FollowupTask(TeamAction):
    """Gives an agent a further task."""

    name = "followup_task"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> None:
        """Give the task."""
        message = check_text(given["message"])
        path = self.path(given["target"])
        if path == ROOT:
            raise ToolError("Follow-up tasks can't target the root agent")
        if not is_below(path, self.team.path):
            raise ToolError(
                "only an agent that you have started, or one below it, takes tasks from you: use send_message instead"
            )
        member = await self.team.open(path)
        self.team.task(member, message, self.team.path)
        self.tell("interacted", member, context)


class InterruptAgent(TeamAction):
    """Stops the turn of an agent."""

    name = "interrupt_agent"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Stop the turn."""
        path = self.path(given["target"])
        if path == ROOT:
            raise ToolError("root is not a spawned agent")
        if path == self.team.path:
            raise ToolError(
                "an agent cannot interrupt itself; return your result and let the parent interrupt you if needed"
            )
        if not is_below(path, self.team.path):
            raise ToolError("you can only interrupt agents that you have started, and those below them")
        member = self.team.members.get(path)
        if member is None:
            self.team.check_exists(path)
            return {"previous_status": self.team.status_at(path)}
        before = member.status
        with self.team.keep_open(member):
            await member.client.interrupt()
        self.tell("interrupted", member, context)
        return {"previous_status": before}


class ListAgents(TeamAction):
    """Lists agents."""

    name = "list_agents"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:  # noqa: ARG002  # the base's
        """List the agents."""
        prefix = given.get("path_prefix")
        top = ROOT if prefix is None else resolved(prefix, self.team.path)
        root = self.part.root.thread
        states: dict[str, Status] = {ROOT: RUNNING if root.turn is not None else {"completed": None}}
        states |= {path: member.status for path, member in self.team.members.items()}
        return {
            "agents": [
                {"agent_name": path, "agent_status": status}
                for path, status in states.items()
                if path == top or is_below(path, top)
            ]
        }


class WaitAgent(TeamAction):
    """Waits for mail, or for input of the user."""

    name = "wait_agent"

    async def act(self, given: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Wait."""
        options = self.part.rules.options
        limit_ms = asked = given.get("timeout_ms", options.default_ms)
        if asked > options.longest_ms:
            raise ToolError(f"timeout_ms must be at most {options.longest_ms}")
        note = ""
        if asked < options.shortest_ms:
            limit_ms = options.shortest_ms
            note = f"\n\nRequested timeout of {asked}ms was clamped to the minimum of {limit_ms}ms."
        item = CallItem(context, "wait", ())
        steered = asyncio.ensure_future(context.turn.until_input())
        try:
            found = await self.part.mailbox.wait(self.part.thread.history, limit_ms / 1000, steered)
            interrupted = not found and steered.done()
        finally:
            steered.cancel()
            item.end({})
        text = "Wait completed." if found else "Wait interrupted by new input." if interrupted else "Wait timed out."
        return {"message": text + note, "timed_out": not (found or interrupted)}


TEAM_ACTIONS: Mapping[str, type[TeamAction]] = {
    action.name: action for action in (SpawnAgent, SendMessage, FollowupTask, InterruptAgent, ListAgents, WaitAgent)
}
"""The actions by the name of the tool."""
