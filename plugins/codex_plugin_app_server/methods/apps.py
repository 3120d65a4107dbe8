"""Apps, which this server does not have."""

from __future__ import annotations

from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("app/list", "AppsListParams", "AppsListResponse")
async def list_apps(call: Call) -> Json:  # noqa: ARG001  # every handler has it
    """Return an empty list of apps."""
    return {"data": [], "nextCursor": None}
