"""The account at the model provider: log in with a key, log out, who is logged in."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from codex_lib_model_client.login.claims import email, plan
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage, store_mode
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.notifications import rate_limits_json
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_PLANS = ("free", "go", "plus", "pro", "team", "business", "enterprise", "edu")


def _storage(call: Call) -> LoginStorage:
    config = call.server.kernel.config
    return LoginStorage(config.codex_home, store_mode(config.tables))


@table.method("account/read", "GetAccountParams", "GetAccountResponse")
async def read_account(call: Call) -> Json:
    """Tell who is logged in."""
    provider = call.server.kernel.settings().provider
    stored = await asyncio.to_thread(_storage(call).load)
    return {
        "account": _account_json(stored),
        "userId": None,
        "requiresOpenaiAuth": provider.requires_openai_auth,
        "workspaceRouting": None,
    }


def _account_json(stored: StoredLogin | None) -> dict[str, Any] | None:
    if stored is None:
        return {"type": "apiKey"} if os.environ.get("CODEX_API_KEY", "").strip() else None
    if stored.kind in ("chatgpt", "external"):
        name = str(plan(stored.id_claims) or "unknown").lower()
        return {
            "type": "chatgpt",
            "email": email(stored.id_claims) or None,
            "planType": name if name in _PLANS else "unknown",
        }
    return {"type": "apiKey"} if stored.kind == "apikey" else None


@table.method("account/login/start", "LoginAccountParams", "LoginAccountResponse")
async def start_login(call: Call) -> Json:
    """Log in with an API key."""
    if call.params["type"] != "apiKey":
        raise RpcError(f"logins of the type {call.params['type']} are not supported; run `codex-framework login`")
    key = call.params["apiKey"].strip()
    if not key:
        raise RpcError("the API key is empty")
    LoginPolicy.of(call.server.kernel.config.tables).check_key()
    await asyncio.to_thread(_storage(call).save, StoredLogin.of_key(key))
    completed = {"loginId": None, "success": True, "error": None, "onboardingEntrypoint": None}
    call.then(lambda: call.server.broadcast("account/login/completed", completed))
    call.then(lambda: call.server.broadcast("account/updated", {"authMode": "apikey", "planType": None}))
    return {"type": "apiKey"}


@table.method("account/logout", None, "LogoutAccountResponse")
async def log_out(call: Call) -> Json:
    """Remove the stored login."""
    await asyncio.to_thread(_storage(call).delete)
    call.then(lambda: call.server.broadcast("account/updated", {"authMode": None, "planType": None}))
    return {}


@table.method("account/rateLimits/read", "GetAccountRateLimitsParams", "GetAccountRateLimitsResponse")
async def read_rate_limits(call: Call) -> Json:
    """Return the newest rate limits that the model's server has told."""
    limits = call.server.rate_limits
    if limits is None:
        if await asyncio.to_thread(_storage(call).load) is None:
            raise RpcError("codex account authentication required to read rate limits")
        limits = rate_limits_json({})
    return {"rateLimits": limits, "rateLimitsByLimitId": None}
