"""The model's permissions in words, and the developer instructions of the configuration (role ``developer``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

from codex_framework.contract.permissions.file_access import PROTECTED_NAMES, FileAccess, NetworkMode
from codex_framework.contract.protocol.permissions import (
    AccessMode,
    DisabledPermissions,
    ExternalPermissions,
    NetworkPermission,
    PermissionProfile,
)
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts

__all__ = ["DeveloperInstructions", "Permissions"]

_START, _END = "<permissions instructions>", "</permissions instructions>"

_ESCALATION = """\
To run a command without the sandbox, set `sandbox_permissions` to "require_escalated" and add a `justification`: one short question \
to the user that states the purpose. The call itself is the request; do not ask in a message first. If similar commands will follow, \
add a `prefix_rule`: the first words of the commands that may run without asking from now on. Keep it narrow, and never choose one \
that allows arbitrary code. Make such a request if the command is needed for the task and
- it failed, and the sandbox is the likely reason;
- it must write outside the writable folders, or needs the network (for example to install dependencies);
- it opens a window or controls another program of the user;
- it is destructive, and the user has not explicitly asked for it."""


_FIXED = "These limits are fixed: no approval lifts them. Never set `sandbox_permissions`; such a call is refused."


class Permissions(ContextSource):
    """The sandbox, network and approval policy in words. Disabled by ``include_permissions_instructions = false``."""

    name = "permissions"
    reads = frozenset({"settings"})

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield one fragment, or nothing if the source is disabled."""
        if facts.config.get("include_permissions_instructions") is False:
            return
        parts = (
            _sandbox_text(facts),
            _network_text(facts.permissions.profile, facts.access),
            _FIXED if facts.access.fixed else _approval_text(facts.approval_policy, confined=facts.access.confines),
        )
        text = "\n".join((_START, *parts, _END))
        yield Fragment(role="developer", text=text, start=_START, end=_END, order=0)


class DeveloperInstructions(ContextSource):
    """The text of ``developer_instructions`` in the configuration, unchanged."""

    name = "developer_instructions"
    reads = frozenset({"settings"})

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield one fragment, or nothing if there are no instructions.

        The text has no markers around it, so the whole text serves as its start marker.
        """
        text = facts.config.get("developer_instructions")
        if isinstance(text, str) and text.strip():
            yield Fragment(role="developer", text=text, start=text, order=50)


def _sandbox_text(facts: TurnFacts) -> str:
    access = facts.access
    match facts.permissions.profile:
        case DisabledPermissions():
            return (
                "`sandbox_mode` is `danger-full-access`: commands are not confined and can read and write every file."
            )
        case ExternalPermissions():
            return "Commands run in a sandbox that was set up externally. No further limits are added, and its own limits are unknown."
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
            f" ({_list(root.root for root in access.roots)}). In these folders, {_protected_names(access)} stay read-only."
        )
    unreadable: tuple[Path | str, ...] = (*access.denied, *access.denied_globs)
    if unreadable:
        text += f" These paths cannot be read: {_list(unreadable)}."
    return text


def _readable(access: FileAccess) -> Iterator[Path]:
    """Yield the readable paths of a policy that denies everything else, without those below another readable path."""
    readable: list[Path] = []
    for rule in access.rules:
        if rule.access is not AccessMode.DENY and not any(rule.path.is_relative_to(path) for path in readable):
            readable.append(rule.path)
    yield from readable


def _list(paths: Iterable[Path | str]) -> str:
    return ", ".join(f"`{path}`" for path in paths) or "none"


def _protected_names(access: FileAccess) -> str:
    protected = {path.name for root in access.roots for path in root.read_only if path.parent == root.root}
    names = [name for name in PROTECTED_NAMES if name in protected]
    return ", ".join(f"`{name}`" for name in names) or "version control and agent settings"


def _network_text(profile: PermissionProfile, access: FileAccess) -> str:
    if isinstance(profile, ExternalPermissions) and profile.network is NetworkPermission.RESTRICTED:
        return "Assume that there is no network."
    match access.network:
        case NetworkMode.OFF:
            return "The network is blocked."
        case NetworkMode.LOOPBACK:
            return "The network is blocked, except for servers on the loopback address that a command starts itself."
        case NetworkMode.PROXY:
            return (
                "Some hosts can be reached over HTTP(S) and SOCKS5, through the proxy in `HTTP_PROXY`, `HTTPS_PROXY` and"
                " `ALL_PROXY`. Everything else is blocked."
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
                f"{head} nobody can be asked. Never set `sandbox_permissions`; such a call is refused. Work within these"
                " limits, find another way if they block you, and check your work before you finish."
            )
        case ApprovalPolicy.ON_FAILURE:
            return (
                f"{head} every command first runs in the sandbox. If it fails there, the user is asked whether to run it again"
                " without the sandbox. You need not request anything."
            )
        case ApprovalPolicy.UNTRUSTED:
            return (
                f"{head} the user is asked about every command, except for a few that only read (such as `ls`, `cat` and"
                " `rg`). Prefer these if they are sufficient."
            )
        case ApprovalPolicy.ON_REQUEST:
            asked = f"{head} commands run in the sandbox, and you decide when to ask the user."
            return f"{asked}\n{_ESCALATION}" if confined else f"{head} you may ask, but nothing here needs approval."
        case _:
            assert_never(policy)


def _granular_text(policy: GranularApproval) -> str:
    kinds = {
        "running commands without the sandbox": policy.sandbox_approval,
        "commands for which a rule requires approval": policy.rules,
        "questions from MCP servers": policy.mcp_elicitations,
        "skills": policy.skill_approval,
        "additional permissions": policy.request_permissions,
    }
    asked = ", ".join(kind for kind, may in kinds.items() if may) or "nothing"
    refused = ", ".join(kind for kind, may in kinds.items() if not may) or "nothing"
    text = f"`approval_policy` is granular: the user can be asked about {asked}. Refused without asking: {refused}."
    return f"{text}\n{_ESCALATION}" if policy.sandbox_approval else text
