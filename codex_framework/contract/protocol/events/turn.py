"""The life of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.value import Value, field

__all__ = [
    "ErrorEvent",
    "PlanStep",
    "PlanUpdateEvent",
    "StreamErrorEvent",
    "TokenCountEvent",
    "TokenUsage",
    "TokenUsageInfo",
    "TurnAbortedEvent",
    "TurnCompleteEvent",
    "TurnDiffEvent",
    "TurnStartedEvent",
]


class TokenUsage(Value):
    """Tokens of one response, or the sum over several.

    Attributes:
        input_tokens: Tokens of the request, including those from and for the provider's cache.
        cached_input_tokens: Input tokens that the provider had in its cache.
        output_tokens: Tokens of the response, including reasoning.
        reasoning_output_tokens: Output tokens used for reasoning.
        total_tokens: ``input_tokens`` and ``output_tokens``.
        cache_write_input_tokens: Tokens of the request that the provider has put into its cache.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0
    cache_write_input_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Add field by field."""
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_output_tokens + other.reasoning_output_tokens,
            self.total_tokens + other.total_tokens,
            self.cache_write_input_tokens + other.cache_write_input_tokens,
        )

    def plausible(self) -> TokenUsage:
        """Return the counts with 0 for each that is no whole number between 0 and 2**53 - 1, which every reader of JSON can keep."""
        wrong = [name for name in _COUNTS if type(n := getattr(self, name)) is not int or not 0 <= n < _MOST]
        return self.evolve(**dict.fromkeys(wrong, 0)) if wrong else self

    @property
    def blended_total(self) -> int:
        """Uncached input plus output, which Codex prints as "tokens used"."""
        return max(self.input_tokens - self.cached_input_tokens, 0) + self.output_tokens


_MOST = 1 << 53
_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
    "cache_write_input_tokens",
)


class TokenUsageInfo(Value):
    """The usage of the thread so far, and of its last response."""

    total_token_usage: TokenUsage
    last_token_usage: TokenUsage
    model_context_window: int | None = None


class TurnStartedEvent(EventMsg):
    """A turn has begun (``started_at``: unix seconds)."""

    type: ClassVar[Literal["task_started"]] = "task_started"
    kept = True
    turn_id: str
    started_at: int | None = None
    model_context_window: int | None = None
    collaboration_mode_kind: str = "default"


class TurnCompleteEvent(EventMsg):
    """A turn has ended without being interrupted. A failed turn ends with an ``error`` event followed by this event.

    Attributes:
        started_at: Unix seconds, like ``completed_at``.
        error: Why the turn failed: ``{"message", "codex_error_info"}``. None if it did not fail.
    """

    type: ClassVar[Literal["task_complete"]] = "task_complete"
    kept = True
    turn_id: str
    last_agent_message: str | None = field(default=None)  # no class attribute, so that a record can keep it packed
    completed_at: int | None = None
    duration_ms: int | None = None
    time_to_first_token_ms: int | None = None
    started_at: int | None = None
    error: Mapping[str, Any] | None = None


class TurnAbortedEvent(EventMsg):
    """A turn was stopped. ``reason`` is ``interrupted``, ``replaced``, ``review_ended`` or ``budget_limited``."""

    type: ClassVar[Literal["turn_aborted"]] = "turn_aborted"
    kept = True
    turn_id: str | None
    reason: str
    completed_at: int | None = None
    duration_ms: int | None = None
    started_at: int | None = None


class TokenCountEvent(EventMsg):
    """Token usage after a response."""

    type: ClassVar[Literal["token_count"]] = "token_count"
    kept = True
    info: TokenUsageInfo | None = None
    rate_limits: Mapping[str, Any] | None = None


class TurnDiffEvent(EventMsg):
    """All file changes of the turn so far, as one unified diff."""

    type: ClassVar[Literal["turn_diff"]] = "turn_diff"
    unified_diff: str


class PlanStep(Value):
    """One step of the plan. ``status`` is ``pending``, ``in_progress`` or ``completed``."""

    step: str
    status: str


class PlanUpdateEvent(EventMsg):
    """The model has written or changed its plan."""

    type: ClassVar[Literal["plan_update"]] = "plan_update"
    plan: tuple[PlanStep, ...]
    explanation: str | None = None


class ErrorEvent(EventMsg):
    """The turn has failed, or an op was refused.

    Attributes:
        codex_error_info: The ``CodexErrorInfo`` wire value: a name, or ``{name: {"http_status_code": n}}``.
        slug: The heading in ``docs/errors.md`` that explains it. Errors with the same message are equal, whatever their slugs.
    """

    type: ClassVar[Literal["error"]] = "error"
    message: str
    codex_error_info: str | Mapping[str, Any] | None = None
    slug: str = field(default="error", eq=False, repr=False)


class StreamErrorEvent(EventMsg):
    """A response broke off and is requested again."""

    type: ClassVar[Literal["stream_error"]] = "stream_error"
    message: str
    codex_error_info: str | Mapping[str, Any] | None = None
    additional_details: str | None = None
