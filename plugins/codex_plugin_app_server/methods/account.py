"""The account at the model provider: log in with a key or with ChatGPT, log out, who is logged in."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from uuid import UUID

from codex_lib_model_client.login.claims import email
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage, store_mode
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.logins import auth_mode, issuer_of, plan_type
from codex_plugin_app_server.notifications import rate_limits_json
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


def _storage(call: Call) -> LoginStorage:
    config = call.server.kernel.config
    return LoginStorage(config.codex_home, store_mode(config.tables))


def _policy(call: Call) -> LoginPolicy:
    return LoginPolicy.of(call.server.kernel.config.tables)


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
        return {"type": "chatgpt", "email": email(stored.id_claims) or None, "planType": plan_type(stored)}
    return {"type": "apiKey"} if stored.kind == "apikey" else None


@table.method("getAuthStatus", "GetAuthStatusParams", "GetAuthStatusResponse", stability="v1")
async def read_auth_status(call: Call) -> Json:
    """Tell how the user is logged in, and on request with what."""
    needed = call.server.kernel.settings().provider.requires_openai_auth
    stored = await asyncio.to_thread(_storage(call).load) if needed else None
    token = None if stored is None else stored.api_key if stored.kind == "apikey" else stored.access_token
    return {
        "authMethod": None if stored is None else auth_mode(stored),
        "authToken": token if call.params.get("includeToken") else None,
        "requiresOpenaiAuth": needed,
    }


@table.method("account/login/start", "LoginAccountParams", "LoginAccountResponse")
async def start_login(call: Call) -> Json:
    """Log in with an API key, or begin a login with ChatGPT, in a browser or with a device code."""
    match call.params["type"]:
        case "apiKey":
            return await _log_in_by_key(call)
        case "chatgpt":
            _check_tokens(call)
            issuer = issuer_of(os.environ)
            login_id, address = await call.server.logins.begin_in_browser(
                issuer, _storage(call), _policy(call), call.client.name
            )
            return {"type": "chatgpt", "loginId": login_id, "authUrl": address}
        case "chatgptDeviceCode":
            _check_tokens(call)
            login_id, page, code = await call.server.logins.begin_with_code(
                issuer_of(os.environ), _storage(call), _policy(call)
            )
            return {"type": "chatgptDeviceCode", "loginId": login_id, "verificationUrl": page, "userCode": code}
        case other:
            raise RpcError(f"logins of the type {other} are not supported")


def _check_tokens(call: Call) -> None:
    if _policy(call).method == "api":
        raise RpcError("ChatGPT login is disabled. Use API key login instead.")


async def _log_in_by_key(call: Call) -> Json:
    if _policy(call).method == "chatgpt":
        raise RpcError("API key login is disabled. Use ChatGPT login instead.")
    key = call.params["apiKey"].strip()
    if not key:
        raise RpcError("the API key is empty")
    await call.server.logins.end()
    login = StoredLogin.of_key(key)
    await asyncio.to_thread(_storage(call).save, login)
    call.then(lambda: call.server.logins.announce(None, login))
    return {"type": "apiKey"}


@table.method("account/login/cancel", "CancelLoginAccountParams", "CancelLoginAccountResponse")
async def cancel_login(call: Call) -> Json:
    """Cancel a login with ChatGPT that is under way."""
    given = call.params["loginId"]
    try:
        login_id = str(UUID(given))
    except ValueError:
        raise RpcError(f"invalid login id: {given}") from None
    return {"status": "canceled" if call.server.logins.cancel(login_id) else "notFound"}


@table.method("account/logout", None, "LogoutAccountResponse")
async def log_out(call: Call) -> Json:
    """Remove the stored login, and cancel a pending login."""
    await call.server.logins.end()
    await asyncio.to_thread(_storage(call).delete)
    updated = {"authMode": None, "planType": None, "reason": None}
    call.then(lambda: call.server.broadcast("account/updated", updated))
    return {}


@table.method("account/rateLimits/read", "GetAccountRateLimitsParams", "GetAccountRateLimitsResponse")
async def read_rate_limits(call: Call) -> Json:
    """Return the newest rate limits that the model's server has told."""
    limits = call.server.rate_limits
    if limits is None:
        stored = await asyncio.to_thread(_storage(call).load)
        if stored is None or stored.kind == "apikey":
            whose = "codex account" if stored is None else "chatgpt"
            raise RpcError(f"{whose} authentication required to read rate limits")
        limits = rate_limits_json({})
    return {"rateLimits": limits, "rateLimitsByLimitId": None}
