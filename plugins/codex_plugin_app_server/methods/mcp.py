"""MCP servers: their offers, calls of their tools, their resources, logins, and restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Container, Mapping
from typing import Any
from uuid import uuid4

from codex_framework import CodexError, Event, Thread
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.clients import Events
from codex_plugin_app_server.errors import INTERNAL_ERROR, RpcError
from codex_plugin_app_server.items import camel
from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_ANSWER = "mcp_list_tools_response"
_RESULT = ("content", "structuredContent", "isError", "_meta")
_STARTING_S = 30.0
"""How long servers may take to start, in seconds."""

_LONGEST_LOGIN_S = 24 * 60 * 60
"""Longest time that a client can give the user for a login, in seconds."""

_ANSWERING_S = 60.0
"""The time limit in seconds for servers to list their offers."""


@table.method("mcpServerStatus/list", "ListMcpServerStatusParams", "ListMcpServerStatusResponse", concurrent=True)
async def list_servers(call: Call) -> Json:
    """List the MCP servers of a thread, or of the configuration, with their offers."""
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
    """Return the offers of a thread's servers, once they have started. Raises RpcError."""
    events = thread.events(answers=False)
    try:
        offered = await _ask_server(call, thread, events)
        if offered.get("errors"):  # some servers may still be starting
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STARTING_S):
                    await _next(events, lambda event: event.msg.type == "mcp_startup_complete")
            offered = await _ask_server(call, thread, events)
        return offered
    finally:
        events.close()


async def _ask_server(call: Call, thread: Thread, events: Events) -> Mapping[str, Any]:
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


@table.method("mcpServer/tool/call", "McpServerToolCallParams", "McpServerToolCallResponse", concurrent=True)
async def call_tool(call: Call) -> Json:
    """Call a tool of a thread's server, without the model and without approval."""
    params = call.params
    loaded = call.server.thread(params["threadId"])
    fields = {name: params.get(name) for name in ("server", "tool", "arguments")}
    with loaded.use():
        result = await _answer(call, loaded.thread, "call_mcp_tool", **fields, meta=params.get("_meta"))
    return {name: result[name] for name in _RESULT if result.get(name) is not None}


@table.method("mcpServer/resource/read", "McpResourceReadParams", "McpResourceReadResponse", concurrent=True)
async def read_resource(call: Call) -> Json:
    """Read a resource of a thread's server. Without a thread, the server is started for that."""
    params = call.params
    fields = {"server": params["server"], "uri": params["uri"], "meta": params.get("_meta")}
    if params.get("threadId") is not None:
        loaded = call.server.thread(params["threadId"])
        with loaded.use():
            result = await _answer(call, loaded.thread, "read_mcp_resource", **fields)
    else:
        async with _own_thread(call, {params["server"]}) as thread:
            result = await _answer(call, thread, "read_mcp_resource", **fields)
    return {"contents": result["contents"], "originCallId": None}


@contextlib.asynccontextmanager
async def _own_thread(call: Call, servers: Container[str]) -> AsyncIterator[Thread]:
    """Start a thread in which nothing happens, with some of the configured servers."""
    async with call.server.kernels.at(None) as kernel:
        others = [name for name in kernel.config.get("mcp_servers") or {} if name not in servers]
        config = {"mcp_servers": {name: {"enabled": False} for name in others}}
        thread = await kernel.start_thread(config=config, ephemeral=True)
    try:
        yield thread
    finally:
        await thread.shutdown()
        call.server.kernels.close_idle()


async def _answer(call: Call, thread: Thread, op: str, **fields: Any) -> Mapping[str, Any]:
    """Return a server's answer to an op. Raises RpcError. If the client disconnects, the wait ends."""
    events = thread.events(answers=False)
    try:
        submission = await thread.submit(call.server.kernel.op(op, **fields))
        event = await _next(events, lambda event: event.id == submission and event.msg.type in ("mcp_answer", "error"))
    finally:
        events.close()
    if isinstance(event.msg, ErrorEvent):
        raise RpcError(event.msg.message)
    answer = to_wire(event.msg)
    if (error := answer.get("error")) is not None:
        raise RpcError(error["message"], error.get("code", INTERNAL_ERROR), error.get("data"))
    result: Mapping[str, Any] = answer["result"]
    return result


@table.method("mcpServer/oauth/login", "McpServerOauthLoginParams", "McpServerOauthLoginResponse", concurrent=True)
async def log_in(call: Call) -> Json:
    """Begin a login to a server over HTTP: return the address to open. `mcpServer/oauthLogin/completed` follows."""
    params = call.params
    login_id = str(uuid4())
    waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        if params.get("threadId") is not None:
            loaded = call.server.thread(params["threadId"])
            with loaded.use():
                await _follow_login(call, loaded.thread, waiting, login_id)
            return
        async with _own_thread(call, ()) as thread:
            await _follow_login(call, thread, waiting, login_id)

    task = call.connection.run_beside(work())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        raise RpcError("the login has ended with the connection")
    return {"authorizationUrl": waiting.result(), "loginId": login_id}


def _login_limit(seconds: int | None) -> float | None:
    return None if seconds is None else float(min(max(seconds, 0), _LONGEST_LOGIN_S))


async def _follow_login(call: Call, thread: Thread, waiting: asyncio.Future[str], login_id: str) -> None:
    """Pass the address, or an earlier error, to its waiter. Tell all clients about the end."""
    params, name = call.params, call.params["name"]
    fields = {"server": name, "scopes": params.get("scopes"), "timeout_s": _login_limit(params.get("timeoutSecs"))}
    events = thread.events(answers=False)
    try:
        submission = await thread.submit(
            call.server.kernel.op("login_mcp_server", **fields, registration=params.get("clientRegistration") or "auto")
        )
        while True:
            event = await _next(events, lambda event: event.id == submission)
            wire = to_wire(event.msg)
            match event.msg.type:
                case "error":
                    waiting.set_exception(RpcError(wire["message"]))
                    return
                case "mcp_login_started" if not waiting.done():
                    waiting.set_result(wire["authorization_url"])
                case "mcp_login_completed":
                    break
    except (RpcError, CodexError) as error:
        if not waiting.done():
            waiting.set_exception(error)
        return
    finally:
        events.close()
    fault = wire.get("error")
    if not waiting.done() and fault is not None:
        waiting.set_exception(RpcError(f"failed to login to MCP server '{name}': {fault}", INTERNAL_ERROR))
        return
    if not waiting.done():
        waiting.set_result("")  # the configuration has all that the login needs
    told = {
        "name": name,
        "success": fault is None,
        "error": fault,
        "loginId": login_id,
        "threadId": params.get("threadId"),
    }
    call.server.broadcast("mcpServer/oauthLogin/completed", told)


@table.method("config/mcpServer/reload", None, "McpServerRefreshResponse")
async def reload_servers(call: Call) -> Json:
    """Read the user's configuration again. Loaded threads replace their servers before their next turn."""
    await call.server.kernels.reload_user_config()
    return {}
