"""Approval reviewer: a model decides about approval requests in place of the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import ApprovalReviewer, EventMsg, OpHandler, hookimpl

__all__ = ["codex_approval_reviewers", "codex_events", "codex_ops", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.guardian]``."""
    from codex_plugin_guardian.settings import Settings

    return Settings


@hookimpl
def codex_approval_reviewers() -> Iterable[ApprovalReviewer]:
    """Offer the reviewer ``guardian``."""
    from codex_plugin_guardian.reviewer import Guardian

    return [Guardian()]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``guardian_assessment`` and ``guardian_warning``."""
    from codex_plugin_guardian.events import GuardianAssessmentEvent, GuardianWarningEvent

    return [GuardianAssessmentEvent, GuardianWarningEvent]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of ``approve_guardian_denied_action``."""
    from codex_plugin_guardian.ops import ApproveHandler

    return [ApproveHandler()]
