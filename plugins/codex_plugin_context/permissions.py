"""What the model is told it may do, and what the configuration wants it to know (role ``developer``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

from codex_framework.protocol.permissions import (
    AccessMode,
    DisabledPermissions,
    ExternalPermissions,
    NetworkPermission,
    PermissionProfile,
)
from codex_framework.protocol.policies import (
    ApprovalPolicy,
    GranularApproval,
)
from codex_framework.roles.context import ContextFacts, Fragment
from codex_framework.roles.sandboxes import PROTECTED_NAMES, FileAccess, NetworkMode

__all__ = ["DeveloperInstructions", "Permissions"]

_START, _END = "<permissions instructions>", "</permissions instructions>"

_ESCALATION = """\
To run a command without the sandbox, give it `sandbox_permissions` = "require_escalated" and a `justification`: one short question \
to the person that names the purpose. The call itself is the request; do not ask in a message first. Where it makes sense, add a \
`prefix_rule`, the beginning of commands like this one that may run from now on; choose it narrow, and never one that allows \
arbitrary code. Request this when a command is needed for the task and
- it failed, and the sandbox is the likely reason;
- it has to write outside the writable folders, or needs the network (installing dependencies, fetching);
- it opens a window or talks to another program of the person;
- it destroys something, and nobody has asked for that in so many words."""


class Permissions:
    """Sandbox, network and approval policy in words. Off with ``include_permissions_instructions = false``."""

    name = "permissions"

    def fragments(self, facts: ContextFacts) -> Iterator[Fragment]:
        """One fragment."""
        if facts.config.get("include_permissions_instructions") is False:
            return
        parts = (
            _sandbox_text(facts),
            _network_text(facts.permissions.profile, facts.access),
            _approval_text(facts.approval_policy, confined=facts.access.confines),
        )
        text = "\n".join((_START, *parts, _END))
        yield Fragment(role="developer", text=text, start=_START, end=_END, order=0)


class DeveloperInstructions:
    """The text of ``developer_instructions`` in the configuration, as it stands there."""

    name = "developer_instructions"

    def fragments(self, facts: ContextFacts) -> Iterator[Fragment]:
        """One fragment, which is its own mark: it has no others."""
        text = facts.config.get("developer_instructions")
        if isinstance(text, str) and text.strip():
            yield Fragment(role="developer", text=text, start=text, order=50)


def _sandbox_text(facts: ContextFacts) -> str:
    access = facts.access
    match facts.permissions.profile:
        case DisabledPermissions():
            return (
                "`sandbox_mode` is `danger-full-access`: commands are not confined and can read and write every file."
            )
        case ExternalPermissions():
            return "Commands run in a sandbox that was set up from outside; nothing is added to it, and its limits are not known here."
        case _ if access.full:
            return "Commands can read and write every file."
    named = facts.permissions.id
    mode = facts.sandbox_policy.type if not access.roots else "workspace-write"
    head = f"The permission profile is `{named}`" if named else f"`sandbox_mode` is `{mode}`"
    readable = (
        "read files" if access.otherwise is not AccessMode.DENY else f"read files below {_list(_readable(access))}"
    )
    if not access.roots:
        text = f"{head}: commands can {readable} and write none."
    else:
        text = (
            f"{head}: commands can {readable}, and write only below the writable folders"
            f" ({_list(root.root for root in access.roots)}). In these, {_kept_names(access)} stay read-only."
        )
    unreadable: tuple[Path | str, ...] = (*access.denied, *access.denied_globs)
    if unreadable:
        text += f" Not even reading is allowed in: {_list(unreadable)}."
    return text


def _readable(access: FileAccess) -> Iterator[Path]:
    """What is readable where all else is denied, without what lies below something that is."""
    found: list[Path] = []
    for rule in access.rules:
        if rule.access is not AccessMode.DENY and not any(rule.path.is_relative_to(path) for path in found):
            found.append(rule.path)
    yield from found


def _list(paths: Iterable[Path | str]) -> str:
    return ", ".join(f"`{path}`" for path in paths) or "none"


def _kept_names(access: FileAccess) -> str:
    kept = {path.name for root in access.roots for path in root.read_only if path.parent == root.root}
    names = [name for name in PROTECTED_NAMES if name in kept]
    return ", ".join(f"`{name}`" for name in names) or "version control and agent settings"


def _network_text(profile: PermissionProfile, access: FileAccess) -> str:
    if isinstance(profile, ExternalPermissions) and profile.network is NetworkPermission.RESTRICTED:
        return "Take it that there is no network."
    match access.network:
        case NetworkMode.OFF:
            return "The network is blocked."
        case NetworkMode.LOOPBACK:
            return "The network is blocked, except for servers on the loopback address that a command starts itself."
        case NetworkMode.PROXY:
            return (
                "Some hosts can be reached, by HTTP(S) and SOCKS5 through the proxy that `HTTP_PROXY`, `HTTPS_PROXY` and"
                " `ALL_PROXY` name; everything else is blocked."
            )
        case NetworkMode.ON:
            return "The network can be used."


def _approval_text(policy: ApprovalPolicy | GranularApproval, *, confined: bool) -> str:
    if isinstance(policy, GranularApproval):
        return _granular_text(policy)
    head = f"`approval_policy` is `{policy.value}`:"
    match policy:
        case ApprovalPolicy.NEVER:
            return (
                f"{head} nobody can be asked, so never set `sandbox_permissions`; such a call is refused. Work within these"
                " limits, find another way where they stop you, and check your work before you finish."
            )
        case ApprovalPolicy.ON_FAILURE:
            return (
                f"{head} every command first runs in the sandbox; if it fails there, the person is asked whether it may run again"
                " without. You need not request anything."
            )
        case ApprovalPolicy.UNTRUSTED:
            return (
                f"{head} the person is asked about each command, except for a few known to only read (`ls`, `cat`, `rg` and the"
                " like). Prefer those where they are enough."
            )
        case ApprovalPolicy.ON_REQUEST:
            asked = f"{head} commands run in the sandbox, and you decide when the person should be asked."
            return f"{asked}\n{_ESCALATION}" if confined else f"{head} you may ask, but nothing here needs approval."
        case _:
            assert_never(policy)


def _granular_text(policy: GranularApproval) -> str:
    kinds = {
        "running commands without the sandbox": policy.sandbox_approval,
        "commands that a rule wants asked about": policy.rules,
        "questions of MCP servers": policy.mcp_elicitations,
        "skills": policy.skill_approval,
        "further permissions": policy.request_permissions,
    }
    asked = ", ".join(kind for kind, may in kinds.items() if may) or "nothing"
    refused = ", ".join(kind for kind, may in kinds.items() if not may) or "nothing"
    text = f"`approval_policy` is granular: the person can be asked about {asked}; refused without asking: {refused}."
    return f"{text}\n{_ESCALATION}" if policy.sandbox_approval else text
