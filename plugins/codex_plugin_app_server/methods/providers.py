"""Model providers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from codex_plugin_app_server.methods.config import current_config
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_OPENAI = "openai"

_CREDENTIALS = (
    "auth",
    "aws",
    "env_http_headers",
    "experimental_bearer_token",
    "http_headers",
    "query_params",
    "requires_openai_auth",
)
"""Keys of a provider's table that may carry or name credentials, besides ``env_key``."""


@table.method("modelProvider/list", "ModelProviderListParams", "ModelProviderListResponse", concurrent=True)
async def list_providers(call: Call) -> Json:
    """List OpenAI and the providers of `model_providers`, without secrets."""
    config = await asyncio.to_thread(current_config, call.server, None)
    tables: Mapping[str, Json] = config.get("model_providers", {})
    openai = {
        "id": _OPENAI,
        "name": "OpenAI",
        "canEdit": False,
        "baseUrl": _shown_url(config.get("openai_base_url")),
        "settings": {"type": "openai"},
    }
    listed = [*(_provider_json(name, tables[name]) for name in tables), openai]
    files = ("system", "user")
    return {
        "data": sorted(listed, key=lambda each: str(each["id"])),
        "defaultProviderId": config.get("model_provider", _OPENAI),
        "canChangeDefault": not any(
            "model_provider" in layer.table for layer in config.layers if layer.name not in files
        ),
    }


def _provider_json(name: str, given: Json) -> dict[str, Any]:
    url, env_key = given.get("base_url"), given.get("env_key")
    auth: dict[str, Any] = {"mode": "none"}
    if any(given.get(key) for key in _CREDENTIALS) or (url and _has_secrets(url)):
        auth = {"mode": "externallyConfigured", "envKey": env_key}
    elif env_key:
        auth = {"mode": "environmentVariable", "envKey": env_key}
    return {
        "id": name,
        "name": given.get("name", name),
        "canEdit": True,
        "baseUrl": _shown_url(url),
        "settings": {"type": "customGateway", "auth": auth},
    }


def _shown_url(url: str | None) -> str | None:
    """Return an address, or None if it is invalid or may contain secrets."""
    return None if url is None or not urlsplit(url).scheme or _has_secrets(url) else url


def _has_secrets(url: str) -> bool:
    parts = urlsplit(url)
    return "@" in parts.netloc or bool(parts.query or parts.fragment)


@table.method(
    "modelProvider/capabilities/read", "ModelProviderCapabilitiesReadParams", "ModelProviderCapabilitiesReadResponse"
)
async def read_capabilities(call: Call) -> Json:
    """Tell which tools of the model's server the configured provider can have."""
    hosted = call.server.kernel.settings().provider.wire_api == "responses"
    return {"imageGeneration": hosted, "webSearch": hosted}
