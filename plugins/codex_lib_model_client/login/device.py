"""The login with ChatGPT with a device code, which the user enters in a browser anywhere."""

from __future__ import annotations

import math
import threading
import time

from codex_framework import Value
from codex_framework.contract.value import field
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.flow import Issuer, exchanged, refusal
from codex_lib_model_client.login.issuer import Reply, protocol, request
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["DeviceCode", "log_in_by_device", "pause_of", "request_code"]

_PAUSE_S, _SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 0.1, 60.0


class DeviceCode(Value):
    """A code for the user.

    Attributes:
        address: The page on which the user enters it.
        code: The code.
        device_id: The id of this login at the issuer.
        pause_s: How long to wait between two questions to the issuer.
    """

    address: str
    code: str
    device_id: str = field(repr=False)
    pause_s: float


def request_code(issuer: Issuer) -> DeviceCode:
    """Return a code that the issuer has made.

    Raises:
        LoginError: The issuer makes none.
    """
    url = f"{_base(issuer)}/usercode"
    asked = request("POST", url, body={"client_id": issuer.client_id})
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
        raise protocol(url, "it sent no code")
    return DeviceCode(f"{issuer.url}/codex/device", code, device, pause_of(asked))


def log_in_by_device(
    issuer: Issuer, policy: LoginPolicy, code: DeviceCode, timeout_s: float, cancelled: threading.Event
) -> StoredLogin:
    """Wait until the user has entered a code, and return the login.

    Raises:
        LoginError: The login failed or was cancelled.
    """
    url = f"{_base(issuer)}/token"
    reply = _poll_until_entered(
        url, {"device_auth_id": code.device_id, "user_code": code.code}, code.pause_s, timeout_s, cancelled
    )
    given, verifier = reply.text("authorization_code"), reply.text("code_verifier")
    if not given or not verifier:
        raise protocol(url, "it sent no authorization code")
    return exchanged(issuer, given, verifier, f"{issuer.url}/deviceauth/callback", policy)


def _base(issuer: Issuer) -> str:
    return f"{issuer.url}/api/accounts/deviceauth"


def _poll_until_entered(
    url: str, body: dict[str, str], pause_s: float, timeout_s: float, cancelled: threading.Event
) -> Reply:
    """Ask until the user has entered the code.

    Raises:
        LoginError: The issuer refuses, the time is over, or the login was cancelled.
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
        if cancelled.wait(pause_s):
            raise LoginError("Login was not completed", reason="denied", hint="Run the login again.")


def pause_of(asked: Reply) -> float:
    """Return the pause between two questions in seconds.

    The issuer sends it as a text or a number. A value that is missing, negative or infinite counts as 5 seconds (Codex's default).
    """
    try:
        seconds = float(asked.content.get("interval", _PAUSE_S))
    except (TypeError, ValueError, OverflowError):
        return _PAUSE_S
    return min(max(seconds, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S) if 0 <= seconds < math.inf else _PAUSE_S
