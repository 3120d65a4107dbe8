"""Sandbox and approval policies in the forms of all versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.profile import permissions_from_list
from codex_framework.contract.protocol.permissions import PermissionProfile
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    DangerFullAccess,
    GranularApproval,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from codex_framework.contract.protocol.wire import WireError, read

__all__ = ["approval_of", "limits_of"]

_OLDER_APPROVALS = {"unless-allow-listed": ApprovalPolicy.UNTRUSTED, "auto-edit": ApprovalPolicy.UNTRUSTED}
"""Policies of 2025-05. Nothing of today permits only edits, so ``auto-edit`` asks about more commands rather than about fewer."""

_FOLDER = "disk-write-folder"


def approval_of(given: object) -> ApprovalPolicy | GranularApproval | None:
    """Return the current form of an approval policy in its wire form. None changes nothing.

    Raises:
        ThreadError: It is not a policy.
    """
    if given is None or isinstance(given, (ApprovalPolicy, GranularApproval)):
        return given
    if isinstance(given, str) and given in _OLDER_APPROVALS:
        return _OLDER_APPROVALS[given]
    try:
        policy: ApprovalPolicy | GranularApproval = read(ApprovalPolicy | GranularApproval, given)  # type: ignore[arg-type]
    except WireError as error:
        raise ThreadError(
            f"the approval policy cannot be read: {given!r}"[:300],
            slug="bad-request",
            hint=f"Use one of: {', '.join([*ApprovalPolicy, *_OLDER_APPROVALS])}.",
        ) from error
    return policy


def limits_of(given: object) -> dict[str, Any]:
    """Return the overrides of settings for a sandbox policy in its wire form. None changes nothing.

    A current policy, or one with ``mode``, is a ``sandbox_policy``. A list of permissions is a ``permission_profile`` with
    exactly these, because most lists have no equivalent policy: a list may permit writing to a folder but not to the workspace.

    Raises:
        ThreadError: It has none of these forms.
    """
    match given:
        case None:
            return {}
        case {"permissions": list(permissions)} | list(permissions):
            return {"permission_profile": _from_list(permissions)}
        case {"mode": str(mode), **rest} if "type" not in rest:
            return {"sandbox_policy": _read({"type": mode} | {str(name): value for name, value in rest.items()})}
        case str(mode):
            return {"sandbox_policy": _read({"type": mode})}
        case Mapping():
            return {"sandbox_policy": _read(dict(given))}
    if isinstance(given, (DangerFullAccess, ReadOnly, WorkspaceWrite)):
        return {"sandbox_policy": given}
    raise _wrong(given)


def _read(raw: dict[str, Any]) -> SandboxPolicy:
    try:
        policy: SandboxPolicy = read(SandboxPolicy, raw)  # type: ignore[arg-type]
    except WireError as error:
        raise _wrong(raw) from error
    return policy


def _from_list(permissions: list[Any]) -> PermissionProfile:
    words: list[str] = []
    for permission in permissions:
        match permission:
            case {"disk-write-folder": {"folder": str(folder)}}:
                words.append(f"{_FOLDER}={folder}")
            case str(word):
                words.append(word)
            case _:
                raise _wrong(permission)
    for word in words:
        name, _, folder = word.partition("=")
        if name == _FOLDER and not folder.startswith("/"):
            raise _wrong(word)
    try:
        return permissions_from_list(words).profile
    except ValueError as error:
        raise _wrong(str(error)) from error


def _wrong(given: object) -> ThreadError:
    return ThreadError(
        f"the sandbox policy cannot be read: {given!r}"[:300],
        slug="bad-request",
        hint='Send {"type": "read-only"}, {"type": "workspace-write", ...} or {"type": "danger-full-access"}.',
    )
