"""Who has to be asked before something happens, and what was answered for the whole session.

The rules are pure functions of policies and facts; asking itself is a step of the turn (see ``turn.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

from codex_framework.access import deny_write_text
from codex_framework.errors import ToolRefused
from codex_framework.protocol.events.command import FileChange, UpdateFile
from codex_framework.protocol.policies import (
    ApprovalPolicy,
    Decision,
    GranularApproval,
    ReviewDecision,
    SandboxPermissions,
)
from codex_framework.roles.deciders import CommandVerdict, Verdict
from codex_framework.roles.sandboxes import FileAccess
from codex_framework.value import Value

__all__ = ["ApprovalCache", "Requirement", "command_requirement", "patch_paths", "patch_requirement", "retry_allowed"]

AnyPolicy = ApprovalPolicy | GranularApproval

_WORDS = {
    ApprovalPolicy.UNTRUSTED: "UnlessTrusted",
    ApprovalPolicy.ON_FAILURE: "OnFailure",
    ApprovalPolicy.ON_REQUEST: "OnRequest",
    ApprovalPolicy.NEVER: "Never",
}
"""The policies as Codex words them to the model."""


class Requirement(Value):
    """What has to happen before a command starts.

    Attributes:
        ask: Whether an approval is needed.
        reason: Shown with the question.
        unconfined: Whether it then runs without a sandbox.
    """

    ask: bool
    reason: str | None = None
    unconfined: bool = False


class ApprovalCache:
    """What was approved for the session. Only ``approved_for_session`` is remembered."""

    def __init__(self) -> None:
        self._approved: set[Hashable] = set()

    def covers(self, keys: Iterable[Hashable]) -> bool:
        """Whether every key was approved for the session (and there is one)."""
        wanted = set(keys)
        return bool(wanted) and wanted <= self._approved

    def remember(self, keys: Iterable[Hashable], decision: ReviewDecision) -> None:
        """Keep a decision, if it is of the kind that lasts."""
        if decision.decision is Decision.APPROVED_FOR_SESSION:
            self._approved.update(keys)


def command_requirement(policy: AnyPolicy, escalate: str, verdict: CommandVerdict | None) -> Requirement:
    """What a command needs.

    Args:
        escalate: ``sandbox_permissions`` of the call.
        verdict: The most severe verdict of the command policies, or None where none has an opinion.

    Raises:
        ToolRefused: It may not run at all; the text is for the model.
    """
    if verdict is not None and verdict.verdict is Verdict.FORBID:
        raise ToolRefused(verdict.reason or "rejected: blocked by policy")
    if escalate != SandboxPermissions.USE_DEFAULT and not _allowed_outside(verdict):
        return _escalation(policy, escalate)
    if verdict is not None and verdict.verdict is Verdict.ASK:
        return _asking(policy, verdict.reason)
    if verdict is not None:
        return Requirement(ask=False, unconfined=verdict.bypass_sandbox)
    if policy is ApprovalPolicy.UNTRUSTED:
        return Requirement(ask=True)
    return Requirement(ask=False)


def _allowed_outside(verdict: CommandVerdict | None) -> bool:
    """Whether a rule lets the command run unconfined, so that there is nothing left to ask for."""
    return verdict is not None and verdict.verdict is Verdict.ALLOW and verdict.bypass_sandbox


def _escalation(policy: AnyPolicy, escalate: str) -> Requirement:
    if escalate != SandboxPermissions.REQUIRE_ESCALATED:
        raise ToolRefused(
            f"sandbox_permissions {escalate!r} is not available here; use 'use_default' or 'require_escalated'"
        )
    may_ask = policy.sandbox_approval if isinstance(policy, GranularApproval) else policy is ApprovalPolicy.ON_REQUEST
    if may_ask:
        return Requirement(ask=True, unconfined=True)
    word = "Granular" if isinstance(policy, GranularApproval) else _WORDS[policy]
    raise ToolRefused(
        f"approval policy is {word}; reject command — you cannot ask for escalated permissions if the approval policy is {word}"
    )


def _asking(policy: AnyPolicy, reason: str) -> Requirement:
    if policy is ApprovalPolicy.NEVER:
        raise ToolRefused("approval required by policy, but AskForApproval is set to Never")
    if isinstance(policy, GranularApproval) and not policy.rules:
        raise ToolRefused("approval required by policy rule, but AskForApproval::Granular.rules is false")
    return Requirement(ask=True, reason=reason or None)


def retry_allowed(policy: AnyPolicy) -> bool:
    """Whether a command that the sandbox refused may be offered again without it."""
    if isinstance(policy, GranularApproval):
        return policy.sandbox_approval
    return policy in (ApprovalPolicy.ON_FAILURE, ApprovalPolicy.UNTRUSTED)


def patch_paths(changes: Mapping[str, FileChange]) -> tuple[str, ...]:
    """Every path the changes write, move targets included."""
    moved = (change.move_path for change in changes.values() if isinstance(change, UpdateFile) and change.move_path)
    return (*changes, *moved)


def patch_requirement(policy: AnyPolicy, access: FileAccess, changes: Mapping[str, FileChange]) -> Requirement:
    """What a patch needs.

    Raises:
        ToolRefused: It may not be applied; the text is for the model.
    """
    if not changes:
        raise ToolRefused("patch rejected: empty patch")
    if policy is ApprovalPolicy.UNTRUSTED:
        return Requirement(ask=True)
    if all(access.may_write(Path(path)) for path in patch_paths(changes)):
        return Requirement(ask=False)
    if policy is ApprovalPolicy.NEVER or (isinstance(policy, GranularApproval) and not policy.sandbox_approval):
        raise ToolRefused(f"patch rejected: {deny_write_text(access)}; rejected by user approval settings")
    return Requirement(ask=True, reason="the patch writes outside of what may be written without asking")
