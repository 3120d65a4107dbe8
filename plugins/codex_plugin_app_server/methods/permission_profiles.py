"""Permission profiles."""

from __future__ import annotations

from codex_framework import CodexError, Kernel
from codex_framework.config.permissions import named_permissions, profile_names
from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("permissionProfile/list", "PermissionProfileListParams", "PermissionProfileListResponse")
async def list_profiles(call: Call) -> Json:
    """List the permission profiles: the built-in profiles, and the profiles of `permissions` in the configuration."""
    kernel = call.server.kernel
    own = kernel.config.get("permissions", {})
    page, cursor = page_of(profile_names(kernel.config), call.params)
    listed = [
        {"id": name, "description": own.get(name, {}).get("description"), "allowed": _is_allowed(kernel, name)}
        for name in page
    ]
    return {"data": listed, "nextCursor": cursor}


def _is_allowed(kernel: Kernel, name: str) -> bool:
    """Return whether a thread can start with a profile, and constraints do not change it."""
    constraints = [offer.item for offer in kernel.registry.constraints]
    try:
        permissions = named_permissions(kernel.config, name)
        settings = kernel.settings(permissions=permissions)
        for constraint in constraints:
            settings = constraint.settle(settings, lambda _: None)
        for constraint in constraints:
            constraint.check(settings, None)
    except CodexError:
        return False
    return settings.permissions == permissions
