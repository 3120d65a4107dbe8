"""What a turn reports to telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context
from typing import Any

from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.spans import RunningSpan, context_of, event, span_of
from codex_framework.toolkit.spans import NO_SPAN, NoSpan

__all__ = ["TurnTelemetry"]


class TurnTelemetry:
    """The measurements of one turn. Without telemetry, every method does nothing.

    Attributes:
        span: The span of the turn.
    """

    def __init__(self, broadcast: Broadcast, thread_id: str, turn_id: str) -> None:
        self.span: RunningSpan | NoSpan = NO_SPAN
        self._broadcast = broadcast
        self._thread_id = thread_id
        self._turn_id = turn_id
        self._call_names: dict[str, str] = {}

    @property
    def measures(self) -> bool:
        """Whether there is telemetry."""
        return self._broadcast.measures

    def begin(self, **attributes: Any) -> None:
        """Begin the span of the turn."""
        if self._broadcast.measures:
            self.span = self.measuring("codex.turn", **attributes)
            self.span.begin()

    def measuring(self, name: str, **attributes: Any) -> RunningSpan | NoSpan:
        """Return a span of this turn, within the current span."""
        if not self._broadcast.measures:
            return NO_SPAN
        thread_id, turn_id, place = self._thread_id, self._turn_id, self.span.place
        return span_of(
            self._broadcast, name, thread_id=thread_id, turn_id=turn_id, attributes=attributes, default=place
        )

    def measured_call(self, call_id: str, name: str) -> None:
        """Note the name of a call's tool, for the decisions about the call."""
        if self.span.place is not None:
            self._call_names[call_id] = name

    def decided(self, call_id: str, decision: str, source: str = "config") -> None:
        """Report a decision about a call.

        Args:
            decision: ``approved``, ``approved_for_session``, ``denied``, ...
            source: ``config``, ``user`` or ``automated_reviewer``.
        """
        name = self._call_names.get(call_id, "")
        told = {"tool_name": name, "call_id": call_id, "decision": decision, "source": source}
        self.happened("codex.tool_decision", told)

    def happened(
        self, name: str, attributes: Mapping[str, Any], content: Mapping[str, str] | None = None, **measured: Any
    ) -> None:
        """Report an event. The further arguments are fields of a ``Measurement``."""
        if self._broadcast.measures:
            if content:
                measured["content"] = content
            place, thread_id, turn_id = self.span.place, self._thread_id, self._turn_id
            event(self._broadcast, name, attributes, default=place, thread_id=thread_id, turn_id=turn_id, **measured)

    def prompted(self, message: UserMessageEvent, text: str) -> None:
        """Report input of the user.

        Args:
            text: Its text, redacted.
        """
        self.happened(
            "codex.user_prompt",
            {
                "prompt_length": len(message.message),
                "text_input_count": int(bool(message.message)),
                "image_input_count": len(message.images or ()),
                "local_image_input_count": len(message.local_images),
            },
            {"prompt": text},
        )

    def task_context(self) -> Context | None:
        """Return the context of a task of this turn, which begins below the turn's span. None means the current context."""
        return context_of(self.span.place)
