"""The tools for resources: ``list_mcp_resources``, ``list_mcp_resource_templates`` and ``read_mcp_resource``."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar

from codex_framework import (
    Argument,
    FunctionSpec,
    InputImage,
    InputText,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    arguments_schema,
    parse_arguments,
)
from codex_plugin_mcp.connection import Connection
from codex_plugin_mcp.errors import McpError, ServerError
from codex_plugin_mcp.images import decode_base64, read_image
from codex_plugin_mcp.records import CallRecord

__all__ = ["ListResourceTemplates", "ListResources", "ReadResource", "resource_tools"]

_ALL = "codex"
"""The server that clients see for a call that concerns all servers (Codex's word)."""

_UNSTATED_S = 5.0
"""How long to wait for the resources of a server that does not state that it has any, in seconds."""

_MAX_BLOB = 4_000
"""Longest base64 text that the model gets as text. Longer binary content is described instead."""

_MAX_IMAGE = 8_000_000
"""Longest base64 text of an image that the model gets as an image."""

_MAX_IMAGES = 10
"""How many images of one resource the model gets."""

_MAX_TEXT = 1_000_000
"""Longest text of one resource that is passed on, in characters. The model's own limit is usually much lower."""


def resource_tools(connections: Mapping[str, Connection]) -> list[Tool]:
    """Return the tools of a thread."""
    return [ListResources(connections), ListResourceTemplates(connections), ReadResource(connections)]


class _ResourceTool(Tool):
    """A tool that is offered with any server, as in Codex: some servers have resources and do not state it."""

    parallel_safe = True
    tells_clients = True

    def __init__(self, connections: Mapping[str, Connection]) -> None:
        self._connections = connections

    def _link(self, name: str) -> Connection:
        link = self._connections.get(name)
        if link is None:
            raise ToolError(f"unknown MCP server '{name}' for the selected environment")
        return link

    async def _told(self, server: str, call: ToolCall, context: ToolContext, work: Awaitable[ToolOutput]) -> ToolOutput:
        """Await the output of a call, between the same events for clients as in a call of the server's tools."""
        record = CallRecord(server or _ALL, self.spec.name, call, context)
        record.begin()
        try:
            output = await work
        except ToolError as error:
            record.failed(str(error))
            raise
        except BaseException:
            record.failed("the call was interrupted")
            raise
        text = output.content if isinstance(output.content, str) else getattr(output.content[0], "text", "")
        record.ended({"content": [{"type": "text", "text": text}]}, success=True)
        return output


class _List(_ResourceTool):
    """Lists resources or templates."""

    method: ClassVar[str]
    key: ClassVar[str]
    arguments: ClassVar[Mapping[str, Argument]]

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """List the resources of one server, or of all servers.

        Raises:
            ToolError: The arguments are invalid, or the named server failed.
        """
        given = parse_arguments(call.arguments, self.arguments)
        server, cursor = (given.get("server") or "").strip(), (given.get("cursor") or "").strip()
        work = self._of_one(self._link(server), cursor or None, context) if server else self._of_all(cursor, context)
        return await self._told(server, call, context, work)

    async def _of_one(self, link: Connection, cursor: str | None, context: ToolContext) -> ToolOutput:
        try:
            found, following = await link.ask(
                lambda session, limit_s: session.page(self.method, self.key, cursor, timeout_s=limit_s), context
            )
        except McpError as error:
            raise ToolError(f"{self.method} failed for `{link.name}`: {_fault(error)}") from error
        more = {} if following is None else {"nextCursor": following}
        return _json({"server": link.name, self.key: _named_contents(link, found), **more})

    async def _of_all(self, cursor: str, context: ToolContext) -> ToolOutput:
        """Return the complete lists of all servers. If a server fails to list, this is explained, and the other lists are kept."""
        if cursor:
            raise ToolError("cursor can only be used when a server is specified")
        links = sorted(
            (link for link in self._connections.values() if link.session is not None), key=lambda link: link.name
        )
        results = await asyncio.gather(*(self._whole(link, context) for link in links))
        listed = [item for found, _ in results for item in found]
        errors = {link.name: text for link, (_, text) in zip(links, results, strict=True) if text}
        return _json({self.key: listed, **({"errors": errors} if errors else {})})

    async def _whole(self, link: Connection, context: ToolContext) -> tuple[list[dict[str, Any]], str]:
        states_them = link.session is None or link.session.offers("resources")
        longest_s = math.inf if states_them else _UNSTATED_S
        try:
            found, problem = await link.ask(
                lambda session, limit_s: session.every(self.method, self.key, timeout_s=min(limit_s, longest_s)),
                context,
            )
        except McpError as error:
            return [], _fault(error) if states_them else ""
        return _named_contents(link, found), problem


def _named_contents(link: Connection, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"server": link.name, **{key: value for key, value in item.items() if key != "server"}} for item in found]


class ListResources(_List):
    """Lists resources."""

    method = "resources/list"
    key = "resources"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "server": Argument("string", "MCP server name. Without it, the resources of all servers are listed."),
        "cursor": Argument(
            "string", "The nextCursor of the previous call for the same server. Omit it for the first page."
        ),
    }
    spec = FunctionSpec(
        "list_mcp_resources",
        "Lists the resources that MCP servers share: files, database schemas, or other information of an application. Prefer them to"
        " a web search.",
        arguments_schema(arguments),
    )


class ListResourceTemplates(_List):
    """Lists templates of resources."""

    method = "resources/templates/list"
    key = "resourceTemplates"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "server": Argument("string", "MCP server name. Without it, the templates of all servers are listed."),
        "cursor": Argument(
            "string", "The nextCursor of the previous call for the same server. Omit it for the first page."
        ),
    }
    spec = FunctionSpec(
        "list_mcp_resource_templates",
        "Lists the resource templates of MCP servers. Fill in the parameters of a template's uriTemplate to get the URI of a resource"
        " that read_mcp_resource reads.",
        arguments_schema(arguments),
    )


class ReadResource(_ResourceTool):
    """Reads a resource."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "server": Argument("string", "MCP server name, as in the `server` field of list_mcp_resources.", required=True),
        "uri": Argument("string", "URI of the resource, from list_mcp_resources or from a template.", required=True),
    }
    spec = FunctionSpec("read_mcp_resource", "Reads a resource of an MCP server.", arguments_schema(arguments))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Read it. Images become images for models that see them; other long binary content is described.

        Raises:
            ToolError: The arguments are invalid, or the server failed.
        """
        given = parse_arguments(call.arguments, self.arguments)
        server, uri = (_required_text(given, name) for name in ("server", "uri"))
        return await self._told(server, call, context, self._read(self._link(server), uri, context))

    async def _read(self, link: Connection, uri: str, context: ToolContext) -> ToolOutput:
        server = link.name
        try:
            answer = await link.ask(lambda session, limit_s: session.read_resource(uri, timeout_s=limit_s), context)
        except McpError as error:
            raise ToolError(f"resources/read failed for `{server}` ({uri}): {_fault(error)}") from error
        images: list[InputImage] = []
        shown = [_content(part, images, sees=context.model.supports_images) for part in answer["contents"]]
        output = _json({"server": server, "uri": uri, "contents": shown})
        if not images:
            return output
        return ToolOutput((InputText(context.limit_text(str(output.content))), *images), truncate=False)


def _required_text(given: Mapping[str, Any], name: str) -> str:
    value = str(given[name]).strip()
    if not value:
        raise ToolError(f"{name} must be provided")
    return value


def _content(part: Mapping[str, Any], images: list[InputImage], *, sees: bool) -> dict[str, Any]:
    """Return one content for the model. An image that the model can see is added to ``images``."""
    text, blob = part.get("text"), part.get("blob")
    if isinstance(text, str) and len(text) > _MAX_TEXT:
        return {**part, "text": f"{text[:_MAX_TEXT]}... ({len(text) - _MAX_TEXT} more characters)"}
    if not isinstance(blob, str):
        return dict(part)
    rest = {key: value for key, value in part.items() if key != "blob"}
    size = _size(blob)
    if size is None:
        return {**rest, "error": "the binary content is not valid base64"}
    fits = sees and len(blob) <= _MAX_IMAGE and len(images) < _MAX_IMAGES
    if fits and not (image := read_image(blob, part.get("mimeType"))).problem:
        images.append(InputImage(image.url))
        return {**rest, "blob": f"(image {len(images)} below, {size} bytes)"}
    return dict(part) if len(blob) <= _MAX_BLOB else {**rest, "blob": f"({size} bytes of binary content left out)"}


def _size(blob: str) -> int | None:
    """Return the number of bytes in base64, or None if it is invalid."""
    data = decode_base64(blob)
    return None if data is None else len(data)


def _json(value: Mapping[str, Any]) -> ToolOutput:
    return ToolOutput(json.dumps(value, ensure_ascii=False, separators=(",", ":")), result=value)


def _fault(error: McpError) -> str:
    """Return a server's error message with its code."""
    return error.whole_text() if isinstance(error, ServerError) else str(error)
