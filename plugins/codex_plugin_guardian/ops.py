"""The op with which the user approves a refused action.

This module is loaded with the plugin, so it imports nothing else of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError

__all__ = ["ApproveGuardianDeniedAction", "ApproveHandler"]


class ApproveGuardianDeniedAction(Op):
    """Approve an action that a review has refused. The approval counts for one request of exactly this action.

    Attributes:
        event: The event ``guardian_assessment`` of the review.
    """

    type: ClassVar[Literal["approve_guardian_denied_action"]] = "approve_guardian_denied_action"
    event: Mapping[str, Any]


class ApproveHandler(OpHandler[ApproveGuardianDeniedAction]):
    """Handles ``approve_guardian_denied_action``."""

    op = ApproveGuardianDeniedAction

    async def handle(self, op: ApproveGuardianDeniedAction, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Remember the approval, and tell the model about it.

        Raises:
            ThreadError: The review did not refuse, or belongs to another thread.
        """
        from codex_framework.contract.protocol.items import user_message
        from codex_plugin_guardian.assessments import Refused

        review = op.event.get("id")
        known = isinstance(review, str) and op.event.get("status") == "denied"
        action = thread.state(Refused, Refused).approve(str(review)) if known else None
        if action is None:
            raise ThreadError(
                "no refused action of this thread has this review",
                slug="bad-request",
                hint="Send the event of a review with the status denied, once, while the thread runs.",
            )
        what = json.dumps({"action": action, "outcome": "allowed"}, ensure_ascii=True)
        text = (
            "The user has read why automatic review refused the following action, and approves it. You may request exactly this"
            f" action once more, for the purpose you had. Nothing else is approved by this, not even something similar.\n{what}"
        )
        thread.deliver([user_message(text, role="developer")])
