"""The login that requests to OpenAI use: of the environment, or the stored one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.toolkit.login.errors import LoginError
from codex_framework.toolkit.login.policy import LoginPolicy
from codex_framework.toolkit.login.storage import LoginStorage, store_mode
from codex_framework.toolkit.login.tokens import ChatGptTokens, PersonalToken

__all__ = ["Login", "find_login", "home_of", "personal_access"]

Login = str | ChatGptTokens | PersonalToken
"""An API key, or a source of tokens."""


def home_of(env: Mapping[str, str]) -> Path:
    """Return ``$CODEX_HOME``, which need not exist."""
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME") or Path.home()) / ".codex")


def find_login(env: Mapping[str, str], config: Mapping[str, Any]) -> Login | None:
    """Return the login to use, or None if there is none.

    The first of these is used: ``CODEX_API_KEY``, ``CODEX_ACCESS_TOKEN``, the stored login, ``OPENAI_API_KEY``. Codex does not use the
    last one.

    Raises:
        LoginError: It cannot be read, is of an unsupported kind, or is not permitted.
    """
    policy = LoginPolicy.of(config)
    if key := env.get("CODEX_API_KEY", "").strip():
        policy.check_key()
        return key
    if token := env.get("CODEX_ACCESS_TOKEN", "").strip():
        return personal_access(token, env, policy)
    storage = LoginStorage(home_of(env), store_mode(config))
    stored = storage.load()
    if stored is not None:
        policy.check(stored)
        if stored.kind == "apikey" and stored.api_key:
            return stored.api_key
        if stored.kind == "chatgpt" and (stored.access_token or stored.refresh_token):
            return ChatGptTokens(stored, storage, env, policy)
        if stored.kind == "personal":
            return personal_access(stored.personal_token, env, policy)
    if key := env.get("OPENAI_API_KEY", "").strip():
        policy.check_key()
        return key
    if stored is not None and stored.content:
        mode = str(stored.content.get("auth_mode") or "unknown")[:40]
        raise LoginError(
            f"the stored login cannot be used: it is of the kind {mode!r}, and has no key or token for it",
            reason="unsupported",
            hint="Log in again with `codex-framework login`.",
        )
    return None


def personal_access(token: str, env: Mapping[str, str], policy: LoginPolicy) -> PersonalToken:
    """Return the source of a personal access token.

    Raises:
        LoginError: The token is of another kind, or is not permitted.
    """
    policy.check_tokens()
    if not token.startswith("at-"):
        raise LoginError(
            "the access token is of an unsupported kind: only personal access tokens, which begin with `at-`, are supported",
            reason="unsupported",
            hint="Create a personal access token, or log in with `codex-framework login`.",
        )
    return PersonalToken(token, env, policy)
