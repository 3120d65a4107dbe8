"""Requests to the token endpoint: for a code, a refresh token, the client's own credentials, or an identity token."""

from __future__ import annotations

import base64
import json
import math
import time
import uuid
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.urls import shown_url
from codex_framework.toolkit.installing import install_command
from codex_plugin_mcp.oauth.credentials import StoredTokens, now_ms
from codex_plugin_mcp.oauth.discovery import AuthorizationServer, Protection
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.registration import Client, configured_client
from codex_plugin_mcp.oauth.settings import OAuthSettings
from codex_plugin_mcp.oauth.web import Answer, Web

__all__ = ["RefreshRejected", "from_code", "from_settings", "refreshed"]

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
_ASSERTION_S = 300
_YEAR_S = 366 * 86_400


class RefreshRejected(LoginFailed):
    """The refresh token is not valid any more. A new login is required."""


async def from_code(
    web: Web, tokens: StoredTokens, client: Client, *, code: str, verifier: str, redirect_uri: str
) -> StoredTokens:
    """Exchange the code of an authorization for tokens.

    Args:
        tokens: The known data: server, issuer, endpoint, resource.
    """
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return await _request(web, tokens, client, form)


async def refreshed(web: Web, tokens: StoredTokens) -> StoredTokens:
    """Exchange the refresh token for new tokens.

    Raises:
        RefreshRejected: The authorization server does not accept the refresh token.
        LoginFailed: It cannot be reached, or its answer cannot be used.
    """
    assert tokens.refresh_token is not None
    client = Client(tokens.client_id, tokens.client_secret, tokens.auth_method)
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
    return await _request(web, tokens, client, form, rejected=RefreshRejected)


async def from_settings(
    web: Web, tokens: StoredTokens, protection: Protection, settings: OAuthSettings, scopes: tuple[str, ...] | None
) -> StoredTokens:
    """Obtain tokens without a user: with the client's own credentials or with an identity token.

    Raises:
        LoginFailed: The settings are incomplete, or a server refuses.
    """
    client = configured_client(protection.server, settings)
    if settings.grant == "identity_assertion":
        assertion = await _identity_assertion(web, protection, settings, scopes)
        form = {"grant_type": _JWT_BEARER, "assertion": assertion}
    else:
        form = {"grant_type": "client_credentials"}
    if scopes:
        form["scope"] = " ".join(scopes)
    if settings.private_key is not None:
        form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        form["client_assertion"] = _client_assertion(protection.server, client.id, settings)
        client = Client(client.id)
    return await _request(web, tokens, client, form)


async def _request(
    web: Web,
    tokens: StoredTokens,
    client: Client,
    form: dict[str, str],
    *,
    rejected: type[LoginFailed] = LoginFailed,
) -> StoredTokens:
    assert tokens.token_endpoint is not None
    if tokens.resource is not None:
        form["resource"] = tokens.resource
    authorization = client.authenticate(form)
    answer = await web.post_form(tokens.token_endpoint, form, "the token endpoint", authorization)
    if answer.status != 200:
        permanent = 400 <= answer.status < 500 and answer.status not in (408, 429)
        error = rejected if permanent else LoginFailed
        raise error(f"the authorization server refused to issue a token: {answer.problem}", kind="refused")
    return _read_tokens(
        answer, tokens.evolve(client_id=client.id, client_secret=client.secret, auth_method=client.auth_method)
    )


def _read_tokens(answer: Answer, tokens: StoredTokens) -> StoredTokens:
    """Return the tokens of an answer. Missing fields keep their values."""
    content = answer.content or {}
    access, kind = content.get("access_token"), content.get("token_type")
    if not isinstance(access, str) or not access or not access.isascii() or not access.isprintable():
        raise LoginFailed("the authorization server issued no access token", kind="protocol")
    if isinstance(kind, str) and kind.lower() not in ("", "bearer"):
        raise LoginFailed(f"the authorization server issued a token of the type {kind[:40]!r}", kind="protocol")
    refresh, scope = content.get("refresh_token"), content.get("scope")
    return tokens.evolve(
        access_token=access,
        expires_at=_expiry(content),
        refresh_token=refresh if isinstance(refresh, str) and refresh else tokens.refresh_token,
        scopes=tuple(scope.split()) if isinstance(scope, str) and scope.strip() else tokens.scopes,
        wanted_scopes=(),
    )


def _expiry(content: Mapping[str, Any]) -> int | None:
    """Return when a token expires, in milliseconds since 1970. Some servers write the number as a text."""
    value = content.get("expires_in")
    try:
        seconds = float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    return now_ms() + int(min(seconds, _YEAR_S) * 1000)


# Without a user


async def _identity_assertion(
    web: Web, protection: Protection, settings: OAuthSettings, scopes: tuple[str, ...] | None
) -> str:
    """Exchange the user's identity token for an assertion to the authorization server (RFC 8693)."""
    if not settings.identity_token or not settings.identity_endpoint:
        raise LoginFailed(
            "oauth.identity_token_env_var and oauth.identity_endpoint are required for identity_assertion",
            hint="Set both in the server's table.",
        )
    form = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": settings.identity_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": protection.server.issuer,
    }
    if protection.resource is not None:
        form["resource"] = protection.resource
    if settings.identity_client_id is not None:
        form["client_id"] = settings.identity_client_id
    if scopes:
        form["scope"] = " ".join(scopes)
    answer = await web.post_form(settings.identity_endpoint, form, "the endpoint of the identity provider", None)
    assertion = (answer.content or {}).get("access_token")
    if answer.status != 200 or not isinstance(assertion, str):
        raise LoginFailed(
            f"the identity provider {shown_url(settings.identity_endpoint)} refused the exchange: {answer.problem}",
            kind="refused",
        )
    return assertion


def _client_assertion(server: AuthorizationServer, client_id: str, settings: OAuthSettings) -> str:
    """Return a signed assertion that identifies the client (RFC 7523)."""
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": server.issuer,
        "iat": now,
        "exp": now + _ASSERTION_S,
        "jti": str(uuid.uuid4()),
    }
    head = {"alg": settings.signing_algorithm, "typ": "JWT"}
    signed = f"{_encode_form(json.dumps(head).encode())}.{_encode_form(json.dumps(claims).encode())}"
    assert settings.private_key is not None
    signature = _signature(signed.encode(), settings.private_key, settings.signing_algorithm)
    return f"{signed}.{_encode_form(signature)}"


def _signature(data: bytes, key_text: str, algorithm: str) -> bytes:
    """Sign data with ES256 or RS256."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise LoginFailed(
            "the package cryptography is required for oauth.private_key",
            hint=f"Install it: {install_command('codex-framework[mcp]')}",
        ) from error
    try:
        key = load_pem_private_key(key_text.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise LoginFailed("oauth.private_key is not a private key in PEM without a password") from error
    if algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1":
        r, s = decode_dss_signature(key.sign(data, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    if algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), SHA256())
    raise LoginFailed(
        f"oauth.private_key cannot sign with {algorithm!r}",
        hint="Use a P-256 key with ES256, or an RSA key with RS256.",
    )


def _encode_form(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
