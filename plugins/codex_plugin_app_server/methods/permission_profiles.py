"""Permission profiles."""

from __future__ import annotations

from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_BUILT_IN = (":read-only", ":workspace", ":danger-full-access")


@table.method("permissionProfile/list", "PermissionProfileListParams", "PermissionProfileListResponse")
async def list_profiles(call: Call) -> Json:
    """List the permission profiles: those that are built in, and those of the configuration."""
    configured = call.server.kernel.config.tables.get("permissions")
    own = configured if isinstance(configured, dict) else {}
    described = dict.fromkeys(_BUILT_IN) | {
        name: profile.get("description") for name, profile in own.items() if isinstance(profile, dict)
    }
    listed = [{"id": name, "description": text, "allowed": True} for name, text in described.items()]
    page, cursor = page_of(listed, call.params)
    return {"data": page, "nextCursor": cursor}
