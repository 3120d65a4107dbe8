"""The reviewer, which is asked about every approval. Most of its code is imported at the first review."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework import ApprovalPolicy, ApprovalRequest, ApprovalReviewer, ReviewDecision, TurnContext, TurnFacts
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    ToolApprovalRequestEvent,
)
from codex_framework.contract.protocol.policies import GranularApproval

if TYPE_CHECKING:
    from codex_plugin_guardian.settings import Settings

__all__ = ["Guardian"]

_LIMIT_S = 88.0
"""Time limit of one review in seconds: Codex's and the kernel's 90 s, minus the time for shutting down the thread."""

_REVIEWERS = ("auto_review", "guardian_subagent")


class Guardian(ApprovalReviewer):
    """Lets a model decide about approval requests, if the setting ``approvals_reviewer`` selects it.

    Args:
        settings: Settings to use instead of the plugin's settings in the thread.
        limit_s: Time limit of one review in seconds.
    """

    name = "guardian"

    def __init__(self, settings: Settings | None = None, *, limit_s: float = _LIMIT_S) -> None:
        self._settings = settings
        self._limit_s = limit_s

    async def review(self, request: ApprovalRequest, turn: TurnContext) -> ReviewDecision | None:
        """Return a decision, or None if the user must be asked, because only the user can grant further permissions."""
        if not isinstance(
            request, (ExecApprovalRequestEvent, ApplyPatchApprovalRequestEvent, ToolApprovalRequestEvent)
        ):
            return None
        if not _is_active(turn.facts):
            return None
        from codex_plugin_guardian.review import decision
        from codex_plugin_guardian.settings import Settings

        settings = self._settings or turn.thread.plugin_settings(Settings)
        return await decision(request, turn, settings, min(self._limit_s, _configured_limit_s(turn.facts)))


def _configured_limit_s(facts: TurnFacts) -> float:
    """Return ``auto_review.timeout_ms`` in seconds."""
    table = facts.config.get("auto_review")
    limit_ms = table.get("timeout_ms") if isinstance(table, Mapping) else None
    return limit_ms / 1000 if type(limit_ms) is int else math.inf


def _is_active(facts: TurnFacts) -> bool:
    if facts.approvals_reviewer not in _REVIEWERS:
        return False
    policy = facts.approval_policy
    return policy is ApprovalPolicy.ON_REQUEST or isinstance(policy, GranularApproval)
