"""Features that the client offers to servers: answers of users, and the working folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from codex_framework import ThreadContext
from codex_plugin_mcp import elicitation, roots
from codex_plugin_mcp.elicitation import Elicitations
from codex_plugin_mcp.events import McpListChangedEvent
from codex_plugin_mcp.logs import ServerLog
from codex_plugin_mcp.roots import Roots
from codex_plugin_mcp.settings import Settings

if TYPE_CHECKING:
    from codex_plugin_mcp.connection import Connection
    from codex_plugin_mcp.errors import ServerError
    from codex_plugin_mcp.peer import Handler
    from codex_plugin_mcp.sampling import Sampling

__all__ = ["ClientFeatures"]

_TOGETHER_S = 0.1
"""How long changes of a list are collected before clients are told, in seconds."""


class ClientFeatures:
    """The features of a thread's connections."""

    def __init__(self, thread: ThreadContext) -> None:
        self._settings = thread.plugin_settings(Settings)
        self.roots = Roots(thread) if self._settings.roots else None
        self._thread = thread
        self._elicitations: dict[str, Elicitations] = {}
        self._samplings: dict[str, Sampling] = {}
        self._changes: set[tuple[str, str]] = set()
        self._logs: dict[str, ServerLog] = {}

    def elicitations(self, connection: Connection) -> Elicitations:
        """Return the questions of a server."""
        found = self._elicitations.get(connection.name)
        if found is None:
            limit_s = self._settings.elicitation_timeout_s
            found = self._elicitations[connection.name] = Elicitations(connection, limit_s=limit_s or None)
        return found

    def capabilities(self, connection: Connection) -> Mapping[str, Any]:
        """Return the client's capabilities."""
        capabilities: dict[str, Any] = {"elicitation": elicitation.CAPABILITY}
        if self.roots is not None:
            capabilities["roots"] = roots.CAPABILITY
        if connection.name in self._settings.sampling:
            capabilities["sampling"] = {}
        return capabilities

    def handlers(self, connection: Connection) -> Mapping[str, Handler]:
        """Return the handlers of the server's requests and notifications."""
        questions = self.elicitations(connection)
        log = self._logs.setdefault(connection.name, ServerLog(connection.name))
        handlers: dict[str, Handler] = {
            "elicitation/create": questions.create,
            "notifications/elicitation/complete": questions.completed,
            "notifications/message": log.message,
        }
        for name in ("resources", "prompts"):
            handlers[f"notifications/{name}/list_changed"] = partial(self._list_changed, connection.name, name)
        if self.roots is not None:
            handlers["roots/list"] = self.roots.list
        if connection.name in self._settings.sampling:
            handlers["sampling/createMessage"] = self._sampling(connection, questions).create
        return handlers

    async def removed(self, error: ServerError, connection: Connection) -> bool:
        """Ask the user for the pages that a call requires to be opened first."""
        if error.code != elicitation.URL_REQUIRED:
            return False
        return await self.elicitations(connection).open_required(error.data)

    def _sampling(self, connection: Connection, questions: Elicitations) -> Sampling:
        found = self._samplings.get(connection.name)
        if found is None:
            from codex_plugin_mcp.sampling import Sampling

            found = self._samplings[connection.name] = Sampling(
                connection,
                questions,
                max_requests=self._settings.sampling_max_requests,
                max_tokens=self._settings.sampling_max_tokens,
            )
        return found

    async def _list_changed(self, server: str, name: str, params: Mapping[str, Any]) -> None:  # noqa: ARG002  # a handler's
        self.changed(server, name)

    def changed(self, server: str, name: str) -> None:
        """Tell the clients that a list of a server has changed. Changes within a short time are told once."""
        if (server, name) not in self._changes:
            self._changes.add((server, name))
            asyncio.get_running_loop().call_later(_TOGETHER_S, self._tell_changed, server, name)

    def _tell_changed(self, server: str, name: str) -> None:
        self._changes.discard((server, name))
        self._thread.emit(McpListChangedEvent(server=server, list=name))
