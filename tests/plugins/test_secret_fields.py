"""Which fields of values are left out of their ``repr``, and so of messages and logs, because they may be secret.

The list repeats what the classes say on purpose. A field that is shown by mistake must be noticed.
"""

from __future__ import annotations

import importlib

import attrs
import pytest

HIDDEN = {
    "codex_lib_model_client.credentials.Access": "key tokens",
    "codex_lib_model_client.login.agent_identity.AgentIdentity": "seed",
    "codex_lib_model_client.login.issuer.Reply": "content",
    "codex_lib_model_client.login.stored.StoredLogin": "content",
    "codex_lib_model_client.proxies.Proxy": "password",
    "codex_lib_model_client.small_replies.SmallReply": "headers data",
    "codex_lib_model_client.token_command.TokenCommand": "env",
    "codex_plugin_hooks.definitions.Definitions": "env",
    "codex_lib_model_client.login.flow.Proof": "verifier",
    "codex_plugin_mcp.oauth.credentials.StoredTokens": "url access_token refresh_token client_secret",
    "codex_plugin_mcp.oauth.registration.Client": "secret",
    "codex_plugin_mcp.oauth.settings.OAuthSettings": "client_secret private_key identity_token",
    "codex_plugin_mcp.servers.ServerConfig": "env url http_headers oauth",
    "codex_plugin_mcp_server.options.Options": "token",
    "codex_plugin_notify.target.Target": "url headers secret environ",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_fields_that_may_be_secret_are_not_shown(name: str) -> None:
    module, _, class_name = name.rpartition(".")
    fields = attrs.fields(getattr(importlib.import_module(module), class_name))
    shown = {field.name for field in fields if field.repr}
    assert set(HIDDEN[name].split()) <= {field.name for field in fields} - shown
