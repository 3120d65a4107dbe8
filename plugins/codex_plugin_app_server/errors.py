"""Errors of the protocol, with Codex's codes."""

from __future__ import annotations

from typing import Any

from codex_framework import CodexError

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "OVERLOADED",
    "RpcError",
    "error_of",
]

INVALID_REQUEST = -32600
"""Nearly everything that a client can do wrong, as in Codex."""

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
OVERLOADED = -32001


class RpcError(Exception):
    """The answer to a request that cannot be fulfilled.

    Args:
        data: Further facts, as plain JSON data.
    """

    def __init__(self, message: str, code: int = INVALID_REQUEST, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data

    def to_wire(self) -> dict[str, Any]:
        """Return the member ``error`` of a response."""
        data = {} if self.data is None else {"data": self.data}
        return {"code": self.code, "message": self.message, **data}


def error_of(error: Exception) -> RpcError:
    """Return the answer for an exception of a handler."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, CodexError):
        facts = {"slug": getattr(error, "slug", ""), "hint": getattr(error, "hint", "")}
        return RpcError(str(error), data={name: text for name, text in facts.items() if text} or None)
    return RpcError(f"{type(error).__name__}: {error}", INTERNAL_ERROR)
