"""The server of the protocol: its tools, and how a call of one is served."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from codex_framework import ToolError, __version__
from codex_plugin_mcp_server.arguments import (
    OUTPUT_SCHEMA,
    REPLY,
    REPLY_SCHEMA,
    START,
    START_SCHEMA,
    read_reply,
    read_start,
)
from codex_plugin_mcp_server.conversations import Conversations
from codex_plugin_mcp_server.encoding import sendable
from codex_plugin_mcp_server.exposing import Exposing
from codex_plugin_mcp_server.link import Link, session_id_of
from codex_plugin_mcp_server.results import failure
from codex_plugin_mcp_server.runs import Questions, Run, Runs

__all__ = ["Service", "make_server"]

_OF_ELICITATIONS = ("mode", "message", "requestedSchema", "url", "elicitationId")
"""The fields of an elicitation that the protocol knows."""

_FACTS = "codex/requests"

_LEVELS_KEPT = 10_000

Work = Callable[[Run], Coroutine[Any, Any, Mapping[str, Any]]]


class Service:
    """The service of the server.

    Args:
        conversations: The threads that the tools ``codex`` and ``codex-reply`` use. With None, they are not offered.
        exposing: The tools of plugins. With None, they are not offered.
    """

    def __init__(self, conversations: Conversations | None, exposing: Exposing | None) -> None:
        self._conversations = conversations
        self._exposing = exposing
        self._runs = Runs()
        self.log_levels: OrderedDict[str | None, str] = OrderedDict()

    def set_log_level(self, session_id: str | None, level: str) -> None:
        """Keep the lowest level of messages that a client wants."""
        self.log_levels[session_id] = level
        if len(self.log_levels) > _LEVELS_KEPT:
            self.log_levels.popitem(last=False)

    async def tools(self) -> list[dict[str, Any]]:
        """Return all tools."""
        agent = list(_AGENT_TOOLS) if self._conversations is not None else []
        return agent if self._exposing is None else [*agent, *await self._exposing.tools()]

    async def call(self, link: Link, params: types.CallToolRequestParams) -> Mapping[str, Any]:
        """Serve a call: start it, or continue it with the answers in the request.

        Raises:
            MCPError: The tool does not exist, or the work that the request names has ended.
        """
        if params.request_state is not None:
            run = self._runs.find(params.request_state, params.name)
            if run is None:
                raise MCPError(types.INVALID_PARAMS, "the call that this request continues has ended")
        else:
            try:
                work = self._work(params.name, params.arguments or {}, link)
            except ToolError as error:
                return failure(str(error))
            run = self._runs.begin(params.name, link, work)
        answers = {key: dict(value) for key, value in _plain(params.input_responses).items()}
        outcome = await run.serve(link, answers)
        return _input_required(outcome) if isinstance(outcome, Questions) else outcome

    def _work(self, name: str, arguments: Mapping[str, Any], link: Link) -> Work:
        conversations, exposing = self._conversations, self._exposing
        if conversations is not None and name == START:
            start = read_start(arguments)
            return lambda run: conversations.start(start, run)
        if conversations is not None and name == REPLY:
            reply = read_reply(arguments)
            return lambda run: conversations.reply(reply, run)
        if exposing is not None and exposing.offers(name):
            return lambda run: exposing.call(name, arguments, run, link)
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")

    async def aclose(self) -> None:
        """Stop all work."""
        await self._runs.aclose()
        if self._exposing is not None:
            await self._exposing.aclose()


def make_server(service: Service) -> Server[Any]:
    """Return the server of a service."""

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(
            tools=[types.Tool.model_validate(sendable(tool)) for tool in await service.tools()]
        )

    async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
        level = service.log_levels.get(session_id_of(context))
        return sendable(dict(await service.call(Link(context, level), params)))

    async def set_level(context: ServerRequestContext[Any], params: types.SetLevelRequestParams) -> types.EmptyResult:
        service.set_log_level(session_id_of(context), params.level)
        return types.EmptyResult()

    server = Server[Any](
        "codex-mcp-server",
        title="Codex",
        version=__version__,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    return server


_AGENT_TOOLS = (
    {
        "name": START,
        "title": "Codex",
        "description": "Run a coding agent on a task, in a new conversation.",
        "inputSchema": START_SCHEMA,
        "outputSchema": OUTPUT_SCHEMA,
    },
    {
        "name": REPLY,
        "title": "Codex Reply",
        "description": "Go on with a conversation of the coding agent, by its id.",
        "inputSchema": REPLY_SCHEMA,
        "outputSchema": OUTPUT_SCHEMA,
    },
)


def _plain(responses: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the answers of a request as plain data."""
    return {
        key: value.model_dump(by_alias=True, mode="json", exclude_none=True) for key, value in (responses or {}).items()
    }


def _input_required(questions: Questions) -> Mapping[str, Any]:
    """Return the result that asks for the answers.

    In these revisions an elicitation cannot have further fields. The facts of all of them are in the ``_meta`` of the result,
    by id.
    """
    requests, facts = {}, {}
    for key, params in questions.params.items():
        own = {"mode": "form", **{name: params[name] for name in _OF_ELICITATIONS if name in params}}
        requests[key] = {"method": "elicitation/create", "params": own}
        facts[key] = {name: value for name, value in params.items() if name not in own}
    result = {"resultType": "input_required", "inputRequests": requests, "requestState": questions.state}
    return {**result, "_meta": {_FACTS: facts}}
