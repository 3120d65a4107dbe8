"""Requests to the issuer of ChatGPT's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from codex_framework.contract.urls import shown_url
from codex_framework.contract.value import Value, field
from codex_lib_model_client.login.errors import LoginError

__all__ = [
    "CLIENT_ID",
    "DEFAULT_ISSUER",
    "Reply",
    "agent_accounts",
    "agent_keys",
    "api_accounts",
    "check_url",
    "protocol",
    "refresh",
    "request",
    "revoke",
    "whoami",
]

DEFAULT_ISSUER = "https://auth.openai.com"
CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
"""The public id of the Codex command line at that issuer."""

_REFRESH_URL = "CODEX_REFRESH_TOKEN_URL_OVERRIDE"
_REVOKE_URL = "CODEX_REVOKE_TOKEN_URL_OVERRIDE"
_AUTHAPI_URL = "CODEX_AUTHAPI_BASE_URL"
_AGENT_AUTHAPI_URL = "CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL"
_AGENT_KEYS_URL = "CODEX_AGENT_IDENTITY_JWKS_BASE_URL"
_TIMEOUT_S = 30.0
_MAX_BYTES = 1024 * 1024
_AGAIN = "Run `codex-framework logout`, then `codex-framework login`."

_REFUSALS = {
    "refresh_token_expired": ("expired", "your refresh token has expired"),
    "refresh_token_reused": ("reused", "your refresh token was already used"),
    "refresh_token_invalidated": ("revoked", "your refresh token was revoked"),
}
"""The issuer's codes for refresh tokens that are of no use any more, with Codex's words for them."""


class Reply(Value):
    """The reply of an issuer.

    Attributes:
        status: The status code.
        content: The JSON object of the body. Empty if it is not a JSON object. It may contain secrets.
    """

    status: int
    content: Mapping[str, Any] = field(repr=False)

    @property
    def code(self) -> str:
        """The error's code, in any of the places where issuers put it. Empty if the issuer sent no code."""
        error = self.content.get("error")
        found = error.get("code") if isinstance(error, dict) else error
        return _word(found) or _word(self.content.get("code"))

    def text(self, name: str) -> str:
        """Return a text of the body. Empty if it is missing or no text."""
        value = self.content.get(name)
        return value if isinstance(value, str) else ""


def request(
    method: str,
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    bearer: str = "",
    timeout_s: float = _TIMEOUT_S,
) -> Reply:
    """Send a request to an issuer. Redirects are not followed, so that no credential goes elsewhere. Blocks: not for an event loop.

    Args:
        timeout_s: Time limit for everything in seconds.

    Raises:
        LoginError: The URL is not one of https or of this machine, the issuer cannot be reached or does not answer.
    """
    from codex_lib_model_client.https import httpx_module
    from codex_lib_model_client.small_replies import fetch, run_alone

    httpx = httpx_module()
    check_url(url)
    headers = {"accept": "application/json", **({"authorization": f"Bearer {bearer}"} if bearer else {})}
    asked = fetch(
        method,
        url,
        timeout_s=timeout_s,
        max_bytes=_MAX_BYTES,
        headers=headers,
        form=form,
        body=body,
        local=_is_local(url),
    )
    try:
        reply = run_alone(asked)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise LoginError(
            f"the login server {_host(url)} cannot be reached ({type(error).__name__})",
            reason="unreachable",
            hint="Check the network and the proxy settings, then try again.",
            retryable=True,
        ) from None  # the error's text may quote what was sent
    return Reply(reply.status, _content(reply.data or b""))


def _content(data: bytes) -> Mapping[str, Any]:
    import json

    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def check_url(url: str) -> None:
    """Check that credentials may be sent to a URL.

    Raises:
        LoginError: It is not a URL, or it is neither https nor on this machine.
    """
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and _is_local(url))
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0) and url.isascii() and " " not in url
    except ValueError:
        secure = valid = False
    if not secure or not valid:
        raise LoginError(
            f"{shown_url(url)} cannot be used for a login: it is not an https URL",
            reason="protocol",
            hint="Name an issuer with https. Only one on this machine may have http.",
        )


def refresh(
    refresh_token: str, env: Mapping[str, str], *, issuer: str = "", client_id: str = "", reason: str
) -> Mapping[str, Any]:
    """Return new tokens for a refresh token, which is of no use afterwards.

    Args:
        issuer: The issuer that gave the token. Empty means OpenAI's.
        reason: Why it is refreshed, which the issuer is told.

    Raises:
        LoginError: The refresh token has expired, was used before or was revoked, or the issuer does not answer as it should.
    """
    url = env.get(_REFRESH_URL, "").strip() or f"{issuer or DEFAULT_ISSUER}/oauth/token"
    asked = {
        "client_id": client_id or CLIENT_ID,
        "grant_type": "refresh_token",
        "refresh_reason": reason,
        "refresh_token": refresh_token,
    }
    reply = request("POST", url, body=asked)
    if reply.status == 200 and reply.text("access_token"):
        return reply.content
    if reply.status in (400, 401, 403):
        word, why = _REFUSALS.get(reply.code, ("refused", ""))
        because = f" because {why}" if why else ""
        fact = f"Your access token could not be refreshed{because}. Please log out and sign in again."
        raise LoginError(fact, reason=word, hint=_AGAIN)
    if reply.status == 200:
        raise protocol(url, "it sent no access token")
    raise LoginError(
        f"the login server {_host(url)} refused to refresh the login with status {reply.status}",
        reason="unreachable",
        hint="Try again later.",
        retryable=reply.status == 429 or reply.status >= 500,
    )


def revoke(token: str, env: Mapping[str, str], *, kind: str, issuer: str = "", client_id: str = "") -> bool:
    """Tell the issuer that a token must not be used any more. Returns whether the issuer agreed."""
    url = env.get(_REVOKE_URL, "").strip() or f"{issuer or DEFAULT_ISSUER}/oauth/revoke"
    asked = {"token": token, "token_type_hint": kind, "client_id": client_id or CLIENT_ID}
    try:
        return request("POST", url, body=asked, timeout_s=10.0).status == 200
    except LoginError:
        return False


def whoami(token: str, env: Mapping[str, str]) -> Reply:
    """Return the account of a personal access token: ``chatgpt_account_id``, ``email``, ``chatgpt_plan_type``.

    Raises:
        LoginError: The token is refused, or the issuer's reply is invalid.
    """
    url = f"{api_accounts(env)}/v1/user-auth-credential/whoami"
    reply = request("GET", url, bearer=token)
    if reply.status in (401, 403):
        fact = "the access token is refused: it has expired or was revoked"
        raise LoginError(
            fact, reason="refused", hint="Create a new one and run `codex-framework login --with-access-token`."
        )
    if reply.status != 200:
        fact = f"personal access token metadata request failed with status {reply.status}"
        raise LoginError(fact, reason="unreachable", hint="Try again later.", retryable=reply.status >= 500)
    if not reply.text("chatgpt_account_id"):
        raise protocol(url, "it did not say which account an access token is for")
    return reply


def api_accounts(env: Mapping[str, str]) -> str:
    """Return the base URL of the accounts API."""
    return env.get(_AUTHAPI_URL, "").strip().rstrip("/") or f"{DEFAULT_ISSUER}/api/accounts"


def agent_accounts(env: Mapping[str, str]) -> str:
    """Return the base URL of the API that knows the tasks of agents."""
    return env.get(_AGENT_AUTHAPI_URL, "").strip().rstrip("/") or f"{DEFAULT_ISSUER}/api/accounts"


def agent_keys(env: Mapping[str, str]) -> str:
    """Return the URL of the keys with which agent identities are signed."""
    base = env.get(_AGENT_KEYS_URL, "").strip().rstrip("/") or "https://chatgpt.com/backend-api/wham"
    return f"{base}/agent-identities/jwks"


def protocol(url: str, what: str) -> LoginError:
    """Return the error for a reply that makes no sense."""
    fact = f"the login server {_host(url)} replied with something unexpected: {what}"
    return LoginError(fact, reason="protocol", hint="Check the issuer, and whether a proxy changes its replies.")


def _is_local(url: str) -> bool:
    return (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or shown_url(url)


def _word(value: Any) -> str:
    return value if isinstance(value, str) and value.isascii() and value.isprintable() and len(value) < 100 else ""
