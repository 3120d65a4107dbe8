"""Headers that repeat parts of a message, so that gateways need not read its body (revision 2026-07-28)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from codex_plugin_mcp.transports.transport import Message

__all__ = ["ParameterHeaders", "is_modern", "message_headers"]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_FIRST_MODERN = "2026-07-28"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAX_DEPTH = 20


def is_modern(version: str) -> bool:
    """Return whether a revision has requests without sessions. Revisions are dates, or empty if unknown."""
    return version >= _FIRST_MODERN


def message_headers(message: Message, parameters: ParameterHeaders) -> dict[str, str]:
    """Return the headers of one message. Empty for revisions before 2026-07-28, whose messages do not state their revision."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    version = meta.get(_VERSION_KEY) if isinstance(meta, Mapping) else None
    method = message.get("method")
    if not isinstance(params, Mapping) or not isinstance(version, str) or not isinstance(method, str):
        return {}
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = _encode_value(name)
        if method == "tools/call":
            headers |= parameters.headers(name, params.get("arguments"))
    return headers


class ParameterHeaders:
    """The arguments of tools that are repeated in headers ``Mcp-Param-...``, learnt from the lists of tools."""

    def __init__(self) -> None:
        self._by_tool: dict[str, list[tuple[tuple[str, ...], str]]] = {}

    def learn(self, request: Message, answer: Message) -> None:
        """Take note of the tools in an answer to ``tools/list``. Other answers are ignored."""
        result = answer.get("result")
        if request.get("method") != "tools/list" or not isinstance(result, Mapping):
            return
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, Mapping) and isinstance(name := tool.get("name"), str):
                self._by_tool[name] = list(_header_properties(tool.get("inputSchema"), ()))

    def headers(self, tool: str, arguments: Any) -> dict[str, str]:
        """Return the headers for a call."""
        headers: dict[str, str] = {}
        for path, token in self._by_tool.get(tool, ()):
            value = _value_at(arguments, path)
            if isinstance(value, bool):
                headers[f"mcp-param-{token}"] = str(value).lower()
            elif isinstance(value, (str, int)):
                headers[f"mcp-param-{token}"] = _encode_value(str(value))
        return headers


def _header_properties(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the token of each property that is repeated in a header."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(path) >= _MAX_DEPTH:
        return
    for name, inner in properties.items():
        if not isinstance(inner, Mapping) or not isinstance(name, str):
            continue
        token = inner.get("x-mcp-header")
        if isinstance(token, str) and _TOKEN.fullmatch(token) and inner.get("type") in ("string", "integer", "boolean"):
            yield (*path, name), token.lower()
        yield from _header_properties(inner, (*path, name))


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


def _encode_value(value: str) -> str:
    """Return a value as a header can contain it; what does not survive as such is wrapped as Base64."""
    if value.isascii() and value.isprintable() and value == value.strip() and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="
