"""Skills."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from codex_framework import UserConfig
from codex_plugin_app_server.errors import INVALID_PARAMS, RpcError
from codex_plugin_app_server.items import camel_keys
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_ROOTS = "framework.plugins.skills.roots"
_RULES = ("skills", "config")


@table.method("skills/list", "SkillsListParams", "SkillsListResponse", concurrent=True)
async def list_skills(call: Call) -> Json:
    """List the skills of working folders; by default, of the server's. From then on, `skills/changed` reports changes."""
    folders = call.params.get("cwds") or [str(call.server.kernel.config.cwd)]
    reload = bool(call.params.get("forceReload", False))
    await call.server.skill_watch.follow(_roots(call, folders))
    found = await call.server.ask("list_skills", "list_skills_response", cwds=tuple(folders), force_reload=reload)
    return {"data": [_entry_json(entry) for entry in (found or {}).get("skills", ())]}


def _roots(call: Call, folders: Iterable[str]) -> Iterator[str]:
    """Yield the folders that may have skills for working folders, whether they exist or not."""
    yield f"{call.server.home}/skills"
    yield str(Path.home() / ".agents" / "skills")
    yield from call.server.kernels.assigned.get(_ROOTS, ())
    yield from (str(Path(folder) / name / "skills") for folder in folders for name in (".codex", ".agents"))


def _entry_json(entry: Json) -> dict[str, Any]:
    skills = [{"enabled": True, "pluginId": None, **camel_keys(skill)} for skill in entry.get("skills") or ()]
    return {"cwd": entry["cwd"], "skills": skills, "errors": list(entry.get("errors") or ())}


@table.method("skills/config/write", "SkillsConfigWriteParams", "SkillsConfigWriteResponse")
async def switch_skills(call: Call) -> Json:
    """Switch the skill of a path, or all skills of a name, on or off in the user's file."""
    path, name = call.params.get("path"), (call.params.get("name") or "").strip()
    if (path is None) == (not name):
        raise RpcError("skills/config/write requires exactly one of path or name", INVALID_PARAMS)
    selector = {"name": name} if path is None else {"path": os.path.normpath(path)}
    is_on = call.params["enabled"]
    await asyncio.to_thread(_switch, UserConfig(call.server.kernel.config.codex_home), selector, is_on=is_on)
    await call.server.kernels.reload_user_config()
    return {"effectiveEnabled": is_on}


def _switch(user: UserConfig, selector: Json, *, is_on: bool) -> None:
    """Write the last rule for a selector. Skills without a rule are on. Raises ConfigError."""
    skills = user.tables().get(_RULES[0])
    rules = (skills.get(_RULES[1]) if isinstance(skills, dict) else None) or []
    kept = [rule for rule in rules if not (isinstance(rule, dict) and selector.items() <= rule.items())]
    if not is_on:
        kept.append({**selector, "enabled": False})
    if kept:
        user.set(_RULES, kept)
    elif rules:
        user.clear(_RULES)


@table.method("skills/extraRoots/set", "SkillsExtraRootsSetParams", "SkillsExtraRootsSetResponse")
async def set_extra_roots(call: Call) -> Json:
    """Set further folders with skills for new threads, until the server ends."""
    roots = list(dict.fromkeys(map(os.path.normpath, call.params["extraRoots"])))
    call.server.kernels.assigned[_ROOTS] = roots
    call.then(lambda: call.server.broadcast("skills/changed", {}))
    return {}
