"""The authorization of requests: tokens are loaded, refreshed before they expire, and shared between processes.

Code for refreshing is imported when it is needed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.toolkit.finishing import finish
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.oauth.credentials import StoredTokens, now_ms
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.store import TokenStore, store_mode
from codex_plugin_mcp.transports.http_client import configured_headers
from codex_plugin_mcp.transports.http_refusals import Refusal, login_required

if TYPE_CHECKING:
    from codex_plugin_mcp.oauth.web import Web
    from codex_plugin_mcp.servers import ServerConfig

__all__ = ["OAuthAuth"]


class OAuthAuth:
    """The :class:`~codex_plugin_mcp.transports.http_refusals.Authorization` of one server.

    Args:
        server: The server, which has a ``url`` and no configured token.
        codex_home: The folder for tokens that are not in the keyring.
        config: The merged configuration.
        environ: The environment variables. By default, the process's environment.
    """

    def __init__(
        self,
        server: ServerConfig,
        *,
        codex_home: Path,
        config: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        assert server.url is not None
        self._server = server
        self._url = server.url
        self._environ = os.environ if environ is None else environ
        self._config = config
        self._store = TokenStore(codex_home, store_mode(config))
        self._tokens: StoredTokens | None = None
        self._loaded = False
        self._changing = asyncio.Lock()

    async def header(self) -> str | None:
        """Return the value of ``Authorization``, or None without a login. A token that expires soon is refreshed."""
        if not self._loaded:
            self._tokens = await self._stored()
            self._loaded = True
        tokens = self._tokens
        if tokens is not None and tokens.expires_soon:
            tokens = await finish(self._renewed(tokens))
        return f"Bearer {tokens.access_token}" if tokens is not None and tokens.access_token else None

    async def refused(self, refusal: Refusal, header: str | None) -> bool:
        """Take note that a server refused a request.

        Returns:
            Whether there is another token now.

        Raises:
            ConnectionFailed: The user must log in.
        """
        if refusal.status == 403:
            if refusal.parameter("error") != "insufficient_scope":
                return False
            return await self._more_scopes(refusal)
        return await finish(self._another(refusal, header))

    async def _another(self, refusal: Refusal, header: str | None) -> bool:
        """Find or obtain a token other than the refused one. Return whether one was found."""
        async with self._changing:
            if self._tokens is not None and f"Bearer {self._tokens.access_token}" != header:
                return bool(self._tokens.access_token)  # another request has renewed it in the meantime
            return await self._replaced(refusal)

    async def _replaced(self, refusal: Refusal) -> bool:
        """Replace a token that the server does not accept."""
        old = self._tokens
        if old is None and not self._needs_no_user and await self._stored() is None:
            raise login_required(self._server.name)
        async with self._store.lock(self._server.name, self._url):
            stored = await self._stored()
            if stored is not None and stored.access_token and (old is None or stored.access_token != old.access_token):
                self._tokens = stored
                return True
            if self._needs_no_user:
                await self._keep(await self._obtained(refusal, None))
                return True
            if stored is not None and stored.refreshable:
                await self._keep(await self._refreshed(stored))
                return True
        raise login_required(self._server.name)

    async def _renewed(self, tokens: StoredTokens) -> StoredTokens | None:
        """Return tokens in place of ones that expire soon. Without a way to renew them they are used until they expire."""
        async with self._changing:
            if self._tokens is not None and not self._tokens.expires_soon:
                return self._tokens
            async with self._store.lock(self._server.name, self._url):
                stored = await self._stored()
                if stored is not None and stored.access_token and not stored.expires_soon:
                    self._tokens = stored
                elif self._needs_no_user:
                    await self._keep(await self._obtained(None, tokens.scopes or None))
                elif stored is not None and stored.refreshable:
                    await self._keep(await self._refreshed_or_kept(stored))
                elif _has_expired(tokens):
                    raise login_required(self._server.name, "the login has expired")
        return self._tokens

    async def _refreshed_or_kept(self, stored: StoredTokens) -> StoredTokens:
        """Refresh tokens. If the authorization server is out of reach, tokens that are still valid are kept."""
        try:
            return await self._refreshed(stored)
        except LoginFailed:
            if _has_expired(stored):
                raise
            return stored

    async def _refreshed(self, stored: StoredTokens) -> StoredTokens:
        """Refresh tokens. The caller has the lock."""
        from codex_plugin_mcp.oauth.discovery import discover, probe
        from codex_plugin_mcp.oauth.token_requests import RefreshRejected, refreshed

        async with self._web() as web:
            if stored.token_endpoint is None:
                protection = await discover(web, self._url, await probe(web))
                self._check_issuer(stored, protection.server.issuer)
                stored = stored.evolve(
                    token_endpoint=protection.server.token_endpoint,
                    issuer=protection.server.issuer,
                    resource=self._server.oauth_resource or protection.resource,
                )
            try:
                return await refreshed(web, stored)
            except RefreshRejected:
                await self._keep(stored.evolve(refresh_token=None))
                raise login_required(self._server.name, "the login has expired") from None

    def _check_issuer(self, stored: StoredTokens, issuer: str) -> None:
        """Refuse to send a refresh token to an authorization server that did not issue it."""
        if stored.issuer is None or stored.issuer.rstrip("/") != issuer.rstrip("/"):
            raise login_required(self._server.name, "its authorization server is another one")

    async def _more_scopes(self, refusal: Refusal) -> bool:
        """Obtain the scopes that the server demands, or remember them for the next login."""
        demanded = (refusal.parameter("scope") or "").split()
        async with self._changing, self._store.lock(self._server.name, self._url):
            stored = await self._stored()
            if stored is None or not stored.access_token:
                raise login_required(self._server.name)
            if self._tokens is not None and stored.access_token != self._tokens.access_token:
                self._tokens = stored
                return True
            missing = [scope for scope in demanded if scope not in stored.scopes]
            if not missing:
                return False
            if self._needs_no_user:
                await self._keep(await self._obtained(refusal, tuple(dict.fromkeys((*stored.scopes, *demanded)))))
                return True
            await self._keep(stored.evolve(wanted_scopes=tuple(dict.fromkeys((*stored.wanted_scopes, *missing)))))
        shown = " ".join(missing)[:200]
        raise login_required(self._server.name, f"it demands the further scopes: {shown}")

    @property
    def _needs_no_user(self) -> bool:
        return bool(self._server.oauth.get("grant", "authorization_code") != "authorization_code")

    async def _obtained(self, refusal: Refusal | None, scopes: tuple[str, ...] | None) -> StoredTokens:
        """Obtain tokens without a user. The caller has the lock."""
        from codex_plugin_mcp.oauth.discovery import discover, probe
        from codex_plugin_mcp.oauth.flow import requested_scopes
        from codex_plugin_mcp.oauth.settings import oauth_settings
        from codex_plugin_mcp.oauth.token_requests import from_settings

        settings = oauth_settings(self._server, self._config, self._environ)
        async with self._web() as web:
            protection = await discover(web, self._url, refusal or await probe(web), issuer=settings.issuer)
            begun = StoredTokens(
                server_name=self._server.name,
                url=self._url,
                issuer=protection.server.issuer,
                token_endpoint=protection.server.token_endpoint,
                resource=settings.resource or protection.resource,
            )
            wanted = scopes or requested_scopes(settings, protection, None)
            return await from_settings(web, begun, protection, settings, wanted)

    async def _keep(self, tokens: StoredTokens) -> None:
        await asyncio.to_thread(self._store.save, tokens)
        self._tokens = tokens

    async def _stored(self) -> StoredTokens | None:
        """Load the tokens, in a thread: a keyring may ask the user to unlock it."""
        return await asyncio.to_thread(self._store.load, self._server.name, self._url)

    def _web(self) -> Web:
        from codex_plugin_mcp.oauth.web import Web

        try:
            return Web(self._url, headers=configured_headers(self._server, self._environ))
        except ConnectionFailed as error:
            raise LoginFailed(str(error), hint=error.hint) from error


def _has_expired(tokens: StoredTokens) -> bool:
    return tokens.expires_at is not None and tokens.expires_at <= now_ms()
