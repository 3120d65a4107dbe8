"""A session with one server: the handshake, lists, and calls, in every supported revision of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import __version__
from codex_plugin_mcp.errors import ConnectionFailed, ServerError
from codex_plugin_mcp.peer import Peer, Progress
from codex_plugin_mcp.transports.revisions import MODERN_REVISION
from codex_plugin_mcp.transports.transport import Transport

__all__ = ["CLIENT_NAME", "REVISIONS", "Session"]

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions of the protocol with a handshake, newest first. The newest is proposed."""

CLIENT_NAME = "codex-mcp-client"

_MAX_PAGES = 500
_MAX_ITEMS = 20_000
"""Limits of one list. A server that exceeds them is reported, and what was read so far is used."""


class Session:
    """A session with a server.

    Args:
        peer: The connection, already started.
        transport: The transport of the connection.
        capabilities: What the client offers to the server.

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
                "protocolVersion": REVISIONS[0],
                "capabilities": self._capabilities,
                "clientInfo": {"name": CLIENT_NAME, "title": "Codex", "version": __version__},
            },
        )
        if not isinstance(answer, Mapping):
            raise ConnectionFailed("its answer to initialize is not an object", kind="protocol")
        revision = answer.get("protocolVersion")
        if revision not in (*REVISIONS, MODERN_REVISION):
            raise ConnectionFailed(
                f"it speaks the protocol revision {str(revision)[:40]!r}; supported: {', '.join(REVISIONS)}",
                kind="protocol",
                hint="Update the server, or use a version of it that speaks one of these.",
            )
        self.revision = str(revision)
        self.server_info = _mapping(answer.get("serverInfo"))
        self.server_capabilities = _mapping(answer.get("capabilities"))
        instructions = answer.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else ""
        self._transport.negotiated(self.revision)
        await self.peer.notify("notifications/initialized")

    def offers(self, capability: str) -> bool:
        """Return whether the server has a capability: ``tools``, ``resources``, ``prompts``, ``logging``, ``completions``."""
        return isinstance(self.server_capabilities.get(capability), Mapping)

    # Lists

    async def page(
        self, method: str, key: str, cursor: str | None = None, *, timeout_s: float | None = None
    ) -> tuple[list[Mapping[str, Any]], str | None]:
        """Return one page of a list, and the cursor of the next page (None: there is none).

        Args:
            method: The method, such as ``tools/list``.
            key: The key of the items in the answer, such as ``tools``.

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        answer = await self.peer.request(method, {} if cursor is None else {"cursor": cursor}, timeout_s=timeout_s)
        items = answer.get(key) if isinstance(answer, Mapping) else None
        if not isinstance(items, list):
            raise ServerError(f"its answer to {method} has no list `{key}`")
        following = answer.get("nextCursor")
        return [item for item in items if isinstance(item, Mapping)], (
            following if isinstance(following, str) and following else None
        )

    async def every(
        self, method: str, key: str, *, timeout_s: float | None = None
    ) -> tuple[list[Mapping[str, Any]], str]:
        """Return all pages of a list, and a sentence about why it is incomplete (empty: it is complete).

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        items: list[Mapping[str, Any]] = []
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            found, cursor = await self.page(method, key, cursor, timeout_s=timeout_s)
            items += found
            if cursor is None:
                return items, ""
            if cursor in seen:
                return (
                    items,
                    f"its answers to {method} repeat the cursor {cursor[:40]!r}; the rest of the list is ignored",
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
        """Call a tool and return its ``CallToolResult``.

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return await self._asked("tools/call", params, timeout_s=timeout_s, on_progress=on_progress)

    async def read_resource(self, uri: str, *, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Read a resource and return the answer, with ``contents``. Raises the errors of ``Peer.request``."""
        return await self._asked("resources/read", {"uri": uri}, timeout_s=timeout_s)

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
        on_progress: Progress | None = None,
    ) -> Mapping[str, Any]:
        answer = await self.peer.request(method, params, timeout_s=timeout_s, on_progress=on_progress)
        if not isinstance(answer, Mapping):
            raise ServerError(f"its answer to {method} is not an object")
        return answer


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
