"""One request of a client: the messages that can be sent to the client while it is served."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import LOG_LEVEL_META_KEY
from pydantic import BaseModel, Field, ValidationError

from codex_plugin_mcp_server.encoding import sendable

__all__ = ["LEVELS", "Link", "NotAskedError", "session_id_of"]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none")
"""The levels of messages, the least important first. ``none`` is above all."""


_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, MCPError)
"""The exception of sending after the client has gone. The cancellation of its requests follows."""


class NotAskedError(Exception):
    """The client could not be asked, or answered with an error."""


class _Notification(BaseModel):
    method: str
    params: dict[str, Any]


class _Elicitation(BaseModel):
    """An elicitation whose result the SDK does not check, because clients of Codex answer ``{"decision": ...}``."""

    method: ClassVar[str] = "codex/elicitation"
    wire_method: str = Field(default="elicitation/create", serialization_alias="method")
    params: dict[str, Any]


class _Raw(BaseModel, extra="allow"):
    """An unchanged result."""


def session_id_of(context: ServerRequestContext[Any, Any]) -> str | None:
    """Return the id of the HTTP session, or None."""
    found: str | None = getattr(context.request, "headers", {}).get("mcp-session-id")
    return found


class Link:
    """A request.

    Attributes:
        request_id: The client's id of the request.
        has_channel: Whether the server can send requests to the client meanwhile. From the revision 2026-07-28 on, it cannot: a
            question is a result, and its answer comes with the next request.
        can_ask: Whether the client supports elicitations with a form.
        can_open: Whether it supports elicitations that ask the user to open a page.
        session_id: The id of the HTTP session. None on stdio, and if there is no session.
        log_level: The lowest level of messages for the client's log.
        is_lasting: Whether later requests of the same client can be recognised: on stdio, and in an HTTP session.
    """

    def __init__(self, context: ServerRequestContext[Any, Any], log_level: str | None = None) -> None:
        assert context.request_id is not None
        self.request_id = context.request_id
        self.has_channel = context.session.can_send_request
        self._session = context.session
        asked = (context.meta or {}).get(LOG_LEVEL_META_KEY)
        # Clients of a revision without a channel back name the level in each request; others in a request of its own.
        wanted = (log_level or "info") if self.has_channel else asked
        self.log_level = wanted if wanted in LEVELS else "none"
        self.session_id = session_id_of(context)
        self.is_lasting = context.request is None or self.session_id is not None
        capabilities = context.session.client_capabilities
        asks = None if capabilities is None else capabilities.elicitation
        self.can_open = asks is not None and asks.url is not None
        self.can_ask = asks is not None and (asks.form is not None or asks.url is None)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to the request."""
        notification: Any = _Notification(method=method, params=sendable(dict(params)))
        with contextlib.suppress(*_GONE):
            await self._session.send_notification(notification, related_request_id=self.request_id)

    async def progress(self, done: float, total: float | None, text: str) -> None:
        """Report progress, if the client wants it."""
        with contextlib.suppress(*_GONE):
            await self._session.report_progress(done, total, sendable(text))

    async def log(self, level: str, text: str) -> None:
        """Send a message for the client's log, if it wants messages of this level."""
        if LEVELS.index(level) >= LEVELS.index(self.log_level):
            await self.notify("notifications/message", {"level": level, "logger": "codex-framework", "data": text})

    async def elicit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the client, and return its unchanged result.

        Raises:
            NotAskedError: It could not be asked, or answered with an error.
        """
        request = cast("Any", _Elicitation(params=sendable(dict(params))))
        metadata = ServerMessageMetadata(related_request_id=self.request_id)
        try:
            result: BaseModel = await self._session.send_request(request, _Raw, metadata=metadata)
        except (*_GONE, ValidationError) as error:
            raise NotAskedError(str(error)) from error
        return result.model_dump()
