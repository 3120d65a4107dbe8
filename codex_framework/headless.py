"""Answers where nobody is there to answer: no, at once, so that nothing waits for ever."""

from __future__ import annotations

from codex_framework.protocol.events import ApprovalEvent, EventMsg
from codex_framework.protocol.events.command import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
)
from codex_framework.protocol.ops import (
    ExecApproval,
    Op,
    PatchApproval,
    PermissionsResponse,
    RequestPermissionsResponse,
)
from codex_framework.protocol.policies import Decision, ReviewDecision

__all__ = ["APPROVAL_EVENTS", "denial", "question"]

APPROVAL_EVENTS = (ExecApprovalRequestEvent, ApplyPatchApprovalRequestEvent, RequestPermissionsEvent)


def question(msg: EventMsg) -> str | None:
    """What an event asks about, in a few words; None where it is no question."""
    match msg:
        case ExecApprovalRequestEvent():
            return f"the command {' '.join(msg.command)}"
        case ApplyPatchApprovalRequestEvent():
            return f"a patch of {', '.join(sorted(msg.changes))}"
        case RequestPermissionsEvent():
            return "further permissions"
        case _:
            return None


def denial(msg: ApprovalEvent) -> Op:
    """The op that answers a question with no."""
    no = ReviewDecision(Decision.DENIED)
    match msg:
        case ExecApprovalRequestEvent():
            return ExecApproval(msg.approval_id or msg.call_id, no, msg.turn_id)
        case ApplyPatchApprovalRequestEvent():
            return PatchApproval(msg.call_id, no)
        case RequestPermissionsEvent():
            return RequestPermissionsResponse(msg.call_id, PermissionsResponse(permissions={}))
