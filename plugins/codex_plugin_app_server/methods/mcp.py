"""MCP servers: what they offer, and starting them anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from codex_framework import Event, Thread
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.clients import Events
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.items import camel
from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_ANSWER = "mcp_list_tools_response"
_STARTING_S = 30.0
"""How long servers may take to start, in seconds."""

_ANSWERING_S = 60.0
"""How long servers may take to list what they offer, in seconds."""


@table.method("mcpServerStatus/list", "ListMcpServerStatusParams", "ListMcpServerStatusResponse", concurrent=True)
async def list_servers(call: Call) -> Json:
    """List the MCP servers of a thread, or of the configuration, with what they offer."""
    params = call.params
    if params.get("threadId") is not None:
        offered = await _offers(call, call.server.thread(params["threadId"]).thread)
    elif call.server.kernel.config.get("mcp_servers"):
        thread = await call.server.kernel.start_thread(ephemeral=True)
        try:
            offered = await _offers(call, thread)
        finally:
            await thread.shutdown()
    else:
        return {"data": [], "nextCursor": None}
    wanted = params.get("serverName")
    names = sorted(name for name in offered.get("auth_statuses") or {} if wanted in (None, name))
    page, cursor = page_of([_status_json(name, offered) for name in names], params)
    return {"data": page, "nextCursor": cursor}


async def _offers(call: Call, thread: Thread) -> Mapping[str, Any]:
    """Return what the servers of a thread offer, once they have started. Raises RpcError."""
    events = thread.events(answers=False)
    try:
        offered = await _asked(call, thread, events)
        if offered.get("errors"):  # some servers may still be starting
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STARTING_S):
                    await _next(events, lambda event: event.msg.type == "mcp_startup_complete")
            offered = await _asked(call, thread, events)
        return offered
    finally:
        events.close()


async def _asked(call: Call, thread: Thread, events: Events) -> Mapping[str, Any]:
    submission = await thread.submit(call.server.kernel.op("list_mcp_tools"))
    try:
        async with asyncio.timeout(_ANSWERING_S):
            event = await _next(events, lambda event: event.id == submission and event.msg.type in (_ANSWER, "error"))
    except TimeoutError:
        raise RpcError(f"the MCP servers did not answer within {_ANSWERING_S:g} s") from None
    if isinstance(event.msg, ErrorEvent):
        raise RpcError(event.msg.message)
    found: Mapping[str, Any] = to_wire(event.msg)
    return found


async def _next(events: Events, is_wanted: Callable[[Event], bool]) -> Event:
    async for event in events:
        if is_wanted(event):
            return event
    raise RpcError("the thread has ended")


def _status_json(name: str, offered: Mapping[str, Any]) -> dict[str, Any]:
    tools = {
        str(described["name"]): dict(described)
        for model_name, described in (offered.get("tools") or {}).items()
        if model_name.startswith(f"mcp__{name}__")
    }
    return {
        "name": name,
        "tools": tools,
        "resources": list((offered.get("resources") or {}).get(name, ())),
        "resourceTemplates": list((offered.get("resource_templates") or {}).get(name, ())),
        "authStatus": camel(offered["auth_statuses"][name]),
    }


@table.method("config/mcpServer/reload", None, "McpServerRefreshResponse")
async def reload_servers(call: Call) -> Json:
    """Read the user's configuration again. Loaded threads replace their servers before their next turn."""
    await call.server.kernels.reload_user_config()
    return {}
