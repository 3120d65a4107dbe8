"""The login with ChatGPT with a device code, which the user enters in a browser anywhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import Reply, protocol, request
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_login.flow import Issuer, exchanged, refusal

__all__ = ["device_login", "pause_of"]

_PAUSE_S, _SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 0.1, 60.0


def device_login(issuer: Issuer, policy: LoginPolicy, *, echo: Callable[[str], None], timeout_s: float) -> StoredLogin:
    """Return the login that the user permits with a device code.

    Raises:
        LoginError: The login failed.
    """
    base = f"{issuer.url}/api/accounts/deviceauth"
    asked = request("POST", f"{base}/usercode", body={"client_id": issuer.client_id})
    if asked.status == 404:
        raise LoginError(
            "device code login is not enabled for this login server",
            reason="unsupported",
            hint="Use the browser login, or check the issuer's URL.",
        )
    device, code = asked.text("device_auth_id"), asked.text("user_code") or asked.text("usercode")
    if asked.status != 200:
        raise refusal("device code request failed", asked)
    if not device or not code.isprintable() or not code:
        raise protocol(f"{base}/usercode", "it sent no code")
    echo(
        "Follow these steps to sign in with ChatGPT using device code authorization:\n\n"
        f"1. Open this link in your browser and sign in to your account\n   {issuer.url}/codex/device\n\n"
        f"2. Enter this one-time code (expires in {max(1, round(timeout_s / 60))} minutes)\n   {code}\n\n"
        "Continue only if you started this login. If a website or another person gave you this code, cancel."
    )
    reply = _permitted(f"{base}/token", {"device_auth_id": device, "user_code": code}, pause_of(asked), timeout_s)
    given, verifier = reply.text("authorization_code"), reply.text("code_verifier")
    if not given or not verifier:
        raise protocol(f"{base}/token", "it sent no authorization code")
    return exchanged(issuer, given, verifier, f"{issuer.url}/deviceauth/callback", policy)


def _permitted(url: str, body: dict[str, str], pause_s: float, timeout_s: float) -> Reply:
    """Ask until the user has entered the code.

    Raises:
        LoginError: The issuer refuses, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            reply = request("POST", url, body=body)
        except LoginError as error:
            if not error.retryable:
                raise
            reply = None
        if reply is not None and reply.status == 200:
            return reply
        if reply is not None and reply.status not in (403, 404, 429) and reply.status < 500:
            raise refusal("device auth failed", reply)
        if time.monotonic() + pause_s > deadline:
            fact = f"device auth timed out after {timeout_s:g} seconds"
            raise LoginError(fact, reason="timeout", hint="Run the login again.")
        time.sleep(pause_s)


def pause_of(asked: Reply) -> float:
    """Return the pause between two questions in seconds.

    The issuer sends it as a text or a number. A value that is missing, negative or infinite counts as 5 seconds (Codex's default).
    """
    try:
        seconds = float(asked.content.get("interval", _PAUSE_S))
    except (TypeError, ValueError, OverflowError):
        return _PAUSE_S
    return min(max(seconds, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S) if 0 <= seconds < math.inf else _PAUSE_S
