"""A stored login: the content of ``auth.json``, in Codex's form."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from codex_framework.contract.value import Value, field
from codex_lib_model_client.login.claims import account_id, claims_of, expires_at

__all__ = ["LoginKind", "StoredLogin", "timestamp"]

LoginKind = Literal["apikey", "chatgpt", "external", "agent", "personal", "other"]
"""``external``: tokens of ChatGPT that another program stores and replaces."""

_MODES: Mapping[Any, LoginKind] = {
    "apikey": "apikey",
    "chatgpt": "chatgpt",
    "chatgptAuthTokens": "external",
    "agentIdentity": "agent",
}
"""The kinds by ``auth_mode``, Codex's word."""

_REFRESH_DAYS = 8
"""Days after which tokens without an expiry are refreshed (Codex's)."""
_EARLY_S = 300.0
"""Seconds before its expiry at which an access token is replaced (Codex's)."""


class StoredLogin(Value):
    """The content of ``auth.json``.

    Attributes:
        content: The file's JSON object, with all fields that are unknown here. It contains secrets.
    """

    content: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of_key(cls, key: str) -> StoredLogin:
        """Return the login with an API key."""
        return cls({"auth_mode": "apikey", "OPENAI_API_KEY": key})

    @classmethod
    def of_personal_token(cls, token: str) -> StoredLogin:
        """Return the login with a personal access token."""
        return cls({"OPENAI_API_KEY": None, "personal_access_token": token})

    @classmethod
    def of_agent(cls, token: str) -> StoredLogin:
        """Return the login with the token of an agent identity."""
        return cls({"auth_mode": "agentIdentity", "OPENAI_API_KEY": None, "agent_identity": token})

    @classmethod
    def of_chatgpt(cls, tokens: Mapping[str, Any]) -> StoredLogin:
        """Return the login with new tokens of ChatGPT: ``id_token``, ``access_token``, ``refresh_token`` and more."""
        return cls(
            {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": dict(tokens), "last_refresh": timestamp()}
        )

    @property
    def kind(self) -> LoginKind:
        """The kind of login. Without ``auth_mode``, an API key precedes tokens, as in Codex."""
        mode = self.content.get("auth_mode")
        if isinstance(mode, str) and mode in _MODES:
            return _MODES[mode]
        if self.content.get("personal_access_token"):
            return "personal"
        if mode is not None:
            return "other"
        if self.api_key:
            return "apikey"
        return "chatgpt" if self.content.get("tokens") else "other"

    @property
    def api_key(self) -> str:
        """The API key; empty for other logins."""
        return _text(self.content.get("OPENAI_API_KEY"))

    @property
    def personal_token(self) -> str:
        """The personal access token; empty for other logins."""
        return _text(self.content.get("personal_access_token"))

    @property
    def agent_identity(self) -> str | Mapping[str, Any]:
        """The token of an agent identity, or the record with which Codex stores one without a token; empty for other logins."""
        given = self.content.get("agent_identity")
        return given if isinstance(given, dict) else _text(given)

    @property
    def access_token(self) -> str:
        """ChatGPT's access token; empty for other logins."""
        return _text(self._tokens.get("access_token"))

    @property
    def refresh_token(self) -> str:
        """ChatGPT's refresh token; empty for other logins."""
        return _text(self._tokens.get("refresh_token"))

    @property
    def id_claims(self) -> Mapping[str, Any]:
        """The claims of the id token."""
        return claims_of(_text(self._tokens.get("id_token")))

    @property
    def account(self) -> str | None:
        """The id of the ChatGPT workspace."""
        return _text(self._tokens.get("account_id")) or account_id(self.id_claims)

    @property
    def issuer(self) -> str:
        """The URL of the issuer that gave the tokens. Empty if it is not stored."""
        return _text(self._provenance.get("issuer"))

    @property
    def client_id(self) -> str:
        """The client that the tokens were given to. Empty if it is not stored."""
        return _text(self._provenance.get("client_id"))

    def is_stale(self) -> bool:
        """Return whether the access token should be replaced before it is used."""
        expiry = expires_at(claims_of(self.access_token))
        if expiry is not None:
            return expiry <= time.time() + _EARLY_S
        return time.time() - self.refreshed_at > _REFRESH_DAYS * 86_400

    @property
    def refreshed_at(self) -> float:
        """When the tokens were obtained or refreshed last, in seconds since the epoch. 0 if it is not stored."""
        try:
            last = datetime.fromisoformat(_text(self.content.get("last_refresh")))
        except ValueError:
            return 0.0
        return (last if last.tzinfo is not None else last.replace(tzinfo=UTC)).timestamp()

    def with_tokens(self, tokens: Mapping[str, Any]) -> StoredLogin:
        """Return the login after a refresh. Fields that the issuer did not send are kept."""
        given = {
            name: tokens[name] for name in ("id_token", "access_token", "refresh_token") if _text(tokens.get(name))
        }
        return StoredLogin({**self.content, "tokens": {**self._tokens, **given}, "last_refresh": timestamp()})

    @property
    def _tokens(self) -> Mapping[str, Any]:
        tokens = self.content.get("tokens")
        return tokens if isinstance(tokens, dict) else {}

    @property
    def _provenance(self) -> Mapping[str, Any]:
        provenance = self._tokens.get("oauth_provenance")
        return provenance if isinstance(provenance, dict) else {}


def timestamp() -> str:
    """Return the current time as Codex writes it, with nanoseconds."""
    now = time.time_ns()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now // 10**9))}.{now % 10**9:09d}Z"


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
