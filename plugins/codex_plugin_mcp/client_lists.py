"""Lists for clients: the tools, resources and prompts of servers, and the use of a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codex_framework import EventMsg, ServiceError, ThreadContext
from codex_framework.contract.value import field

if TYPE_CHECKING:
    from codex_plugin_mcp.connection import Connection
    from codex_plugin_mcp.connections import Connections

__all__ = [
    "McpListPromptsResponseEvent",
    "McpListToolsResponseEvent",
    "connections_of",
    "list_prompts",
    "list_tools",
    "use_prompt",
]

Items = Sequence[Mapping[str, Any]]


class McpListToolsResponseEvent(EventMsg, kw_only=True):
    """The offers of the servers, as they describe them.

    Attributes:
        tools: From the name for the model to the tool.
        resources: From the server to its resources.
        resource_templates: From the server to its templates.
        auth_statuses: From the server to ``unsupported``, ``not_logged_in``, ``bearer_token`` or ``o_auth``.
        errors: From the server to the lists that could not be read.
    """

    type: ClassVar[Literal["mcp_list_tools_response"]] = "mcp_list_tools_response"

    tools: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    resources: Mapping[str, Items] = field(factory=dict)
    resource_templates: Mapping[str, Items] = field(factory=dict)
    auth_statuses: Mapping[str, str] = field(factory=dict)
    errors: Mapping[str, str] = field(factory=dict)


class McpListPromptsResponseEvent(EventMsg, kw_only=True):
    """The prompts of the servers, as they describe them.

    Attributes:
        prompts: From the server to its prompts.
        errors: From the server to what could not be listed.
    """

    type: ClassVar[Literal["mcp_list_prompts_response"]] = "mcp_list_prompts_response"

    prompts: Mapping[str, Items] = field(factory=dict)
    errors: Mapping[str, str] = field(factory=dict)


async def use_prompt(
    connection: Connection, name: str, arguments: Mapping[str, str], thread: ThreadContext, submission: str
) -> None:
    """Get a prompt, and submit its messages. An error is an event with the submission's id."""
    from codex_framework.contract.protocol.events import ErrorEvent
    from codex_plugin_mcp.errors import McpError
    from codex_plugin_mcp.prompts import fetched, submit

    try:
        prompt = await fetched(connection, name, arguments)
    except McpError as error:
        text = f"the prompt {name!r} of the MCP server {connection.name!r} cannot be used: {error}"
        thread.emit(ErrorEvent(text, "bad_request"), id=submission)
        return
    await submit(prompt, thread)


def connections_of(thread: ThreadContext) -> Connections | None:
    """Return the connections of a thread, or None if it uses no server."""
    from codex_plugin_mcp.connections import Connections

    try:
        return thread.component(Connections)
    except ServiceError:
        return None


async def list_tools(thread: ThreadContext, submission: str) -> None:
    """Answer ``list_mcp_tools``."""
    found = connections_of(thread)
    if found is None:
        thread.emit(McpListToolsResponseEvent(), id=submission)
        return
    pool = found.pool
    lists, statuses = await asyncio.gather(
        asyncio.gather(
            _lists(pool.connections, "resources/list", "resources"),
            _lists(pool.connections, "resources/templates/list", "resourceTemplates"),
        ),
        pool.auth_statuses(),
    )
    (resources, faults), (templates, more) = lists
    thread.emit(
        McpListToolsResponseEvent(
            tools=found.described_tools(),
            resources=resources,
            resource_templates=templates,
            auth_statuses=statuses,
            errors={**more, **faults},
        ),
        id=submission,
    )


async def list_prompts(thread: ThreadContext, submission: str) -> None:
    """Answer ``list_mcp_prompts``."""
    found = connections_of(thread)
    connections = {} if found is None else found.pool.connections
    prompts, faults = await _lists(connections, "prompts/list", "prompts")
    thread.emit(McpListPromptsResponseEvent(prompts=prompts, errors=faults), id=submission)


async def _lists(
    connections: Mapping[str, Connection], method: str, key: str
) -> tuple[dict[str, Items], dict[str, str]]:
    """Return a list of each server that has it, and what could not be listed."""
    capability = method.partition("/")[0]
    asked = [one for one in connections.values() if one.session is None or one.session.offers(capability)]
    results = await asyncio.gather(*(_list_items(one, method, key) for one in asked))
    found = {one.name: items for one, (items, _) in zip(asked, results, strict=True) if one.session is not None}
    return found, {one.name: fault for one, (_, fault) in zip(asked, results, strict=True) if fault}


async def _list_items(connection: Connection, method: str, key: str) -> tuple[Items, str]:
    from codex_plugin_mcp.errors import McpError

    if connection.session is None:
        return (), connection.error or "there is no connection"
    try:
        return await connection.ask(lambda session, limit_s: session.every(method, key, timeout_s=limit_s))
    except McpError as error:
        return (), str(error)
