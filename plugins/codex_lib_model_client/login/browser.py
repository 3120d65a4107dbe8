"""The login with ChatGPT in the browser: an authorization code with PKCE, which comes back over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlencode

from codex_lib_model_client.login.callback import PORTS, CallbackServer
from codex_lib_model_client.login.flow import Issuer, Proof, exchanged, new_proof, random_text
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["log_in_by_browser"]

_SCOPE = "openid profile email offline_access api.connectors.read api.connectors.invoke"


async def log_in_by_browser(
    issuer: Issuer,
    policy: LoginPolicy,
    *,
    save: Callable[[StoredLogin], None],
    show: Callable[[str, int], None],
    originator: str,
    timeout_s: float,
    ports: tuple[int, ...] = PORTS,
) -> StoredLogin:
    """Log in with the browser, and return the login.

    Args:
        save: Stores the login, on a separate thread. The browser is told whether it succeeded.
        show: Called with the address for the browser, and the port on this machine that it redirects to.
        originator: The client's name for the issuer.

    Raises:
        LoginError: The login failed.
    """
    proof, state = new_proof(), random_text(32)
    done: list[StoredLogin] = []

    async def finish(code: str) -> None:
        login = await asyncio.to_thread(exchanged, issuer, code, proof.verifier, server.redirect_uri, policy)
        await asyncio.to_thread(save, login)
        done.append(login)

    async with CallbackServer(state, finish, ports) as server:
        show(_address(issuer, server.redirect_uri, proof, state, policy, originator), server.port)
        await server.wait(timeout_s)
    return done[0]


def _address(issuer: Issuer, redirect_uri: str, proof: Proof, state: str, policy: LoginPolicy, originator: str) -> str:
    query = {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": proof.challenge,
        "code_challenge_method": "S256",
        "state": state,
        "scope": _SCOPE,
        "id_token_add_organizations": "true",
        "codex_cli_simplified_flow": "true",
        "originator": originator,
    }
    if len(policy.workspaces) == 1:
        query["allowed_workspace_id"] = policy.workspaces[0]
    return f"{issuer.url}/oauth/authorize?{urlencode(query)}"
