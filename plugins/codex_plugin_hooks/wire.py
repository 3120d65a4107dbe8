"""Hooks as JSON data, in the words of Codex's app server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codex_plugin_hooks.isolation import module_folders

if TYPE_CHECKING:
    from codex_plugin_hooks.definitions import Handler

__all__ = ["hook_wire"]


def hook_wire(each: Handler) -> dict[str, Any]:
    """Return a hook in the form of Codex's ``hooks/list``."""
    first, *rest = each.event.key.split("_")
    return {
        "key": each.key,
        "eventName": first + "".join(word.capitalize() for word in rest),
        "handlerType": "command",
        "command": each.command,
        "async": each.is_async,
        "matcher": each.matcher,
        "timeoutSec": each.timeout_s,
        "statusMessage": each.status_message,
        "additionalContextLimit": each.context_limit,
        "sourcePath": each.path,
        "source": "sessionFlags" if each.source == "session_flags" else each.source,
        "displayOrder": each.order,
        "enabled": each.enabled,
        "isManaged": each.trust == "managed",
        "currentHash": each.hash,
        "trustStatus": each.trust,
        "protectedPaths": list(each.scripts.paths),
        "protectedFolders": list(dict.fromkeys(module_folders(each.scripts))),
        "notUnderstood": list(each.scripts.unknown),
    }
