"""The descriptions of the tools for the model. Their implementation is imported at first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolNamespace,
    ToolOutput,
    ToolSpec,
    Value,
    arguments_schema,
)

__all__ = ["FORMS", "AgentTool", "Form", "agent_tools"]

_GROUP = ToolNamespace("multi_agent_v1", "Tools for starting sub-agents and working with them.")

_MAIL = ("list_agents", "send_message")
"""The tools of an agent that may start no others."""


class Form(Value):
    """The form of a tool."""

    description: str
    arguments: Mapping[str, Argument]
    parallel_safe: bool = False
    tells_clients: bool = True


_ITEMS = Argument(
    "objects",
    "Structured input in place of a message, such as images and mentions.",
    fields={
        "type": Argument("string", "text, image or mention.", required=True),
        "text": Argument("string", "The text, for text."),
        "image_url": Argument("string", "The address of the image, for image."),
        "name": Argument("string", "The name to show, for mention."),
        "path": Argument("string", "What is mentioned, such as app://ID, for mention."),
    },
)

FORMS: Mapping[str, Form] = {
    "spawn_agent": Form(
        (
            "Starts a sub-agent with a task of its own and returns its agent_id. It works beside you, in the same folder and with at"
            " most your permissions, and cannot ask you anything: give it a task that is complete in itself, and say what its answer"
            " must contain. Use it only if the user or the instructions of the project ask for sub-agents or parallel work. Do not"
            " start one for a step that you need the result of at once; do that step yourself. Tell agents that edit files which"
            " files are theirs. You read their results with wait_agent or in a notification. Close agents that you no longer need."
        ),
        {
            "message": Argument("string", "The task. Use either message or items."),
            "items": _ITEMS,
            "agent_type": Argument(
                "string", "The type of agent: default, explorer, worker, or one of the configuration."
            ),
            "fork_context": Argument(
                "boolean", "Whether the agent starts with this conversation. By default it only gets its task."
            ),
            "model": Argument("string", "Another model. Leave it out unless the user asks for one."),
            "reasoning_effort": Argument(
                "string", "Another reasoning effort. Leave it out unless the user asks for one."
            ),
        },
    ),
    "send_input": Form(
        (
            "Sends a message to an agent that you have started. If it is working, it reads the message during its turn; otherwise it"
            " starts a turn. With interrupt it stops what it is doing first."
        ),
        {
            "target": Argument("string", "The agent_id of the agent.", required=True),
            "message": Argument("string", "The message. Use either message or items."),
            "items": _ITEMS,
            "interrupt": Argument("boolean", "Whether to interrupt what the agent is doing."),
        },
    ),
    "resume_agent": Form(
        "Opens an agent again that you have closed, so that it can get input. It remembers its conversation.",
        {"id": Argument("string", "The agent_id of the agent.", required=True)},
    ),
    "wait_agent": Form(
        (
            "Waits until one of the given agents has finished, and returns the status of those that have, with their last message."
            " The status is empty if the time is over first. Wait long rather than often."
        ),
        {
            "targets": Argument("strings", "The agent_ids of the agents.", required=True),
            "timeout_ms": Argument("i64", "Time limit in milliseconds: 10000 to 3600000; by default 30000."),
        },
        parallel_safe=True,
    ),
    "close_agent": Form(
        (
            "Ends an agent that you no longer need, and the agents that it has started. Open agents count towards the limit even if"
            " they have finished. Returns the status that the agent had."
        ),
        {"target": Argument("string", "The agent_id of the agent.", required=True)},
    ),
    "list_agents": Form(
        "Lists the open agents of this session with their status.", {}, parallel_safe=True, tells_clients=False
    ),
    "send_message": Form(
        (
            "Sends a message to another agent of this session without starting a turn. It reads the message when it goes on. The"
            " target is an agent_id, a nickname, or `parent` for the agent that has started you."
        ),
        {
            "target": Argument("string", "Who gets the message.", required=True),
            "message": Argument("string", "The message.", required=True),
        },
        tells_clients=False,
    ),
}
"""The tools by name."""


class AgentTool(Tool):
    """One of the tools."""

    exposure = "deferred"
    source = "sub-agents: start further agents, talk with them, wait for them"

    def __init__(self, name: str) -> None:
        form = FORMS[name]
        schema = arguments_schema(form.arguments)
        self.spec: ToolSpec = FunctionSpec(name, form.description, schema, namespace=_GROUP, local_name=name)
        self.parallel_safe = form.parallel_safe
        self.tells_clients = form.tells_clients

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_sub_agents.part import AgentsPart
        from codex_plugin_sub_agents.tools import ACTIONS

        part = await context.part(AgentsPart)
        name = self.spec.name
        return await ACTIONS[name](part.family(), FORMS[name].arguments).run(call, context)


@cache
def agent_tools(everything: bool) -> Sequence[Tool]:  # noqa: FBT001  # the key of the cache
    """Return the tools of a thread.

    Args:
        everything: Whether the thread may start agents. Otherwise it gets the tools for mail.
    """
    return tuple(AgentTool(name) for name in FORMS if everything or name in _MAIL)
