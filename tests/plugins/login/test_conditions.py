"""Conditions of a login of which each part matters: why it was denied, and whether anything is stored."""

from __future__ import annotations

from typing import Any

import pytest

from codex_lib_model_client.login.callback import _denied
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_login.status import status_text

ENTITLEMENT = "missing_codex_entitlement"


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ({"error": "access_denied", "error_description": ENTITLEMENT}, "This account is not currently authorized"),
        ({"error": "server_error", "error_description": ENTITLEMENT}, f"Sign-in could not be completed: {ENTITLEMENT}"),
        ({"error": "access_denied", "error_description": "no"}, "Sign-in could not be completed: no"),
        ({"error": "access_denied"}, "Sign-in could not be completed: access_denied"),
        ({}, "Missing authorization code."),
    ],
)
def test_a_denied_login_says_why(query: dict[str, str], fact: str) -> None:
    error = _denied(query)
    assert error.fact.startswith(fact)
    assert error.reason == "denied"


class Storage:
    def __init__(self, content: dict[str, Any] | None) -> None:
        self._content = content

    def load(self) -> StoredLogin | None:
        return None if self._content is None else StoredLogin(self._content)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, ""),
        ({"auth_mode": "agentIdentity", "agent_identity": "t"}, "Logged in using access token"),
        ({"auth_mode": "agentIdentity", "agent_identity": ""}, ""),
        ({"auth_mode": "apikey", "OPENAI_API_KEY": ""}, ""),
        ({"auth_mode": "chatgpt", "tokens": {}}, ""),
        ({"auth_mode": "chatgpt", "tokens": {"refresh_token": "r"}}, "Logged in using ChatGPT"),
    ],
)
def test_only_a_login_that_has_its_secret_is_one(content: dict[str, Any] | None, shown: str) -> None:
    storage: Any = Storage(content)
    assert status_text(storage, {}).split("\n")[0] == shown
