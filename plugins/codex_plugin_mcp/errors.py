"""The errors of MCP connections and calls."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

from codex_framework import CodexError

__all__ = ["ConnectionFailed", "FailureKind", "McpError", "RequestTimedOut", "ServerError"]

FailureKind: TypeAlias = Literal["ended", "missing", "not_logged_in", "protocol", "refused", "timeout", "other"]
"""Why there is no connection.

``ended``: the server ended, or closed the connection. ``missing``: its program or address does not exist. ``not_logged_in``: it
requires a login. ``protocol``: it does not speak MCP as it should. ``refused``: it, or a sandbox, refused. ``timeout``: it took too
long.
"""


class McpError(CodexError):
    """The base of the errors of this plugin."""

    slug = "mcp"


class ConnectionFailed(McpError):  # noqa: N818  # like CommandFailed
    """There is no connection to a server, or it was lost.

    Attributes:
        kind: Why, in a word.
    """

    kind: FailureKind = "other"

    def __init__(self, fact: str, *, kind: FailureKind = "other", hint: str = "") -> None:
        super().__init__(fact, hint=hint)
        self.kind = kind


class RequestTimedOut(McpError):  # noqa: N818  # as above
    """A server did not answer a request in time."""


_MAX_DATA = 4_000
"""Longest data of a server's error that is shown, in characters of JSON."""


class ServerError(McpError):
    """A server answered a request with an error.

    A handler raises it too, to answer a request of the server with an error.

    Attributes:
        code: The code of JSON-RPC or MCP (``-32601``: there is no such method).
        data: The error's data as plain JSON data, if it has some.
    """

    code: int = -32603
    data: Any = None

    def __init__(self, fact: str, *, code: int = -32603, data: Any = None, hint: str = "") -> None:
        super().__init__(fact, hint=hint)
        self.code = code
        self.data = data

    def whole_text(self) -> str:
        """Return the error with its code and its data, for the model."""
        data = "" if self.data is None else f"({json.dumps(self.data, ensure_ascii=False)[:_MAX_DATA]})"
        return f"Mcp error: {self.code}: {self}{data}"
