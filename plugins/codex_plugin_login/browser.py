"""The login with ChatGPT in the browser: an authorization code with PKCE, which comes back over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from codex_lib_model_client.browsers import open_in_browser
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage
from codex_plugin_login.callback import PORTS, CallbackServer
from codex_plugin_login.flow import Issuer, Proof, exchanged, new_proof, random_text

__all__ = ["browser_login"]

_SCOPE = "openid profile email offline_access api.connectors.read api.connectors.invoke"


async def browser_login(
    issuer: Issuer,
    storage: LoginStorage,
    policy: LoginPolicy,
    *,
    echo: Callable[[str], None],
    environ: Mapping[str, str],
    timeout_s: float,
    ports: tuple[int, ...] = PORTS,
) -> None:
    """Log in with the browser, and store the tokens.

    Raises:
        LoginError: The login failed.
    """
    proof, state = new_proof(), random_text(32)

    async def finish(code: str) -> None:
        login = await asyncio.to_thread(exchanged, issuer, code, proof.verifier, server.redirect_uri, policy)
        await asyncio.to_thread(storage.save, login)

    async with CallbackServer(state, finish, ports) as server:
        address = _address(issuer, server.redirect_uri, proof, state, policy, environ)
        echo(
            f"Starting local login server on http://localhost:{server.port}.\n"
            f"If your browser did not open, navigate to this URL to authenticate:\n\n{address}\n\n"
            "On a remote or headless machine? Use `codex-framework login --device-auth` instead."
        )
        open_in_browser(address, environ)
        await server.wait(timeout_s)


def _address(
    issuer: Issuer, redirect_uri: str, proof: Proof, state: str, policy: LoginPolicy, environ: Mapping[str, str]
) -> str:
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
        "originator": environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_cli_rs",
    }
    if len(policy.workspaces) == 1:
        query["allowed_workspace_id"] = policy.workspaces[0]
    return f"{issuer.url}/oauth/authorize?{urlencode(query)}"
