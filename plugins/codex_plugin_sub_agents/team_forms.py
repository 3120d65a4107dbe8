"""The descriptions of the tools of the second group for the model. Their implementation is imported at first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolNamespace,
    ToolOutput,
    ToolSpec,
    arguments_schema,
)
from codex_plugin_sub_agents.forms import Form

if TYPE_CHECKING:
    from codex_plugin_sub_agents.versions import TeamSettings

__all__ = ["TeamTool", "team_tools"]

_GROUP = "Tools for starting sub-agents and working with them as a team."

_MAIL = ("list_agents", "send_message")
"""The tools of an agent that may start no others."""

_TARGET = "The agent's task name: its path from /root, or its name below you."

_FORMS: Mapping[str, Form] = {
    "followup_task": Form(
        (
            "Gives an agent that you have started, or one below it, a further task. An idle agent starts a turn; an agent at work"
            " reads the task as soon as its current step is done."
        ),
        {
            "target": Argument("string", _TARGET, required=True),
            "message": Argument("string", "The task.", required=True),
        },
        tells_clients=False,
    ),
    "interrupt_agent": Form(
        (
            "Stops the current turn of an agent below you, and returns the status that it had. The agent stays available for messages"
            " and further tasks."
        ),
        {"target": Argument("string", _TARGET, required=True)},
        tells_clients=False,
    ),
    "list_agents": Form(
        "Lists the open agents of the team with their status.",
        {"path_prefix": Argument("string", "Only this agent and those below it, without a slash at the end.")},
        parallel_safe=True,
        tells_clients=False,
    ),
    "send_message": Form(
        (
            "Sends a message to another agent of the team without starting a turn. An agent at work reads it as soon as its current"
            " step is done, an idle one in its next turn."
        ),
        {
            "target": Argument("string", _TARGET, required=True),
            "message": Argument("string", "The message.", required=True),
        },
        tells_clients=False,
    ),
    "spawn_agent": Form(
        (
            "Starts an agent with a task of its own. It works beside you, in the same folder, with at most your permissions. Its path"
            " is yours and its name: if you are /root/survey and start `tests`, it is /root/survey/tests, and you can call it"
            " `tests`. You get its last message when it has finished. Start agents only if the user or the instructions of the"
            " project ask for sub-agents or parallel work. Do not start one for a step that you need the result of at once; do that"
            " step yourself."
        ),
        {
            "task_name": Argument(
                "string", "A name for the agent: lowercase letters, digits and underscores.", required=True
            ),
            "message": Argument("string", "The task, with what the answer must contain.", required=True),
            "fork_turns": Argument(
                "string", "What the agent knows of this conversation: `all` (default), `none`, or a number of turns."
            ),
            "agent_type": Argument(
                "string", "The type of agent: default, explorer, worker, or one of the configuration.", hidden=True
            ),
            "model": Argument("string", "Another model. Leave it out unless the user asks for one."),
            "reasoning_effort": Argument(
                "string", "Another reasoning effort. Leave it out unless the user asks for one."
            ),
            "fork_context": Argument("any", hidden=True),
        },
        tells_clients=False,
    ),
    "wait_agent": Form(
        (
            "Waits until a message for you arrives: the last message of an agent that has finished, or one that an agent has sent you."
            " You read it after this call. The wait also ends when the user says something. Wait long rather than often."
        ),
        {"timeout_ms": Argument("i64", "Time limit in milliseconds.")},
        parallel_safe=True,
    ),
}


def _form(name: str, options: TeamSettings) -> Form:
    form = _FORMS[name]
    if name == "spawn_agent" and options.shows_types:
        shown = form.arguments["agent_type"]._replace(hidden=False)
        return form.evolve(arguments={**form.arguments, "agent_type": shown})
    if name == "wait_agent":
        words = f"Time limit in milliseconds: {options.shortest_ms} to {options.longest_ms}; by default {options.default_ms}."
        return form.evolve(arguments={"timeout_ms": Argument("i64", words)})
    return form


class TeamTool(Tool):
    """One of the tools."""

    def __init__(self, name: str, options: TeamSettings) -> None:
        form = _form(name, options)
        group = ToolNamespace(options.group, _GROUP)
        schema = arguments_schema(form.arguments)
        self.spec: ToolSpec = FunctionSpec(
            name, form.description, schema, namespace=group, local_name=name, model_only=True
        )
        self.parallel_safe = form.parallel_safe
        self.tells_clients = form.tells_clients
        self._arguments = form.arguments

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_sub_agents.part import AgentsPart
        from codex_plugin_sub_agents.team_tools import TEAM_ACTIONS

        part = await context.part(AgentsPart)
        return await TEAM_ACTIONS[self.spec.name](part, self._arguments).run(call, context)


@lru_cache(maxsize=16)
def team_tools(options: TeamSettings, everything: bool) -> Sequence[Tool]:  # noqa: FBT001  # a key of the cache
    """Return the tools of a thread. A thread that may start no agents gets those for mail."""
    names = _FORMS if everything else _MAIL
    return tuple(TeamTool(name, options) for name in names if name != "wait_agent" or options.waits)
