"""``initialize``: who the client is."""

from __future__ import annotations

import platform
import re
import sys

from codex_framework.contract.version import CODEX_VERSION
from codex_plugin_app_server.connection import Client
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_HEADER_VALUE = re.compile(r"[\t -~\x80-\U0010ffff]*")


@table.method("initialize", "InitializeParams", "InitializeResponse")
async def initialize(call: Call) -> Json:
    """Take note of the client. It can call other methods from now on."""
    info = call.params["clientInfo"]
    if not _HEADER_VALUE.fullmatch(info["name"]):
        raise RpcError(f"Invalid clientInfo.name: {info['name']!r}. Must be a valid HTTP header value.")
    capabilities = call.params.get("capabilities") or {}
    call.connection.client = Client(
        name=info["name"],
        version=info["version"],
        experimental=bool(capabilities.get("experimentalApi", False)),
        opted_out=frozenset(capabilities.get("optOutNotificationMethods") or ()),
    )
    # clients decide by the version which fields they may send
    system = f"{platform.system()} {platform.release()}; {platform.machine()}"
    return {
        "userAgent": f"{info['name']}/{CODEX_VERSION} ({system}) codex_framework ({info['name']}; {info['version']})",
        "codexHome": call.server.home,
        "platformFamily": "unix",
        "platformOs": "macos" if sys.platform == "darwin" else "linux",
    }
