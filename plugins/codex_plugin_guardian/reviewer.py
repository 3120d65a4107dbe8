"""The reviewer, which is asked about every approval; most of it is loaded when there is something to review."""

from __future__ import annotations

from codex_framework import ApprovalPolicy, ReviewDecision, ReviewFacts
from codex_framework.protocol.events.command import ApplyPatchApprovalRequestEvent, ExecApprovalRequestEvent
from codex_framework.protocol.policies import GranularApproval

__all__ = ["Guardian"]

_LIMIT_S = 88.0
"""Longest time of one review, in seconds: Codex's 90 s, which are the kernel's too, less what taking the thread down may cost."""

_REVIEWERS = ("auto_review", "guardian_subagent")


class Guardian:
    """Has a model judge approval requests, where ``approvals_reviewer`` in config says so.

    Args:
        limit_s: Longest time of one review, in seconds.
    """

    name = "guardian"

    def __init__(self, limit_s: float = _LIMIT_S) -> None:
        self._limit_s = limit_s

    async def review(
        self, request: ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent, facts: ReviewFacts
    ) -> ReviewDecision | None:
        """A decision; None where a person is to be asked."""
        if not _is_active(facts):
            return None
        from codex_plugin_guardian.review import decision

        return await decision(request, facts, self._limit_s)


def _is_active(facts: ReviewFacts) -> bool:
    if facts.config.get("approvals_reviewer") not in _REVIEWERS:
        return False
    policy = facts.approval_policy
    return policy is ApprovalPolicy.ON_REQUEST or isinstance(policy, GranularApproval)
