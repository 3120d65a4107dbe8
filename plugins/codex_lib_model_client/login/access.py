"""The login that requests to OpenAI use: of the environment, or the stored one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_lib_model_client.login.agent_identity import is_identity_token
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage, store_mode
from codex_lib_model_client.login.tokens import AgentTokens, ChatGptTokens, ExternalTokens, PersonalToken

__all__ = ["Login", "access_token", "find_login", "home_of"]

Login = str | ChatGptTokens | ExternalTokens | AgentTokens | PersonalToken
"""An API key, or a source of tokens."""


_WORKLOAD = ("OPENAI_FEDERATION_RULE_ID", "OPENAI_IDENTITY_TOKEN_FILE")
"""The variables with which Codex exchanges a token of the environment for one of OpenAI, before it looks for any other login."""


def home_of(env: Mapping[str, str]) -> Path:
    """Return ``$CODEX_HOME``, which need not exist."""
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME") or Path.home()) / ".codex")


def find_login(env: Mapping[str, str], config: Mapping[str, Any]) -> Login | None:
    """Return the login to use, or None without a login.

    The first of these is used: ``CODEX_API_KEY``, ``CODEX_ACCESS_TOKEN``, the stored login, ``OPENAI_API_KEY``. Codex does not
    use the last source.

    Raises:
        LoginError: It cannot be read, is of an unsupported kind, or is not permitted.
    """
    policy = LoginPolicy.of(config)
    if key := env.get("CODEX_API_KEY", "").strip():
        policy.check_key()
        return key
    if token := env.get("CODEX_ACCESS_TOKEN", "").strip():
        return access_token(token, env, policy)
    _check_no_workload(env)
    storage = LoginStorage(home_of(env), store_mode(config))
    stored = storage.load()
    if stored is not None:
        policy.check(stored)
        if stored.kind == "apikey" and stored.api_key:
            return stored.api_key
        if stored.kind == "chatgpt" and (stored.access_token or stored.refresh_token):
            return ChatGptTokens(stored, storage, env, policy)
        if stored.kind == "external" and stored.access_token:
            return ExternalTokens(stored, storage, policy)
        given = stored.agent_identity
        if stored.kind == "agent" and (is_identity_token(given) if isinstance(given, str) else given):
            return AgentTokens(given, env, policy)
        if stored.kind == "personal":
            return access_token(stored.personal_token, env, policy)
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


def access_token(token: str, env: Mapping[str, str], policy: LoginPolicy) -> PersonalToken | AgentTokens:
    """Return the source for an access token of the user: a personal one, or one with an agent identity.

    Raises:
        LoginError: The token is of another kind, or is not permitted.
    """
    policy.check_tokens()
    if token.startswith("at-"):
        return PersonalToken(token, env, policy)
    if is_identity_token(token):
        return AgentTokens(token, env, policy)
    raise LoginError(
        "the access token is of an unsupported kind: it is neither a personal access token, which begins with `at-`, nor a JWT with"
        " an agent identity",
        reason="unsupported",
        hint="Create an access token, or log in with `codex-framework login`.",
    )


def _check_no_workload(env: Mapping[str, str]) -> None:
    """Refuse to use another login where the environment asks for a workload identity, as Codex would use that one.

    Raises:
        LoginError: It does.
    """
    named = [name for name in _WORKLOAD if env.get(name, "").strip()]
    if named:
        raise LoginError(
            f"a workload identity is unsupported, and {' and '.join(named)} of the environment asks for one",
            reason="unsupported",
            hint="Set CODEX_API_KEY or CODEX_ACCESS_TOKEN, or unset these variables.",
        )
