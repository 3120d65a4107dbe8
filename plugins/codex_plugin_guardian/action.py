"""The requested action, and the agent's permissions, as JSON for the reviewing model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from codex_framework import FileAccess, TurnFacts
from codex_framework.contract.protocol.events import ToolApprovalRequestEvent
from codex_framework.contract.protocol.events.command import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    DeleteFile,
    ExecApprovalRequestEvent,
    FileChange,
    UpdateFile,
)
from codex_framework.contract.protocol.policies import GranularApproval
from codex_plugin_guardian.quoting import fitted_value

__all__ = ["ACTION_LIMIT", "action_json", "action_key", "permissions_json", "summary"]

ACTION_LIMIT = 16_000
"""Maximum number of tokens of the action (Codex's limit)."""

_PERMISSIONS_LIMIT = 2_000
_SUMMARY_LENGTH = 80

Request = ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent | ToolApprovalRequestEvent


def action_json(request: Request, cwd: Path) -> str:
    """Return the requested action in one line of at most :data:`ACTION_LIMIT` tokens. Truncated parts are marked."""
    return fitted_value(_action(request, cwd), ACTION_LIMIT)


def action_key(request: Request, cwd: Path) -> str:
    """Return a digest of the whole action, without the agent's reason for it."""
    action = {key: value for key, value in _action(request, cwd).items() if key != "reason_given"}
    return hashlib.sha256(json.dumps(action, sort_keys=True, default=repr).encode()).hexdigest()


def permissions_json(facts: TurnFacts) -> str:
    """Return the permissions without the approval, in one line."""
    policy = facts.approval_policy
    allowed = {
        "cwd": str(facts.cwd),
        "approval_policy": attrs.asdict(policy) if isinstance(policy, GranularApproval) else policy.value,
        "files": _files(facts.access),
        "network": facts.access.network.value,
    }
    return fitted_value(allowed, _PERMISSIONS_LIMIT)


def summary(request: Request) -> str:
    """Return a few words for the user."""
    if isinstance(request, ApplyPatchApprovalRequestEvent):
        names = ", ".join(Path(path).name for path in request.changes)
        text = f"a patch of {names}"
    elif isinstance(request, ToolApprovalRequestEvent):
        text = request.subject
    elif request.network_approval_context is not None:
        text = f"access to {request.network_approval_context.get('host', '')}"
    else:
        text = f"`{' '.join(request.command)}`"
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _SUMMARY_LENGTH else f"{text[: _SUMMARY_LENGTH - 1]}…"


def _action(request: Request, cwd: Path) -> dict[str, Any]:
    action: dict[str, Any]
    if isinstance(request, ApplyPatchApprovalRequestEvent):
        action = {
            "action": "apply_patch",
            "cwd": str(cwd),
            "files": [_file(path, change) for path, change in request.changes.items()],
            "writes_from_now_on_below": request.grant_root,
            "without_sandbox": request.without_sandbox or None,
        }
    elif isinstance(request, ToolApprovalRequestEvent):
        question = (
            request.approval.question
        )  # the details may contain the model's own words, so they come first and cannot overwrite the other keys
        action = {**request.details, "action": "call_tool", "cwd": str(cwd), "question": question}
    elif request.network_approval_context is not None:
        action = {
            "action": "reach_network",
            **{str(key): str(value) for key, value in request.network_approval_context.items()},
            "target": list(request.command[1:]),
            "cwd": request.cwd,
        }
    else:
        action = {
            "action": "run_command",
            "command": list(request.command),
            "cwd": request.cwd,
            "without_sandbox": request.without_sandbox or None,
            "wants_permissions": _to_plain_data(request.additional_permissions),
        }
    action["reason_given"] = getattr(request, "reason", None)
    return {key: value for key, value in action.items() if value is not None}


def _file(path: str, change: FileChange) -> dict[str, Any]:
    match change:
        case AddFile(content):
            return {"path": path, "change": "add", "content": content}
        case DeleteFile(content):
            return {"path": path, "change": "delete", "content": content}
        case UpdateFile(diff, None):
            return {"path": path, "change": "update", "diff": diff}
        case UpdateFile(diff, moved):
            return {"path": path, "change": "update", "moved_to": moved, "diff": diff}


def _files(access: FileAccess) -> Any:
    if access.full:
        return "no limit"
    roots = [
        {"below": str(root.root), "but_not": [str(path) for path in root.read_only]}
        if root.read_only
        else {"below": str(root.root)}
        for root in access.roots
    ]
    files: dict[str, Any] = {"may_write": roots, "otherwise": access.otherwise.value}
    denied = [*map(str, access.denied), *access.denied_globs]
    if denied:
        files["may_not_even_read"] = denied
    return files


def _to_plain_data(value: Any) -> Any:
    """Convert a value to plain dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): _to_plain_data(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain_data(member) for member in value]
    return value
