"""The parts that both logins with ChatGPT share: the issuer, PKCE, and the exchange of a code for tokens."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from codex_framework import Value
from codex_framework.contract.value import field
from codex_framework.toolkit.terminal_text import one_line
from codex_lib_model_client.login.claims import account_id, claims_of
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import Reply, protocol, request
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["Issuer", "Proof", "exchanged", "new_proof", "random_text", "refusal"]

Echo = Callable[[str], None]


class Issuer(Value):
    """The issuer of tokens.

    Attributes:
        url: The base URL, without a slash at its end.
        client_id: The id of this client at the issuer.
    """

    url: str
    client_id: str


class Proof(Value):
    """A proof key for a code exchange (PKCE).

    Attributes:
        verifier: The secret that is sent with the code.
        challenge: Its SHA-256, which is sent beforehand.
    """

    verifier: str = field(repr=False)
    challenge: str


def new_proof() -> Proof:
    """Return a new proof key."""
    verifier = random_text(64)
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return Proof(verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"))


def random_text(size: int) -> str:
    """Return ``size`` random bytes as URL-safe text."""
    return secrets.token_urlsafe(size)


def exchanged(issuer: Issuer, code: str, verifier: str, redirect_uri: str, policy: LoginPolicy) -> StoredLogin:
    """Exchange a code for tokens, and return the login with them.

    Raises:
        LoginError: The issuer refuses, its reply makes no sense, or the workspace is not permitted.
    """
    url = f"{issuer.url}/oauth/token"
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "client_id": issuer.client_id,
        "code_verifier": verifier,
    }
    reply = request("POST", url, form=form)
    if reply.status != 200:
        raise refusal("Token exchange failed", reply)
    tokens = {name: reply.text(name) for name in ("id_token", "access_token", "refresh_token")}
    missing = [name for name, token in tokens.items() if not token]
    if missing:
        raise protocol(url, f"it sent no {missing[0]}")
    claims = claims_of(tokens["id_token"])
    if not claims:
        raise protocol(url, "its id_token cannot be read")
    account = account_id(claims)
    policy.check_account(account)
    return StoredLogin.of_chatgpt(_token_record(tokens, issuer, account))


def _token_record(tokens: Mapping[str, Any], issuer: Issuer, account: str | None) -> dict[str, Any]:
    """Return the tokens as Codex stores them."""
    return {
        **tokens,
        "oauth_provenance": {"issuer": issuer.url, "client_id": issuer.client_id},
        "login_owner_id": random_text(32),
        "account_id": account,
    }


def refusal(what: str, reply: Reply) -> LoginError:
    """Return the error for a refused request."""
    shown = one_line(reply.text("error_description") or reply.code)
    fact = f"{what}: the login server answered with status {reply.status}" + (f": {shown}" if shown else "")
    return LoginError(fact, reason="refused", hint="Run the login again.")
