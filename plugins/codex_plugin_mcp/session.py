"""A session with one server: the handshake, lists, and calls, in every supported revision of the protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import __version__
from codex_plugin_mcp.errors import ConnectionFailed, ServerError
from codex_plugin_mcp.peer import Peer, Progress
from codex_plugin_mcp.results import read_contents, read_result
from codex_plugin_mcp.transports.transport import Transport

__all__ = ["CLIENT_NAME", "PROPOSED_REVISION", "Session"]

PROPOSED_REVISION = "2025-11-25"
"""The revision of the protocol that is proposed. A server may answer with any other one; those since 2024-11-05 are alike."""

_UNSTATED = "2025-03-26"
"""The revision of a server that states none (the specification's rule for requests without one)."""

_REVISION = re.compile(r"[!-~]{1,40}")

CLIENT_NAME = "codex-mcp-client"

_MAX_PAGES = 500
_MAX_ITEMS = 20_000
"""Limits of one list. A server that exceeds them is reported, and the part that was read is used."""


class Session:
    """A session with a server.

    Args:
        peer: The connection, already started.
        transport: The transport of the connection.
        capabilities: The client's capabilities.

    Attributes:
        server_info: The server's name and version, as it states them.
        server_capabilities: The server's capabilities.
        instructions: The server's instructions for the model, or an empty string.
        revision: The negotiated revision. Empty before :meth:`initialize`.
    """

    def __init__(self, peer: Peer, transport: Transport, capabilities: Mapping[str, Any]) -> None:
        self.peer = peer
        self._transport = transport
        self._capabilities = capabilities
        self.server_info: Mapping[str, Any] = {}
        self.server_capabilities: Mapping[str, Any] = {}
        self.instructions = ""
        self.revision = ""

    async def initialize(self) -> None:
        """Negotiate the revision and exchange capabilities.

        Raises:
            ConnectionFailed: The server's answer cannot be used, or the connection is lost.
            ServerError: The server refused.
        """
        answer = await self.peer.request(
            "initialize",
            {
                "protocolVersion": PROPOSED_REVISION,
                "capabilities": self._capabilities,
                "clientInfo": {"name": CLIENT_NAME, "title": "Codex", "version": __version__},
            },
        )
        if not isinstance(answer, Mapping):
            raise ConnectionFailed("its answer to initialize is not an object", kind="protocol")
        revision = answer.get("protocolVersion")
        self.revision = revision if isinstance(revision, str) and _REVISION.fullmatch(revision) else _UNSTATED
        self.server_info = _mapping(answer.get("serverInfo"))
        self.server_capabilities = _capabilities(answer.get("capabilities"))
        instructions = answer.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else ""
        self._transport.negotiated(self.revision)
        await self.peer.notify("notifications/initialized")

    def offers(self, capability: str) -> bool:
        """Return whether the server has a capability: ``tools``, ``resources``, ``prompts``, ``logging``, ``completions``.

        A server that states nothing of all this may have tools.
        """
        if capability == "tools" and not self.server_capabilities:
            return True
        return self.server_capabilities.get(capability, False) not in (None, False)

    # Lists

    async def page(
        self, method: str, key: str, cursor: str | int | None = None, *, timeout_s: float | None = None
    ) -> tuple[list[Mapping[str, Any]], str | int | None]:
        """Return one page of a list, and the cursor of the next page, or None after the last page.

        Args:
            method: The method, such as ``tools/list``.
            key: The key of the items in the answer, such as ``tools``.

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        answer = await self.peer.request(method, {} if cursor is None else {"cursor": cursor}, timeout_s=timeout_s)
        answer = {key: answer} if isinstance(answer, list) else answer
        if not isinstance(answer, Mapping):
            raise ServerError(f"its answer to {method} has no list `{key}`")
        items = _items(answer.get(key))
        if items is None:
            raise ServerError(f"its answer to {method} has no list `{key}`")
        following: Any = answer.get("nextCursor")
        is_cursor = isinstance(following, (str, int)) and not isinstance(following, bool) and following != ""
        return items, following if is_cursor else None

    async def every(
        self, method: str, key: str, *, timeout_s: float | None = None
    ) -> tuple[list[Mapping[str, Any]], str]:
        """Return all pages of a list, and a sentence about why it is incomplete (empty: it is complete).

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        items: list[Mapping[str, Any]] = []
        seen: set[str | int] = set()
        cursor: str | int | None = None
        while True:
            found, cursor = await self.page(method, key, cursor, timeout_s=timeout_s)
            items += found
            if cursor is None:
                return items, ""
            if cursor in seen:
                return (
                    _distinct(items),
                    f"its answers to {method} repeat the cursor {str(cursor)[:40]!r}; the rest of the list is ignored",
                )
            if len(seen) >= _MAX_PAGES or len(items) >= _MAX_ITEMS:
                return items[:_MAX_ITEMS], f"its list of {method} has no end; the rest is ignored"
            seen.add(cursor)

    # Calls

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        on_progress: Progress | None = None,
    ) -> Mapping[str, Any]:
        """Call a tool and return its ``CallToolResult``. Its ``content`` is a list of objects, whatever the server sent.

        Raises: ServerError, RequestTimedOut, ConnectionFailed: See ``Peer.request``.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return read_result(await self.peer.request("tools/call", params, timeout_s=timeout_s, on_progress=on_progress))

    async def read_resource(
        self, uri: str, *, meta: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> Mapping[str, Any]:
        """Read a resource and return the answer, with a list ``contents``. Raises the errors of ``Peer.request``."""
        params: dict[str, Any] = {"uri": uri, **({"_meta": meta} if meta else {})}
        answer = await self._asked("resources/read", params, timeout_s=timeout_s)
        if not isinstance(answer.get("contents"), (list, Mapping, str)):
            raise ConnectionFailed("its answer has no list `contents`", kind="protocol")
        return {**answer, "contents": read_contents(answer["contents"])}

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], *, timeout_s: float | None = None
    ) -> Mapping[str, Any]:
        """Get a prompt and return the answer, with ``messages``. Raises the errors of ``Peer.request``."""
        return await self._asked("prompts/get", {"name": name, "arguments": arguments}, timeout_s=timeout_s)

    async def ping(self, *, timeout_s: float | None = None) -> None:
        """Check that the server answers. Raises the errors of ``Peer.request``."""
        await self.peer.request("ping", timeout_s=timeout_s)

    async def set_log_level(self, level: str, *, timeout_s: float | None = None) -> None:
        """Ask for log messages from a level on: ``debug``, ``info``, ... Raises the errors of ``Peer.request``."""
        await self.peer.request("logging/setLevel", {"level": level}, timeout_s=timeout_s)

    async def _asked(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float | None,
    ) -> Mapping[str, Any]:
        answer = await self.peer.request(method, params, timeout_s=timeout_s)
        if not isinstance(answer, Mapping):
            raise ServerError(f"its answer to {method} is not an object")
        return answer


def _capabilities(value: Any) -> Mapping[str, Any]:
    """Return a server's capabilities, which some servers list instead of describing them."""
    if isinstance(value, list):
        return {name: {} for name in value if isinstance(name, str)}
    return _mapping(value)


def _items(value: Any) -> list[Mapping[str, Any]] | None:
    """Return the items of a list, which some servers omit if it is empty, or write as an object by name."""
    if isinstance(value, Mapping):
        value = [{"name": name, **item} for name, item in value.items() if isinstance(item, Mapping)]
    if value is not None and not isinstance(value, list):
        return None
    return [item for item in value or () if isinstance(item, Mapping)]


def _distinct(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return items without duplicates, which occur if a page was sent twice."""
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
