"""The event with which clients follow a review. This module is loaded with the plugin, so it imports nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg
from codex_framework.contract.protocol.events.thread import WarningEvent

__all__ = ["GuardianAssessmentEvent", "GuardianWarningEvent"]


class GuardianWarningEvent(WarningEvent):
    """A notice about a review that did not approve. Clients that do not know it can show it as any warning."""

    type: ClassVar[Literal["guardian_warning"]] = "guardian_warning"  # type: ignore[assignment]  # a kind of its own


class GuardianAssessmentEvent(EventMsg, kw_only=True):
    """The state of a review.

    Attributes:
        id: The review.
        target_item_id: The call whose action is reviewed.
        started_at_ms, completed_at_ms: Unix time in milliseconds.
        status: ``in_progress``, ``approved``, ``denied``, ``timed_out`` or ``aborted``.
        action: The requested action, with its ``type``.
        risk_level: ``low``, ``medium``, ``high`` or ``critical``.
        user_authorization: How clearly the user has authorized it: ``unknown``, ``low``, ``medium`` or ``high``.
        decision_source: ``agent`` if the model decided. None if the user decided, or no decision was made.
    """

    type: ClassVar[Literal["guardian_assessment"]] = "guardian_assessment"
    id: str
    turn_id: str
    started_at_ms: int
    status: str
    action: Mapping[str, Any]
    target_item_id: str | None = None
    completed_at_ms: int | None = None
    risk_level: str | None = None
    user_authorization: str | None = None
    rationale: str | None = None
    decision_source: str | None = None
