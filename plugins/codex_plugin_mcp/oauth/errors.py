"""The error of everything that concerns a login."""

from __future__ import annotations

from codex_plugin_mcp.errors import ConnectionFailed, FailureKind
from codex_plugin_mcp.texts import one_line

__all__ = ["LoginFailed"]

_LENGTH = 600


class LoginFailed(ConnectionFailed):
    """A login, or the refresh of one, failed. The text contains no token, code or secret."""

    slug = "mcp-login"

    def __init__(self, fact: str, *, kind: FailureKind = "other", hint: str = "") -> None:
        super().__init__(one_line(fact, _LENGTH), kind=kind, hint=hint)  # servers have a say in it
