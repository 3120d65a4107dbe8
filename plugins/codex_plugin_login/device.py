"""The login with ChatGPT with a device code, for a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable

from codex_lib_model_client.login.device import log_in_by_device, request_code
from codex_lib_model_client.login.flow import Issuer
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["device_login"]


def device_login(issuer: Issuer, policy: LoginPolicy, *, echo: Callable[[str], None], timeout_s: float) -> StoredLogin:
    """Return the login that the user permits with a device code.

    Raises:
        LoginError: The login failed.
    """
    code = request_code(issuer)
    echo(
        "Follow these steps to sign in with ChatGPT using device code authorization:\n\n"
        f"1. Open this link in your browser and sign in to your account\n   {code.address}\n\n"
        f"2. Enter this one-time code (expires in {max(1, round(timeout_s / 60))} minutes)\n   {code.code}\n\n"
        "Continue only if you started this login. If a website or another person gave you this code, cancel."
    )
    return log_in_by_device(issuer, policy, code, timeout_s, threading.Event())
