"""The role of an approval reviewer, which answers requests for approval instead of the user."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from codex_framework.contract.protocol.events.requests import ApprovalRequest
from codex_framework.contract.protocol.policies import ReviewDecision
from codex_framework.contract.roles.threads import TurnContext

__all__ = ["ApprovalReviewer"]


class ApprovalReviewer:
    """Answers requests to approve commands, patches, permissions, hosts and tool calls. The first answer is used.

    Attributes:
        name: Short and unique.
        order: Its position among the reviewers, smallest first.
        time_limit_s: Time limit of :meth:`review`, in seconds.
    """

    name: ClassVar[str] = ""
    order: int = 100
    time_limit_s: float = 90.0

    @abstractmethod
    async def review(self, request: ApprovalRequest, turn: TurnContext) -> ReviewDecision | None:
        """Return a decision, or None to pass the request to the next reviewer and finally to the user.

        If it raises or takes longer than ``time_limit_s``, the request is denied. The model reads ``ReviewDecision.message`` after
        a refusal. With ``abort`` the turn ends, and the user reads it.
        """
        raise NotImplementedError
