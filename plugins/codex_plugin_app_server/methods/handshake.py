"""``initialize``: who the client is."""

from __future__ import annotations

import platform
import sys

from codex_plugin_app_server.connection import Client
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

PROTOCOL_VERSION = "0.171.0"
"""The version of Codex whose protocol this is. Clients decide by it which fields they may send."""


@table.method("initialize", "InitializeParams", "InitializeResponse")
async def initialize(call: Call) -> Json:
    """Take note of the client. It can call other methods from now on."""
    info = call.params["clientInfo"]
    capabilities = call.params.get("capabilities") or {}
    call.connection.client = Client(
        name=info["name"],
        version=info["version"],
        experimental=bool(capabilities.get("experimentalApi", False)),
        opted_out=frozenset(capabilities.get("optOutNotificationMethods") or ()),
    )
    system = f"{platform.system()} {platform.release()}; {platform.machine()}"
    return {
        "userAgent": f"{info['name']}/{PROTOCOL_VERSION} ({system}) codex_framework ({info['name']}; {info['version']})",
        "codexHome": call.server.home,
        "platformFamily": "unix",
        "platformOs": "macos" if sys.platform == "darwin" else "linux",
    }
