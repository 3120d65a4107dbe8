"""Settings from clients in the kernel's terms: settings of threads and turns, and input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.protocol.ops import (
    AdditionalContext,
    ImageInput,
    LocalImageInput,
    MentionInput,
    SkillInput,
    TextInput,
    ThreadSettingsOverrides,
    UnknownInput,
    UserInputItem,
)
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    DangerFullAccess,
    ExternalSandbox,
    GranularApproval,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from codex_framework.contract.protocol.wire import read
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.table import Json

__all__ = ["additional_context", "sandbox_policy", "thread_config", "thread_overrides", "turn_overrides", "user_input"]


def thread_config(params: Json) -> dict[str, Any]:
    """Return the configuration keys of a thread that is started, resumed or forked with these parameters."""
    config = {key: value for key, value in (params.get("config") or {}).items() if value is not None}
    for name, key in _CONFIG_KEYS.items():
        if params.get(name) is not None:
            config[key] = params[name]
    return config


_CONFIG_KEYS = {
    "model": "model",
    "modelProvider": "model_provider",
    "sandbox": "sandbox_mode",
    "permissions": "default_permissions",
    "developerInstructions": "developer_instructions",
}


def thread_overrides(params: Json) -> dict[str, Any]:
    """Return the fields of ``Settings`` that the parameters set. Raises RpcError."""
    overrides: dict[str, Any] = {}
    if params.get("cwd") is not None:
        overrides["cwd"] = _folder(params["cwd"])
    if params.get("approvalPolicy") is not None:
        overrides["approval_policy"] = _approval_policy(params["approvalPolicy"])
    for name, field in _SETTINGS.items():
        if params.get(name) is not None:
            overrides[field] = params[name]
    return overrides


_SETTINGS = {
    "approvalsReviewer": "approvals_reviewer",
    "ephemeral": "ephemeral",
    "personality": "personality",
    "serviceTier": "service_tier",
}


def turn_overrides(params: Json) -> ThreadSettingsOverrides:
    """Return the settings that a turn changes, for itself and the turns after it. Raises RpcError."""
    changes: dict[str, Any] = {
        field: params[name] for name, field in _TURN_SETTINGS.items() if params.get(name) is not None
    }
    if "serviceTier" in params:
        changes["service_tier"] = params["serviceTier"] or ""
    if params.get("cwd") is not None:
        changes["cwd"] = str(_folder(params["cwd"]))
    if params.get("approvalPolicy") is not None:
        changes["approval_policy"] = _approval_policy(params["approvalPolicy"])
    if params.get("sandboxPolicy") is not None:
        changes["sandbox_policy"] = sandbox_policy(params["sandboxPolicy"])
    if params.get("collaborationMode") is not None:
        changes["collaboration_mode"] = read(CollaborationMode, params["collaborationMode"])
    return ThreadSettingsOverrides(**changes)


_TURN_SETTINGS = {
    "approvalsReviewer": "approvals_reviewer",
    "effort": "effort",
    "model": "model",
    "permissions": "permissions",
    "personality": "personality",
    "summary": "summary",
}


def user_input(parts: list[Mapping[str, Any]]) -> tuple[UserInputItem, ...]:
    """Return input in the kernel's terms."""
    return tuple(map(_input_item, parts))


def _input_item(part: Mapping[str, Any]) -> UserInputItem:
    match part["type"]:
        case "text":
            return read(TextInput, {**part, "text_elements": _text_elements(part.get("text_elements") or [])})
        case "image" if "url" in part:
            return ImageInput(part["url"], part.get("detail"))
        case "localImage":
            return LocalImageInput(part["path"], part.get("detail"))
        case "skill":
            return SkillInput(part["name"], part["path"])
        case "mention":
            return MentionInput(part["name"], part["path"])
        case _:
            return UnknownInput(dict(part))


def _text_elements(elements: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"byte_range": each["byteRange"], "placeholder": each.get("placeholder")} for each in elements]


def additional_context(given: Mapping[str, Any] | None) -> dict[str, AdditionalContext]:
    """Return the context that comes with an input, by name."""
    return {name: AdditionalContext(entry["value"], entry["kind"]) for name, entry in (given or {}).items()}


def _approval_policy(given: object) -> ApprovalPolicy | GranularApproval:
    if isinstance(given, Mapping):
        return read(GranularApproval, given["granular"])
    return ApprovalPolicy(str(given))


def sandbox_policy(given: Mapping[str, Any]) -> SandboxPolicy:
    """Return a sandbox policy in the kernel's terms."""
    network = bool(given.get("networkAccess", False))
    match given["type"]:
        case "dangerFullAccess":
            return DangerFullAccess()
        case "externalSandbox":
            return ExternalSandbox(str(given.get("networkAccess") or "restricted"))
        case "workspaceWrite":
            return WorkspaceWrite(
                tuple(given.get("writableRoots") or ()),
                network,
                bool(given.get("excludeTmpdirEnvVar", False)),
                bool(given.get("excludeSlashTmp", False)),
            )
        case _:
            return ReadOnly(network)


def _folder(text: str) -> Path:
    folder = Path.cwd() / text
    if not folder.is_dir():
        raise RpcError(f"cwd is not a directory: {text}")
    return folder
