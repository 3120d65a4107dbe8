"""Login, logout and status, for the command line and programs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode, urlsplit

from codex_framework.contract.urls import shown_url
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.oauth.callback import CallbackServer, Redirected
from codex_plugin_mcp.oauth.credentials import StoredTokens
from codex_plugin_mcp.oauth.discovery import AuthorizationServer, Protection, discover, probe
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.registration import Client, as_registered, client_for
from codex_plugin_mcp.oauth.settings import OAuthSettings, oauth_settings
from codex_plugin_mcp.oauth.store import TokenStore, store_mode
from codex_plugin_mcp.oauth.token_requests import from_code, from_settings
from codex_plugin_mcp.oauth.web import Web
from codex_plugin_mcp.transports.http_client import configured_headers, has_own_authorization

if TYPE_CHECKING:
    from codex_plugin_mcp.servers import ServerConfig

__all__ = ["LOGIN_S", "AuthStatus", "auth_status", "login", "logout", "requested_scopes"]

AuthStatus = Literal["unsupported", "not_logged_in", "bearer_token", "o_auth"]
"""How a server is authorized: not over HTTP or without OAuth, OAuth without a login, with a configured token, with a login."""

_DISCOVERY_S = 5.0
_STATUS_S = 10.0
LOGIN_S = 300.0
"""How long a login waits for the user, in seconds."""


async def login(
    server: ServerConfig,
    *,
    codex_home: Path,
    config: Mapping[str, Any],
    open_browser: Callable[[str], object],
    echo: Callable[[str], object],
    scopes: tuple[str, ...] | None = None,
    timeout_s: float = LOGIN_S,
    environ: Mapping[str, str] | None = None,
    registration: str = "auto",
) -> None:
    """Log in to a server and store the tokens.

    Args:
        server: The server, which has a ``url``.
        codex_home: The folder for tokens that are not in the keyring.
        config: The merged configuration.
        open_browser: Opens an address in the user's browser. Whether it succeeds does not matter, because the address is shown
            too.
        echo: Shows a line to the user.
        scopes: The scopes to request. By default, the configured scopes, else the scopes that the server names.
        timeout_s: How long to wait for the user, in seconds.
        environ: The environment variables. By default, the process's environment.
        registration: How the client becomes known: by the document that ``oauth.client_id`` names (``cimd``), by registering
            itself (``dcr``), or as the server allows (``auto``).

    Raises:
        LoginFailed: The login failed. The text contains no secret.
    """
    url = _url_for_login(server)
    environ = os.environ if environ is None else environ
    settings = oauth_settings(server, config, environ)
    store = TokenStore(codex_home, store_mode(config))
    before = store.load(server.name, url)
    async with Web(url, headers=_headers(server, environ)) as web:
        protection = await discover(web, url, await probe(web), issuer=settings.issuer)
        wanted = scopes if scopes is not None else requested_scopes(settings, protection, before)
        begun = _initial_tokens(server.name, url, protection, settings, wanted)
        if settings.grant != "authorization_code":
            tokens = await from_settings(web, begun, protection, settings, wanted)
        else:
            authorizer = as_registered(protection.server, settings, registration)
            browser = _Browser(web, authorizer, settings, open_browser, echo, timeout_s)
            tokens = await browser.tokens(begun, wanted, fixed=scopes is not None or settings.scopes is not None)
    async with store.lock(server.name, url):
        store.save(tokens)


async def logout(server: ServerConfig, *, codex_home: Path, config: Mapping[str, Any]) -> bool:
    """Delete the tokens of a server. Returns whether there were any.

    Raises:
        LoginFailed: They cannot be deleted, or the server is not reached over HTTP.
    """
    if server.url is None:
        raise LoginFailed(f"{server.name} is a program, which needs no login", kind="refused")
    store = TokenStore(codex_home, store_mode(config))
    async with store.lock(server.name, server.url):
        return store.delete(server.name, server.url)


async def auth_status(
    server: ServerConfig, *, codex_home: Path, config: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> AuthStatus:
    """Return how a server is authorized. A server that has no tokens is asked, for at most a few seconds.

    Raises:
        LoginFailed: The stored tokens cannot be read.
    """
    if server.url is None:
        return "unsupported"
    if has_own_authorization(server):
        return "bearer_token"
    tokens = TokenStore(codex_home, store_mode(config)).load(server.name, server.url)
    if tokens is not None and tokens.usable:
        return "o_auth"
    with contextlib.suppress(ConnectionFailed, TimeoutError):
        headers = _headers(server, os.environ if environ is None else environ)
        async with asyncio.timeout(_STATUS_S), Web(server.url, headers=headers, timeout_s=_DISCOVERY_S) as web:
            protection = await discover(web, server.url, await probe(web))
            return "unsupported" if protection.server.assumed else "not_logged_in"
    return "unsupported"


def requested_scopes(
    settings: OAuthSettings, protection: Protection, before: StoredTokens | None
) -> tuple[str, ...] | None:
    """Return the scopes to request, if any are known.

    The configuration decides; otherwise the scopes that the server demands, together with the scopes demanded by a later
    refusal. A refresh token is requested if the authorization server supports that scope.
    """
    if settings.scopes is not None:
        return settings.scopes
    earlier = before.scopes + before.wanted_scopes if before is not None and before.wanted_scopes else ()
    if protection.scopes is None and not earlier:
        return None
    offline = ("offline_access",) if "offline_access" in protection.server.scopes else ()
    if settings.grant != "authorization_code":
        offline = ()
    return tuple(dict.fromkeys((*(protection.scopes or ()), *earlier, *offline))) or None


def _url_for_login(server: ServerConfig) -> str:
    if server.url is None:
        raise LoginFailed(f"{server.name} is a program, which needs no login", kind="refused")
    if has_own_authorization(server):
        raise LoginFailed(
            f"{server.name} is configured with a token or an Authorization header, which a login would not replace",
            kind="refused",
            hint="Remove bearer_token_env_var and the header from the server's table, then log in.",
        )
    return server.url


def _headers(server: ServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    try:
        return configured_headers(server, environ)
    except ConnectionFailed as error:
        raise LoginFailed(str(error), hint=error.hint) from error


def _initial_tokens(
    name: str, url: str, protection: Protection, settings: OAuthSettings, scopes: tuple[str, ...] | None
) -> StoredTokens:
    """Return the data that is known before tokens are issued."""
    return StoredTokens(
        server_name=name,
        url=url,
        issuer=protection.server.issuer,
        token_endpoint=protection.server.token_endpoint,
        resource=settings.resource or protection.resource,
        scopes=scopes or (),
    )


class _Browser:
    """A login by a user with a browser: an authorization code with PKCE."""

    def __init__(
        self,
        web: Web,
        server: AuthorizationServer,
        settings: OAuthSettings,
        open_browser: Callable[[str], object],
        echo: Callable[[str], object],
        timeout_s: float,
    ) -> None:
        self._web = web
        self._server = server
        self._settings = settings
        self._open = open_browser
        self._echo = echo
        self._timeout_s = timeout_s

    async def tokens(self, begun: StoredTokens, scopes: tuple[str, ...] | None, *, fixed: bool) -> StoredTokens:
        """Log in. Scopes that the user did not choose are left out if the authorization server does not know them."""
        try:
            return await self._log_in(begun, scopes)
        except _ScopesRejected:
            if fixed or scopes is None:
                raise
            self._echo("The authorization server rejected the scopes that the server names. Trying again without them.")
            return await self._log_in(begun, None)

    async def _log_in(self, begun: StoredTokens, scopes: tuple[str, ...] | None) -> StoredTokens:
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        callback = CallbackServer(port=self._settings.callback_port, url=self._settings.callback_url, state=state)
        async with callback:
            client = await client_for(self._web, self._server, self._settings, callback.redirect_uri, scopes)
            address = self._address(client, begun, callback.redirect_uri, state, verifier, scopes)
            self._echo(f"Authorize `{begun.server_name}` by opening this URL in your browser:\n{address}\n")
            if not self._open(address):
                self._echo("(The browser could not be opened. Copy the URL above.)")
            answer = await callback.wait(self._timeout_s)
            self._check(answer)
            return await from_code(
                self._web,
                begun,
                client,
                code=answer.code,
                verifier=verifier,
                redirect_uri=callback.redirect_uri,
            )

    def _address(
        self,
        client: Client,
        begun: StoredTokens,
        redirect_uri: str,
        state: str,
        verifier: str,
        scopes: tuple[str, ...] | None,
    ) -> str:
        """Return the address that the user opens."""
        endpoint = self._server.authorization_endpoint
        if endpoint is None:
            raise LoginFailed(
                f"the authorization server {shown_url(self._server.issuer)} has no page for logging in", kind="protocol"
            )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if begun.resource is not None:
            query["resource"] = begun.resource
        if scopes:
            query["scope"] = " ".join(scopes)
            if "offline_access" in scopes:
                query["prompt"] = "consent"
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query, errors='replace')}"

    def _check(self, answer: Redirected) -> None:
        """Refuse an answer that another authorization server gave (RFC 9207), or that is an error."""
        issuer = answer.issuer
        if issuer is None and self._server.names_issuer:
            raise LoginFailed("the answer of the browser does not name the authorization server", kind="refused")
        if issuer is not None and issuer != self._server.issuer:
            raise LoginFailed(
                f"the answer comes from {shown_url(issuer)[:200]} instead of {shown_url(self._server.issuer)},"
                " which may be an attack",
                kind="refused",
            )
        if answer.error == "invalid_scope":
            raise _ScopesRejected(f"the authorization server refused the login: {answer.error}", kind="refused")
        if answer.error or not answer.code:
            said = ": ".join(text for text in (answer.error, answer.description) if text) or "it gave no code"
            raise LoginFailed(f"the authorization server refused the login: {said}", kind="refused")


class _ScopesRejected(LoginFailed):
    """The authorization server does not know a scope."""
