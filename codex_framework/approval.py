"""Who has to be asked before something happens, and what was answered for the whole session.

The rules are pure functions of policies and facts; asking itself is a step of the turn (see ``turn.py``).
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

from codex_framework.access import deny_write_text
from codex_framework.errors import ToolRefused
from codex_framework.protocol.events.command import FileChange, UpdateFile
from codex_framework.protocol.permissions import AccessMode
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

__all__ = [
    "ApprovalCache",
    "Requirement",
    "command_requirement",
    "folder_to_grant",
    "may_ask_about_hosts",
    "patch_paths",
    "patch_requirement",
    "retry_allowed",
]

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
        amendment: A prefix that could be allowed from now on, to offer with the question.
    """

    ask: bool
    reason: str | None = None
    unconfined: bool = False
    amendment: tuple[str, ...] | None = None


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
        return _escalation(policy, escalate, verdict)
    if verdict is not None and verdict.verdict is Verdict.ASK:
        return _asking(policy, verdict)
    if verdict is not None:
        return Requirement(ask=False, unconfined=verdict.bypass_sandbox)
    if policy is ApprovalPolicy.UNTRUSTED:
        return Requirement(ask=True)
    return Requirement(ask=False)


def _allowed_outside(verdict: CommandVerdict | None) -> bool:
    """Whether a rule lets the command run unconfined, so that there is nothing left to ask for."""
    return verdict is not None and verdict.verdict is Verdict.ALLOW and verdict.bypass_sandbox


def _escalation(policy: AnyPolicy, escalate: str, verdict: CommandVerdict | None) -> Requirement:
    may_ask = policy.sandbox_approval if isinstance(policy, GranularApproval) else policy is ApprovalPolicy.ON_REQUEST
    if may_ask:
        return Requirement(
            ask=True,
            reason=(verdict.reason or None) if verdict is not None else None,
            unconfined=escalate == SandboxPermissions.REQUIRE_ESCALATED,
            amendment=None if verdict is None else verdict.amendment,
        )
    word = "Granular" if isinstance(policy, GranularApproval) else _WORDS[policy]
    if escalate != SandboxPermissions.REQUIRE_ESCALATED:
        raise ToolRefused(f"approval policy is {word}: additional permissions cannot be asked for; work without them")
    raise ToolRefused(
        f"approval policy is {word}; reject command — you cannot ask for escalated permissions if the approval policy is {word}"
    )


def _asking(policy: AnyPolicy, verdict: CommandVerdict) -> Requirement:
    if policy is ApprovalPolicy.NEVER:
        raise ToolRefused("approval required by policy, but AskForApproval is set to Never")
    if isinstance(policy, GranularApproval):
        if verdict.by_rule and not policy.rules:
            raise ToolRefused("approval required by policy rule, but AskForApproval::Granular.rules is false")
        if not verdict.by_rule and not policy.sandbox_approval:
            raise ToolRefused("approval required by policy, but AskForApproval::Granular.sandbox_approval is false")
    return Requirement(ask=True, reason=verdict.reason or None, amendment=verdict.amendment)


def may_ask_about_hosts(policy: AnyPolicy) -> bool:
    """Whether a person may be asked about a host that no rule speaks of."""
    return policy.sandbox_approval if isinstance(policy, GranularApproval) else policy is not ApprovalPolicy.NEVER


def retry_allowed(policy: AnyPolicy) -> bool:
    """Whether a command that the sandbox refused may be offered again without it."""
    if isinstance(policy, GranularApproval):
        return policy.sandbox_approval
    return policy in (ApprovalPolicy.ON_FAILURE, ApprovalPolicy.UNTRUSTED)


def patch_paths(changes: Mapping[str, FileChange]) -> tuple[str, ...]:
    """Every path the changes write, move targets included."""
    moved = (change.move_path for change in changes.values() if isinstance(change, UpdateFile) and change.move_path)
    return (*changes, *moved)


def folder_to_grant(access: FileAccess, paths: Iterable[str]) -> str | None:
    """A folder whose grant for the session would let all these paths be written; None where it would be too much.

    That is the nearest folder around what may not be written now, unless it is the root, a folder right below it, the person's
    home, or around either; nor may anything in it be kept from them on purpose (a protected name, an entry).
    """
    outside = [os.path.realpath(os.path.dirname(path)) for path in paths if not access.may_write(Path(path))]  # noqa: PTH120
    if not outside:
        return None
    folder = Path(os.path.commonpath(outside))
    home = Path.home()
    if len(folder.parts) <= 2 or home.is_relative_to(folder):  # the root and one name
        return None
    blocked = any(rule.access is not AccessMode.WRITE and folder.is_relative_to(rule.path) for rule in access.rules)
    return None if blocked or access.denies_by_name(folder) else str(folder)


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
