"""The configuration."""

from __future__ import annotations

from typing import Any

from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("config/read", "ConfigReadParams", "ConfigReadResponse")
async def read_config(call: Call) -> Json:
    """Return the merged configuration."""
    config: dict[str, Any] = dict(call.server.kernel.config.tables)
    return {"config": config, "origins": {}, "layers": [] if call.params.get("includeLayers") else None}
