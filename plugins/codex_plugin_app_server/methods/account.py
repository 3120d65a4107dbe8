"""The account at the model provider."""

from __future__ import annotations

from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("account/read", "GetAccountParams", "GetAccountResponse")
async def read_account(call: Call) -> Json:
    """Tell who is logged in."""
    provider = call.server.kernel.settings().provider
    return {
        "account": None,
        "userId": None,
        "requiresOpenaiAuth": provider.requires_openai_auth,
        "workspaceRouting": None,
    }
