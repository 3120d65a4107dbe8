"""The identity of the client for an authorization server: configured, described by a document, or registered on demand."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from codex_framework.contract.urls import shown_url
from codex_framework.contract.value import Value, field
from codex_plugin_mcp.oauth.discovery import AuthorizationServer
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.settings import OAuthSettings
from codex_plugin_mcp.oauth.web import Web

__all__ = ["Client", "as_registered", "client_for"]

_WITH_SECRET = ("client_secret_basic", "client_secret_post")


class Client(Value):
    """A client as one authorization server knows it. ``repr`` does not show the secret.

    Attributes:
        id: Its id.
        secret: Its secret, if it has one.
        auth_method: How it authenticates: ``none``, ``client_secret_basic`` or ``client_secret_post``.
    """

    id: str
    secret: str | None = field(default=None, repr=False)
    auth_method: str = "none"

    def authenticate(self, form: dict[str, str]) -> str | None:
        """Add the client's identity to a form for the token endpoint.

        Returns:
            The value of the header ``Authorization``, or None if it is not sent.
        """
        if self.auth_method == "client_secret_basic" and self.secret is not None:
            login = f"{quote(self.id, safe='', errors='replace')}:{quote(self.secret, safe='', errors='replace')}"
            return f"Basic {base64.b64encode(login.encode()).decode()}"
        form["client_id"] = self.id
        if self.auth_method == "client_secret_post" and self.secret is not None:
            form["client_secret"] = self.secret
        return None


async def client_for(
    web: Web,
    server: AuthorizationServer,
    settings: OAuthSettings,
    redirect_uri: str,
    scopes: tuple[str, ...] | None,
) -> Client:
    """Return the client for a login, and register it if none is configured.

    Raises:
        LoginFailed: The server does not register clients, or its answer cannot be used.
    """
    if settings.client_id is not None and (server.client_id_documents or not settings.has_client_document):
        return configured_client(server, settings)
    if server.registration_endpoint is None:
        raise LoginFailed(
            f"the authorization server {shown_url(server.issuer)} does not register clients",
            kind="refused",
            hint="Register a client there, and set oauth.client_id in the server's table.",
        )
    return await _register(web, server, redirect_uri, scopes)


def as_registered(server: AuthorizationServer, settings: OAuthSettings, way: str) -> AuthorizationServer:
    """Return an authorization server that allows only one way to register.

    Args:
        way: ``auto``, ``cimd`` or ``dcr``.

    Raises:
        LoginFailed: That way is not possible.
    """
    if way == "cimd" and not (server.client_id_documents and settings.has_client_document):
        raise LoginFailed(
            f"{shown_url(server.issuer)} reads no document of a client, or oauth.client_id is not its URL",
            kind="refused",
            hint="Use --oauth-client-registration auto, or set oauth.client_id to the https URL of the client's document.",
        )
    return server.evolve(client_id_documents=False) if way == "dcr" else server


def configured_client(server: AuthorizationServer, settings: OAuthSettings) -> Client:
    """Return the client that the configuration names.

    Raises:
        LoginFailed: It names none.
    """
    if settings.client_id is None:
        raise LoginFailed("oauth.client_id is not set", hint="Set oauth.client_id in the server's table.")
    return Client(settings.client_id, settings.client_secret, _method(server, settings.client_secret))


def _method(server: AuthorizationServer, secret: str | None, assigned: Any = None) -> str:
    """Return how a client authenticates: by the assigned method, else by a method that the server allows."""
    if secret is None:
        if assigned in _WITH_SECRET:
            raise LoginFailed("the authorization server demands a secret, and issued none", kind="protocol")
        return "none"
    if assigned is not None and assigned not in ("", "none", *_WITH_SECRET):
        raise LoginFailed(
            f"the authorization server demands the authentication {str(assigned)[:60]!r}, which is not supported",
            kind="refused",
        )
    if assigned:
        return str(assigned)
    allowed = server.auth_methods
    if allowed is None:
        return "client_secret_basic"
    return next((method for method in (*_WITH_SECRET, "none") if method in allowed), "client_secret_basic")


async def _register(web: Web, server: AuthorizationServer, redirect_uri: str, scopes: tuple[str, ...] | None) -> Client:
    """Register a client (RFC 7591)."""
    assert server.registration_endpoint is not None
    allowed = server.auth_methods
    method = "none" if allowed is None else next((each for each in ("none", *_WITH_SECRET) if each in allowed), "none")
    data: dict[str, Any] = {
        "client_name": "codex-framework",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    }
    if scopes:
        data["scope"] = " ".join(scopes)
    answer = await web.post_json(server.registration_endpoint, data, "the registration of the client")
    if answer.status not in (200, 201):
        raise LoginFailed(
            f"the authorization server refused to register the client: {answer.problem}",
            kind="refused",
            hint="Register a client there, and set oauth.client_id in the server's table.",
        )
    content = answer.content or {}
    number, secret = content.get("client_id"), content.get("client_secret")
    if not isinstance(number, str) or not number:
        raise LoginFailed("the authorization server registered the client without an id", kind="protocol")
    secret = secret if isinstance(secret, str) and secret else None
    return Client(number, secret, _method(server, secret, content.get("token_endpoint_auth_method")))
