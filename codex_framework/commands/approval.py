"""Rules on which actions need approval, and the approvals that last for the session.

The rules are pure functions of policies and facts. Asking is a step of the turn (see ``turn.py``).
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path

from codex_framework.commands.access import deny_write_text
from codex_framework.contract.errors import ToolRefused
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.events.command import FileChange, UpdateFile
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    Decision,
    GranularApproval,
    ReviewDecision,
    SandboxPermissions,
)
from codex_framework.contract.roles.policies import CommandPolicy, CommandVerdict, Verdict
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.value import Value

__all__ = [
    "ApprovalCache",
    "ApprovalRequirement",
    "command_requirement",
    "folder_to_grant",
    "judge_actor",
    "may_ask_about_hosts",
    "may_retry",
    "patch_paths",
    "patch_requirement",
    "policy_actor",
]

AnyPolicy = ApprovalPolicy | GranularApproval

FIXED = "the limits of this thread are fixed: no approval lifts them. Work within them, without sandbox_permissions"

_WORDS = {
    ApprovalPolicy.UNTRUSTED: "UnlessTrusted",
    ApprovalPolicy.ON_FAILURE: "OnFailure",
    ApprovalPolicy.ON_REQUEST: "OnRequest",
    ApprovalPolicy.NEVER: "Never",
}
"""The policies in Codex's wording for the model."""


class ApprovalRequirement(Value):
    """The approval that a command or patch needs.

    Attributes:
        ask: Whether an approval is needed.
        reason: The text shown with the question. None if no reason is shown.
        unconfined: Whether the command then runs without a sandbox, or the patch writes where the turn must not write.
        amendment: A prefix to offer with the question, to be allowed from now on. None if no prefix is offered.
        precaution: Whether the command runs anyway if no user can be asked.
    """

    ask: bool
    reason: str | None = None
    unconfined: bool = False
    amendment: tuple[str, ...] | None = None
    precaution: bool = False


class ApprovalCache:
    """The approvals for the session. Only ``approved_for_session`` decisions are remembered."""

    def __init__(self) -> None:
        self._approved: set[Hashable] = set()

    def covers(self, keys: Iterable[Hashable]) -> bool:
        """Return whether every key was approved for the session. Without keys, return False."""
        wanted = set(keys)
        return bool(wanted) and wanted <= self._approved

    def remember(self, keys: Iterable[Hashable], decision: ReviewDecision) -> None:
        """Remember a decision that lasts for the session; ignore others."""
        if decision.decision is Decision.APPROVED_FOR_SESSION:
            self._approved.update(keys)


def policy_actor(policy: AnyPolicy, causes: Sequence[str] = ()) -> Actor:
    """Return the actor that is recorded when the approval policy refuses.

    Args:
        causes: The causes, such as a command policy.
    """
    name = "granular" if isinstance(policy, GranularApproval) else policy.value
    return Actor(role="approval policy", name=name, causes=causes)


def judge_actor(judge: CommandPolicy) -> Actor:
    """Return the actor that is recorded when a command policy refuses."""
    return Actor(role="command policy", name=judge.name, plugin=getattr(judge, "plugin", ""))


def command_requirement(
    policy: AnyPolicy, escalate: str, verdict: CommandVerdict | None, *, fixed: bool = False
) -> ApprovalRequirement:
    """Return the approval that a command needs.

    Args:
        policy: The approval policy.
        escalate: The call's ``sandbox_permissions``.
        verdict: The most severe verdict of the command policies, or None if no policy has an opinion.
        fixed: Whether no approval lifts the limits of the turn.

    Raises:
        ToolRefused: The command may not run; the text is for the model.
    """
    if verdict is not None and verdict.verdict is Verdict.FORBID:
        raise ToolRefused(verdict.reason or "rejected: blocked by policy")
    if fixed and escalate != SandboxPermissions.USE_DEFAULT:
        raise ToolRefused(FIXED)
    if escalate != SandboxPermissions.USE_DEFAULT and not _allowed_outside(verdict):
        return _escalation(policy, escalate, verdict)
    if verdict is not None and verdict.verdict is Verdict.ASK:
        return _asking(policy, verdict)
    if verdict is not None:
        return ApprovalRequirement(ask=False, unconfined=verdict.bypass_sandbox)
    if policy is ApprovalPolicy.UNTRUSTED:
        return ApprovalRequirement(ask=True)
    return ApprovalRequirement(ask=False)


def _allowed_outside(verdict: CommandVerdict | None) -> bool:
    """Return whether a rule lets the command run unconfined, so that it needs no further permissions."""
    return verdict is not None and verdict.verdict is Verdict.ALLOW and verdict.bypass_sandbox


def _escalation(policy: AnyPolicy, escalate: str, verdict: CommandVerdict | None) -> ApprovalRequirement:
    may_ask = policy.sandbox_approval if isinstance(policy, GranularApproval) else policy is ApprovalPolicy.ON_REQUEST
    if may_ask:
        return ApprovalRequirement(
            ask=True,
            reason=(verdict.reason or None) if verdict is not None else None,
            unconfined=escalate == SandboxPermissions.REQUIRE_ESCALATED,
            amendment=None if verdict is None else verdict.amendment,
        )
    word = "Granular" if isinstance(policy, GranularApproval) else _WORDS[policy]
    if escalate != SandboxPermissions.REQUIRE_ESCALATED:
        raise ToolRefused(f"approval policy is {word}: additional permissions cannot be requested; work without them")
    raise ToolRefused(
        f"approval policy is {word}; reject command — you cannot ask for escalated permissions if the approval policy is {word}"
    )


def _asking(policy: AnyPolicy, verdict: CommandVerdict) -> ApprovalRequirement:
    if policy is ApprovalPolicy.NEVER:
        raise ToolRefused("approval required by policy, but AskForApproval is set to Never")
    if isinstance(policy, GranularApproval):
        if verdict.by_rule and not policy.rules:
            raise ToolRefused("approval required by policy rule, but AskForApproval::Granular.rules is false")
        if not verdict.by_rule and not policy.sandbox_approval:
            raise ToolRefused("approval required by policy, but AskForApproval::Granular.sandbox_approval is false")
    precaution = verdict.precaution and policy is not ApprovalPolicy.UNTRUSTED
    return ApprovalRequirement(
        ask=True, reason=verdict.reason or None, amendment=verdict.amendment, precaution=precaution
    )


def may_ask_about_hosts(policy: AnyPolicy) -> bool:
    """Return whether the user may be asked about a host that no rule matches."""
    return policy.sandbox_approval if isinstance(policy, GranularApproval) else policy is not ApprovalPolicy.NEVER


def may_retry(policy: AnyPolicy) -> bool:
    """Return whether the user may be asked to run a command again that the sandbox refused."""
    if isinstance(policy, GranularApproval):
        return policy.sandbox_approval
    return policy in (ApprovalPolicy.ON_FAILURE, ApprovalPolicy.UNTRUSTED)


def patch_paths(changes: Mapping[str, FileChange]) -> tuple[str, ...]:
    """Return all paths that the changes write, including move targets."""
    moved = (change.move_path for change in changes.values() if isinstance(change, UpdateFile) and change.move_path)
    return (*changes, *moved)


def folder_to_grant(access: FileAccess, paths: Iterable[str]) -> str | None:
    """Return a folder that, granted for the session, would make all these paths writable, or None if that would grant too much.

    It is the nearest folder around all paths that are not writable now. None is returned if this is the root, a folder
    directly below the root, the user's home, or a parent of the home, or if something in it is protected or denied.
    """
    outside = [os.path.realpath(os.path.dirname(path)) for path in paths if not access.may_write(Path(path))]  # noqa: PTH120
    if not outside:
        return None
    folder = Path(os.path.commonpath(outside))
    home = Path.home()
    if len(folder.parts) <= 2 or home.is_relative_to(folder):  # the root, or a folder directly below it
        return None
    blocked = any(rule.access is not AccessMode.WRITE and folder.is_relative_to(rule.path) for rule in access.rules)
    return None if blocked or access.denies_by_name(folder) else str(folder)


def patch_requirement(policy: AnyPolicy, access: FileAccess, changes: Mapping[str, FileChange]) -> ApprovalRequirement:
    """Return the approval that a patch needs.

    Raises:
        ToolRefused: The patch may not be applied; the text is for the model.
    """
    if not changes:
        raise ToolRefused("patch rejected: empty patch")
    within = all(access.may_write(Path(path)) for path in patch_paths(changes))
    if access.fixed and not within:
        raise ToolRefused(f"patch rejected: {deny_write_text(access)}; no approval lifts the limits of this thread")
    if within:
        return ApprovalRequirement(ask=policy is ApprovalPolicy.UNTRUSTED)
    if policy is ApprovalPolicy.NEVER or (isinstance(policy, GranularApproval) and not policy.sandbox_approval):
        raise ToolRefused(f"patch rejected: {deny_write_text(access)}; rejected by user approval settings")
    return ApprovalRequirement(ask=True, reason="the patch writes to paths that need approval", unconfined=True)
