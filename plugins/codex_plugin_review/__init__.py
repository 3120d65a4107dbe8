"""Reviews of code changes: a separate thread with its own instructions reads them and returns structured findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import EventMsg, ExecCommand, OpHandler, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_review.events import EnteredReviewModeEvent, ExitedReviewModeEvent
    from codex_plugin_review.ops import Review, ReviewRequest
else:
    __getattr__ = lazy_exports(
        __name__, {"events": "EnteredReviewModeEvent ExitedReviewModeEvent", "ops": "Review ReviewRequest"}
    )

__all__ = [
    "EnteredReviewModeEvent",
    "ExitedReviewModeEvent",
    "Review",
    "ReviewRequest",
    "codex_events",
    "codex_exec_commands",
    "codex_ops",
]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``entered_review_mode`` and ``exited_review_mode``."""
    from codex_plugin_review.events import EnteredReviewModeEvent, ExitedReviewModeEvent

    return [EnteredReviewModeEvent, ExitedReviewModeEvent]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``review``."""
    from codex_plugin_review.ops import ReviewHandler

    return [ReviewHandler()]


@hookimpl
def codex_exec_commands() -> Iterable[ExecCommand]:
    """Offer ``exec review``."""
    from codex_plugin_review.cli import COMMAND

    return [COMMAND]
