"""Bearer tokens of a ChatGPT login, refreshed before they expire and when a server refuses one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from codex_framework.toolkit.finishing import must_finish
from codex_lib_model_client.login.agent_identity import AgentIdentity, assertion, identity_of, register_task
from codex_lib_model_client.login.claims import claims_of, expires_at, is_fedramp, plan
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import refresh, whoami
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["CHATGPT_URL", "AgentTokens", "ChatGptTokens", "ExternalTokens", "PersonalToken"]

CHATGPT_URL = "https://chatgpt.com/backend-api/codex"
"""The base URL for ChatGPT's tokens, if the provider's is OpenAI's API (Codex's)."""

_HINT = "Run `codex-framework logout`, then `codex-framework login`."
_log = logging.getLogger("codex_framework.login")


class ChatGptTokens:
    """The tokens of a ChatGPT login. Threads of a kernel share them, and processes share the stored login.

    Attributes:
        headers: Headers that requests need besides the token.
        plan: The name of the ChatGPT plan, if it is known.
        base_url: The base URL, used if the provider's table names no server.
        refused_hint: How to recover if a server refuses a new token.
    """

    base_url = CHATGPT_URL
    refused_hint = _HINT

    def __init__(self, login: StoredLogin, storage: LoginStorage, env: Mapping[str, str], policy: LoginPolicy) -> None:
        self._login = login
        self._storage = storage
        self._env = env
        self._policy = policy
        self._lock = asyncio.Lock()
        self._dead: tuple[str, LoginError] | None = None
        self._unsaved = False
        self.plan = plan(login.id_claims)
        self.headers = _headers(login.account, is_fedramp=is_fedramp(login.id_claims))

    async def token(self, *, refused: str = "") -> str:
        """Return the access token.

        A refresh is finished even if the caller is cancelled, because the issuer accepts a refresh token only once.

        Args:
            refused: The token that a server has just refused. If it is the current one, it is replaced.

        Raises:
            LoginError: It cannot be replaced.
        """
        async with self._lock:
            token = self._login.access_token
            if refused and refused == token:
                await asyncio.shield(asyncio.to_thread(self._renew, "unauthorized_recovery"))
            elif self._login.is_stale():
                await self._renew_early()
            elif self._unsaved:
                await asyncio.to_thread(self._save, self._login)
            if not self._login.access_token:
                raise LoginError("ChatGPT auth is missing an access token", reason="unreadable", hint=_HINT)
            return self._login.access_token

    async def _renew_early(self) -> None:
        """Replace a token that is about to expire. If that fails, the old token is used while it is valid."""
        try:
            await asyncio.shield(asyncio.to_thread(self._renew, "proactive_expiry"))
        except LoginError as error:
            expiry = expires_at(claims_of(self._login.access_token))
            if error.reason == "changed" or expiry is None or expiry <= time.time():
                raise
            _log.warning("%s", error)

    def _renew(self, reason: str) -> None:
        """Take the tokens that another process has stored in the meantime, or ask the issuer for new ones."""
        with self._storage.refreshing():
            stored = self._storage.load()
            if stored is None or stored.kind != "chatgpt" or stored.account != self._login.account:
                raise LoginError(
                    "Your access token could not be refreshed because you have since logged out or signed in to another"
                    " account. Please sign in again.",
                    reason="changed",
                    hint="Start again, so that the new login is used, or run `codex-framework login`.",
                )
            self._policy.check(stored)
            if stored.access_token != self._login.access_token and not stored.is_stale() and not self._unsaved:
                self._login = stored
                return
            login = self._login if self._unsaved else stored
            with must_finish("the refresh of the login"):  # once it is sent, the old token is of no use
                self._save(self._refresh(login, reason))

    def _refresh(self, login: StoredLogin, reason: str) -> StoredLogin:
        token = login.refresh_token
        if not token:
            raise LoginError("ChatGPT auth is missing a refresh token", reason="unreadable", hint=_HINT)
        if self._dead is not None and self._dead[0] == token:
            raise self._dead[1]
        try:
            tokens = refresh(token, self._env, issuer=login.issuer, client_id=login.client_id, reason=reason)
        except LoginError as error:
            if not error.retryable and error.reason != "unreachable":
                self._dead = (token, error)
            raise
        return login.with_tokens(tokens)

    def _save(self, login: StoredLogin) -> None:
        """Use a login, and store it. If it cannot be stored, it is used nevertheless, and stored later."""
        self._login = login
        try:
            self._storage.save(login)
            self._unsaved = False
        except LoginError as error:
            if not self._unsaved:
                _log.warning("the refreshed login is not stored: %s %s", error, error.hint)
            self._unsaved = True


class PersonalToken:
    """A personal access token. Its account is looked up at its first use.

    Attributes:
        headers: Headers that requests need besides the token, once it has been used.
        plan: The name of the ChatGPT plan, if it is known. It is known once the login has been used.
        base_url: The base URL, used if the provider's table names no server.
        refused_hint: How to recover if a server refuses it.
    """

    base_url = CHATGPT_URL
    refused_hint = "The access token has expired or was revoked. Create a new one."

    def __init__(self, token: str, env: Mapping[str, str], policy: LoginPolicy) -> None:
        self._token = token
        self._env = env
        self._policy = policy
        self._lock = asyncio.Lock()
        self.plan: str | None = None
        self.headers: dict[str, str] = {}

    async def token(self, *, refused: str = "") -> str:  # noqa: ARG002  # it cannot be refreshed
        """Return the token.

        Raises:
            LoginError: Its account cannot be looked up, or must not be used.
        """
        async with self._lock:
            if not self.headers:
                reply = await asyncio.to_thread(whoami, self._token, self._env)
                account = reply.text("chatgpt_account_id")
                self._policy.check_account(account)
                self.plan = reply.text("chatgpt_plan_type") or None
                fedramp = reply.content.get("chatgpt_account_is_fedramp") is True
                self.headers = _headers(account, is_fedramp=fedramp)
            return self._token


class ExternalTokens:
    """Tokens of ChatGPT that another program stores. They are used unchanged, because only that program can refresh them.

    Attributes:
        headers: Headers that requests need besides the token.
        plan: The name of the ChatGPT plan, if it is known.
        base_url: The base URL, used if the provider's table names no server.
        refused_hint: How to recover if a server refuses it.
    """

    base_url = CHATGPT_URL
    refused_hint = "The program that stored the login must store a new token. Or run `codex-framework login`."

    def __init__(self, login: StoredLogin, storage: LoginStorage, policy: LoginPolicy) -> None:
        self._login = login
        self._storage = storage
        self._policy = policy
        self.plan = plan(login.id_claims)
        self.headers = _headers(login.account, is_fedramp=is_fedramp(login.id_claims))

    async def token(self, *, refused: str = "") -> str:
        """Return the token. A refused one is looked up again.

        Raises:
            LoginError: The login cannot be read any more.
        """
        if refused and refused == self._login.access_token:
            stored = await asyncio.to_thread(self._storage.load)
            if stored is not None and stored.access_token and stored.account == self._login.account:
                self._policy.check(stored)
                self._login = stored
        return self._login.access_token


class AgentTokens:
    """Authorizes the requests of an agent identity by signing each. The task is registered with the first request.

    Attributes:
        scheme: The word before the token in the header ``authorization``.
        headers: Headers that requests need besides the token, once it has been used.
        plan: The name of the ChatGPT plan, if it is known. It is known once the login has been used.
        base_url: The base URL, used if the provider's table names no server.
        refused_hint: How to recover if a server refuses it.
    """

    scheme = "AgentAssertion"
    base_url = CHATGPT_URL
    refused_hint = "The agent identity has expired or was revoked. Create a new access token."

    def __init__(self, given: str | Mapping[str, Any], env: Mapping[str, str], policy: LoginPolicy) -> None:
        self._given = given
        self._env = env
        self._policy = policy
        self._lock = asyncio.Lock()
        self._identity: AgentIdentity | None = None
        self.plan: str | None = None
        self.headers: dict[str, str] = {}

    async def token(self, *, refused: str = "") -> str:
        """Return the assertion for one request.

        Args:
            refused: An assertion that a server has just refused. Then a new task is registered, because this one may have ended.

        Raises:
            LoginError: The identity makes no sense or is not permitted, or no task can be registered.
        """
        async with self._lock:
            if self._identity is None:
                found = await asyncio.to_thread(identity_of, self._given, self._env)
                self._policy.check_account(found.account)
                self._identity, self.plan = found, found.plan
                self.headers = _headers(found.account, is_fedramp=found.is_fedramp)
            if not self._identity.task or refused:
                self._identity = await asyncio.to_thread(register_task, self._identity, self._env)
            return assertion(self._identity)


def _headers(account: str | None, *, is_fedramp: bool) -> dict[str, str]:
    """Return the headers that name the workspace of a token, and its routing."""
    headers = {"chatgpt-account-id": account} if account else {}
    return {**headers, "x-openai-fedramp": "true"} if is_fedramp else headers
