"""Collaboration modes."""

from __future__ import annotations

from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_PLAN = {"name": "Plan", "mode": "plan", "model": None, "reasoning_effort": "medium"}
_DEFAULT = {"name": "Default", "mode": "default", "model": None, "reasoning_effort": None}


@table.method(
    "collaborationMode/list", "CollaborationModeListParams", "CollaborationModeListResponse", stability="experimental"
)
async def list_collaboration_modes(call: Call) -> Json:
    """List the modes of threads: Plan, if the plugin `plan_mode` is in use, and Default."""
    has_plan = any(offer.plugin == "plan_mode" for offer in call.server.kernel.registry.interceptors)
    return {"data": [_PLAN, _DEFAULT] if has_plan else [_DEFAULT]}
