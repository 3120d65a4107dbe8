"""The tokens of one server, as plain values."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from codex_framework.contract.value import Value, field

__all__ = ["REFRESH_EARLY_MS", "StoredTokens", "now_ms", "store_key"]

REFRESH_EARLY_MS = 30_000
"""How long before its end an access token is refreshed, in milliseconds."""


class StoredTokens(Value, kw_only=True):
    """The tokens of one server and what is needed to refresh them. ``repr`` does not show secrets.

    Attributes:
        server_name: The server's key in ``[mcp_servers]``.
        url: The server's URL.
        client_id: The OAuth client that the tokens were issued to. Empty before the first login.
        access_token: The access token, or an empty string.
        expires_at: When it expires, in milliseconds since 1970, if known.
        refresh_token: The refresh token, if the server issued one.
        scopes: The scopes that were granted, as far as known.
        issuer: The authorization server, if known.
        client_secret: The secret of a client that was registered for this login.
        auth_method: How the client authenticates to the token endpoint: ``none``, ``client_secret_basic`` or
            ``client_secret_post``.
        token_endpoint: The endpoint for refreshing tokens. If it is missing, it is discovered.
        resource: The resource that the tokens are for, if the login named one.
        wanted_scopes: Scopes that the server has demanded since, for the next login.
    """

    server_name: str
    url: str = field(repr=False)
    client_id: str = ""
    access_token: str = field(default="", repr=False)
    expires_at: int | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str = "none"
    token_endpoint: str | None = None
    resource: str | None = None
    wanted_scopes: tuple[str, ...] = ()

    @property
    def expires_soon(self) -> bool:
        """Whether the access token ends within 30 seconds, or has ended."""
        return self.expires_at is not None and now_ms() + REFRESH_EARLY_MS >= self.expires_at

    @property
    def usable(self) -> bool:
        """Whether a request can be authorized without a new login."""
        return bool(self.access_token and not self.expires_soon) or self.refreshable

    @property
    def refreshable(self) -> bool:
        """Whether there is a refresh token."""
        return bool(self.client_id and self.refresh_token)

    @property
    def own(self) -> dict[str, Any]:
        """The data without a field in Codex's format. Empty values are left out."""
        values = {
            "client_secret": self.client_secret,
            "auth_method": self.auth_method,
            "token_endpoint": self.token_endpoint,
            "resource": self.resource,
            "wanted_scopes": list(self.wanted_scopes),
        }
        return {name: value for name, value in values.items() if value}


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return int(time.time() * 1000)


def store_key(server_name: str, url: str) -> str:
    """Return the key of a server's tokens, which is Codex's: the name and a hash of the URL."""
    payload = json.dumps({"type": "http", "url": url, "headers": {}}, separators=(",", ":"), ensure_ascii=False)
    return f"{server_name}|{hashlib.sha256(payload.encode()).hexdigest()[:16]}"
