"""Settings of threads as the protocol shows them."""

from __future__ import annotations

from typing import Any

from codex_framework import Settings
from codex_framework.contract.protocol.policies import DangerFullAccess, ExternalSandbox, ReadOnly, WorkspaceWrite
from codex_framework.contract.protocol.wire import to_wire

__all__ = ["environments_json", "sandbox_json", "settings_json", "thread_settings_json"]


def settings_json(settings: Settings) -> dict[str, Any]:
    """Return the settings of a loaded thread, as in the responses about it."""
    policy = settings.approval_policy
    active = settings.permissions.active
    return {
        "model": settings.model,
        "modelProvider": settings.provider.id,
        "serviceTier": settings.service_tier,
        "disabledPluginIds": [],
        "cwd": str(settings.cwd),
        "runtimeWorkspaceRoots": [str(settings.cwd)],
        "instructionSources": [],
        "approvalPolicy": {"granular": to_wire(policy)} if not isinstance(policy, str) else _approval_word(str(policy)),
        "approvalsReviewer": settings.approvals_reviewer or "user",
        "sandbox": sandbox_json(settings.sandbox_policy),
        "activePermissionProfile": None if active is None else {"extends": None, **dict(active)},
        "reasoningEffort": settings.reasoning_effort,
        "multiAgentMode": "explicitRequestOnly",
    }


def _approval_word(policy: str) -> str:
    return "on-request" if policy == "on-failure" else policy  # the protocol has no such word any longer


def sandbox_json(policy: object) -> dict[str, Any]:
    """Return a ``SandboxPolicy``."""
    match policy:
        case DangerFullAccess():
            return {"type": "dangerFullAccess"}
        case ExternalSandbox():
            return {"type": "externalSandbox", "networkAccess": policy.network_access}
        case WorkspaceWrite():
            return {
                "type": "workspaceWrite",
                "writableRoots": list(policy.writable_roots),
                "networkAccess": policy.network_access,
                "excludeTmpdirEnvVar": policy.exclude_tmpdir_env_var,
                "excludeSlashTmp": policy.exclude_slash_tmp,
            }
        case ReadOnly():
            return {"type": "readOnly", "networkAccess": policy.network_access}
        case _:
            return {"type": "readOnly", "networkAccess": False}


def thread_settings_json(settings: Settings) -> dict[str, Any]:
    """Return a ``ThreadSettings``."""
    shown = settings_json(settings)
    mode = settings.collaboration_mode
    own = None if mode is None else mode.settings
    return {
        **{name: shown[name] for name in _SHARED},
        "environments": environments_json(settings),
        "sandboxPolicy": shown["sandbox"],
        "effort": settings.reasoning_effort,
        "summary": settings.reasoning_summary,
        "personality": settings.personality,
        "collaborationMode": {
            "mode": "default" if mode is None else mode.kind,
            "settings": {
                "model": (own and own.model) or settings.model,
                "reasoning_effort": (own and own.reasoning_effort) or settings.reasoning_effort,
                "developer_instructions": own and own.developer_instructions,
            },
        },
    }


_SHARED = (
    "disabledPluginIds",
    "cwd",
    "approvalPolicy",
    "approvalsReviewer",
    "activePermissionProfile",
    "model",
    "modelProvider",
    "serviceTier",
    "multiAgentMode",
)


def environments_json(settings: Settings) -> list[dict[str, Any]]:
    """Return the environments of a thread, which is this machine."""
    roots = [str(settings.cwd)]
    return [{"environmentId": "local", "cwd": roots[0], "runtimeWorkspaceRoots": roots}]
