"""Skills."""

from __future__ import annotations

from typing import Any

from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_app_server.items import camel_keys
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("skills/list", "SkillsListParams", "SkillsListResponse")
async def list_skills(call: Call) -> Json:
    """List the skills of working folders; by default, of the server's."""
    folders = call.params.get("cwds") or [str(call.server.kernel.settings().cwd)]
    reload = bool(call.params.get("forceReload", False))
    op = call.server.kernel.op("list_skills", cwds=tuple(folders), force_reload=reload)
    events = await call.server.ask(op)
    found = [to_wire(msg)["skills"] for msg in events if msg.type == "list_skills_response"]
    return {"data": [_entry_json(entry) for entry in found[-1]]}


def _entry_json(entry: Json) -> dict[str, Any]:
    skills = [{"enabled": True, **camel_keys(skill)} for skill in entry.get("skills") or ()]
    return {"cwd": entry["cwd"], "skills": skills, "errors": list(entry.get("errors") or ())}
