"""The op ``review`` and its handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, Value

__all__ = ["Review", "ReviewHandler", "ReviewRequest"]


class ReviewRequest(Value):
    """The request for a review.

    Attributes:
        target: ``{"type": "uncommittedChanges"}``, ``{"type": "baseBranch", "branch"}``, ``{"type": "commit", "sha",
            "title"?}`` or ``{"type": "custom", "instructions"}``.
        prompt: The instructions in words, which older clients (2025) send instead of ``target``.
        user_facing_hint: The target in a few words, for users. None if it is derived from the target.
    """

    target: Mapping[str, Any] | None = None
    user_facing_hint: str | None = None
    prompt: str | None = None

    @property
    def whole_target(self) -> Mapping[str, Any] | None:
        """The target, whichever form the client has used."""
        if self.target is None and self.prompt is not None:
            return {"type": "custom", "instructions": self.prompt}
        return self.target


class Review(Op):
    """Review code changes in a separate thread, and record the findings in this thread."""

    type: ClassVar[Literal["review"]] = "review"
    review_request: ReviewRequest


class ReviewHandler(OpHandler[Review]):
    """Starts the review as a turn."""

    op = Review

    async def handle(self, op: Review, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Start the task under the submission's id.

        Raises:
            ThreadError: The target is invalid, or a turn is running.
        """
        from codex_plugin_review.targets import target_of
        from codex_plugin_review.task import Reviewing

        target = target_of(op.review_request.whole_target)
        thread.start_task(Reviewing(), (target, op.review_request.user_facing_hint), id=id)
