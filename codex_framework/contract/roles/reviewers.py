"""The role of an approval reviewer: it answers an approval in place of a person."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from codex_framework.contract.protocol.events.requests import ApprovalRequest
from codex_framework.contract.protocol.policies import ReviewDecision
from codex_framework.contract.roles.threads import TurnContext

__all__ = ["ApprovalReviewer"]


class ApprovalReviewer:
    """Answers approvals: of commands, patches, permissions, hosts and tool calls. The first answer wins.

    Attributes:
        name: Short and unique.
        order: Its place among the reviewers, smallest first.
    """

    name: ClassVar[str] = ""
    order: int = 100

    @abstractmethod
    async def review(self, request: ApprovalRequest, turn: TurnContext) -> ReviewDecision | None:
        """Return a decision, or None to leave it to the next reviewer and in the end to a person.

        An exception, or no answer within 90 s, denies. ``ReviewDecision.message`` is what the model reads of a refusal; with
        ``abort`` the turn ends, and people read it.
        """
        raise NotImplementedError
