"""Features: which there are, and switches for them that last as long as the server."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_client_features.stages import enabled_features, stages
from codex_plugin_app_server.items import camel
from codex_plugin_app_server.methods.config import current_config
from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_SWITCHES = frozenset(
    (
        *("api_key_cyber_access_programs", "api_key_model_discovery", "auth_elicitation"),
        *("background_paginated_rollout_migration", "codex_apps_mcp_2026_07_28", "daybreak_program_propagation"),
        *("mcp_2026_07_28", "mcp_connection_sharing", "mcp_lazy_stdio_startup", "mcp_shared_repl_cwd", "memories"),
        *("mentions_v2", "remote_control", "remote_plugin", "tool_suggest", "windows_sandbox_service"),
    )
)
"""The features that clients can switch, as in Codex."""

_TEXTS = {
    "analytics_plan_history": (
        "Analytics plan history",
        "Preview five-hour and weekly allowance history for consumer accounts in /analytics.",
        "",
    ),
    "login_shell_package_path": (
        "Bundled tools in login shells",
        "Keep bundled tools such as ripgrep available when login shell startup resets PATH.",
        "",
    ),
    "network_proxy": (
        "Network proxy",
        "Apply network proxy restrictions to sandboxed sessions that already have network access.",
        "NEW: Network proxy can now be enabled from /experimental. Restart Codex after enabling it.",
    ),
    "prevent_idle_sleep": (
        "Prevent sleep while running",
        "Keep your computer awake while Codex is running a thread.",
        "NEW: Prevent sleep while running is now available in /experimental.",
    ),
    "respect_system_proxy": ("System proxy", "Use macOS or Windows system proxy settings for Codex requests.", ""),
    "tui_extensions_statusline": ("Custom status line", "Restart the TUI, then use /statusline.", ""),
}
"""Name, description and announcement of the features in their trial, as Codex shows them."""


@table.method(
    "experimentalFeature/list", "ExperimentalFeatureListParams", "ExperimentalFeatureListResponse", concurrent=True
)
async def list_features(call: Call) -> Json:
    """List the features of Codex, and whether they are on. Most have no effect here."""
    thread_id = call.params.get("threadId")
    folder = None if thread_id is None else str(call.server.thread(thread_id).thread.settings.cwd)
    are_on = enabled_features(await asyncio.to_thread(current_config, call.server, folder))
    page, cursor = page_of(list(stages()), call.params, most=len(stages()), noun="feature flags")
    return {"data": [_feature_json(name, is_on=are_on[name]) for name in page], "nextCursor": cursor}


def _feature_json(name: str, *, is_on: bool) -> dict[str, Any]:
    stage = stages()[name]
    title, description, announcement = _TEXTS.get(name, (None, None, None))
    return {
        "name": name,
        "stage": "beta" if stage.name == "experimental" else camel(stage.name.replace(" ", "_")),
        "displayName": title,
        "description": description,
        "announcement": announcement,
        "enabled": is_on,
        "defaultEnabled": stage.is_on,
    }


@table.method(
    "experimentalFeature/enablement/set",
    "ExperimentalFeatureEnablementSetParams",
    "ExperimentalFeatureEnablementSetResponse",
)
async def set_enablement(call: Call) -> Json:
    """Switch features for new threads, until the server ends. The configuration takes precedence."""
    switched = {name: is_on for name, is_on in call.params["enablement"].items() if name in _SWITCHES}
    assigned = call.server.kernels.assigned
    for name in switched:
        assigned.pop(f"features.{name}", None)
    config = await asyncio.to_thread(current_config, call.server, None)
    configured = config.get("features", {})
    assigned.update({f"features.{name}": is_on for name, is_on in switched.items() if name not in configured})
    return {"enablement": dict(sorted(switched.items()))}
