"""Hooks of users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_FLAGS = {"framework.plugins.hooks.unrunnable": "skip"}
"""Hooks that keep threads from starting can be listed, so that the user can decide about them."""

_OWN = ("protectedPaths", "protectedFolders", "notUnderstood")
"""Facts from the plugin in addition to the fields of the protocol."""


@table.method("hooks/list", "HooksListParams", "HooksListResponse", concurrent=True)
async def list_hooks(call: Call) -> Json:
    """List the hooks of folders, by default of the server's, or of a thread's folder, whether they run or not."""
    folders, thread_id = call.params.get("cwds") or [], call.params.get("threadId")
    if thread_id is not None and folders:
        raise RpcError("specify either threadId or cwds")
    if thread_id is not None:
        folders = [str(call.server.thread(thread_id).thread.settings.cwd)]
    return {"data": [await _entry(call, cwd) for cwd in folders or [str(call.server.kernel.config.cwd)]]}


async def _entry(call: Call, cwd: str) -> dict[str, Any]:
    found = await call.server.ask("list_hooks", "list_hooks_response", Path(cwd), _FLAGS) or {}
    return {
        "cwd": cwd,
        "hooks": [_hook_json(hook) for hook in found.get("hooks") or ()],
        "warnings": list(found.get("warnings") or ()),
        "errors": list(found.get("errors") or ()),
    }


def _hook_json(hook: Json) -> dict[str, Any]:
    shown = {name: value for name, value in hook.items() if name not in _OWN}
    return {**shown, "pluginId": None, "environmentId": None}
