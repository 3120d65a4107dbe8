"""The events of reviews."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg

__all__ = ["EnteredReviewModeEvent", "ExitedReviewModeEvent"]


class EnteredReviewModeEvent(EventMsg):
    """A review has begun. The item ``EnteredReviewMode``, which the record contains, has the same content.

    Attributes:
        target: The subject of the review, as in the op ``review``.
        user_facing_hint: The target in a few words.
    """

    type: ClassVar[Literal["entered_review_mode"]] = "entered_review_mode"
    target: Mapping[str, Any]
    user_facing_hint: str | None = None


class ExitedReviewModeEvent(EventMsg):
    """A review has ended. The item ``ExitedReviewMode``, which the record contains, says the same.

    Attributes:
        review_output: The findings (Codex's ``ReviewOutputEvent``). None if the review was interrupted or failed.
    """

    type: ClassVar[Literal["exited_review_mode"]] = "exited_review_mode"
    review_output: Mapping[str, Any] | None = None
