"""The reports of a turn: to telemetry, and about decisions, refusals and changes to the thread's record."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeAlias

from codex_framework.contract.errors import ModelError, StopTurn
from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import Completed, ModelRequest
from codex_framework.contract.roles.provenance import Actor, Change, Deed, Passage, Provenance
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.interceptor_table import Guard
from codex_framework.threads.provenance import TurnTrail
from codex_framework.threads.spans import RunningSpan, context_of, event, span_of
from codex_framework.threads.turn.calls import text_of
from codex_framework.toolkit.spans import NO_SPAN, NoSpan

if TYPE_CHECKING:
    from codex_framework.threads.tool_router import ToolRouter

__all__ = ["TurnReports", "TurnTelemetry"]

Answer: TypeAlias = "Callable[[ToolCall, ToolRouter], Awaitable[tuple[ToolOutput, str | None]]]"
"""Runs a call. Returns its output, and why the turn must end if it must."""


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
            self.span = self.measure("codex.turn", **attributes)
            self.span.begin()

    def measure(self, name: str, **attributes: Any) -> RunningSpan | NoSpan:
        """Return a span of this turn, within the current span."""
        if not self._broadcast.measures:
            return NO_SPAN
        thread_id, turn_id, place = self._thread_id, self._turn_id, self.span.place
        return span_of(
            self._broadcast, name, thread_id=thread_id, turn_id=turn_id, attributes=attributes, default=place
        )

    def measure_calls(self, answer: Answer, redact: Callable[[str], str]) -> Answer:
        """Return the function that answers calls, with a span around each call if there is telemetry."""
        if not self._broadcast.measures:
            return answer

        async def answer_in_span(call: ToolCall, router: ToolRouter) -> tuple[ToolOutput, str | None]:
            registered = router.find(call.name)
            if self.span.place is not None:  # for the decisions about the call
                self._call_names[call.call_id] = call.name
            plugin = "" if registered is None else registered.plugin
            with self.measure("codex.tool.call", tool_name=call.name, call_id=call.call_id, plugin=plugin) as span:
                output, fatal = await answer(call, router)
                span.set(success=output.success)
                span.tell(arguments=redact(call.arguments), output=text_of(output))
            return output, fatal

        return answer_in_span

    async def measure_sample(
        self,
        request: ModelRequest,
        provider: str,
        sample: Callable[[ModelRequest], Awaitable[Completed | None]],
        first_token_at: Callable[[], float | None],
    ) -> Completed | None:
        """Sample the model within a span."""
        told = {} if request.reasoning_effort is None else {"reasoning_effort": request.reasoning_effort}
        with self.measure("codex.sampling", model=request.model.slug, provider=provider, **told) as span:
            began = time.monotonic()
            try:
                completed = await sample(request)
            except ModelError as error:
                span.set(**{"error.type": error.slug})
                raise
            finally:
                if (first := first_token_at()) is not None:
                    span.set(ttft_ms=int((first - began) * 1000))
            span.set(success=completed is not None, **_usage(completed))
            return completed

    def report_decision(self, call_id: str, decision: str, source: str = "config") -> None:
        """Report a decision about a call.

        Args:
            decision: ``approved``, ``approved_for_session``, ``denied``, ...
            source: ``config``, ``user`` or ``automated_reviewer``.
        """
        name = self._call_names.get(call_id, "")
        told = {"tool_name": name, "call_id": call_id, "decision": decision, "source": source}
        self.report_event("codex.tool_decision", told)

    def report_event(
        self, name: str, attributes: Mapping[str, Any], content: Mapping[str, str] | None = None, **measured: Any
    ) -> None:
        """Report an event. The further arguments are fields of a ``Measurement``."""
        if self._broadcast.measures:
            if content:
                measured["content"] = content
            place, thread_id, turn_id = self.span.place, self._thread_id, self._turn_id
            event(self._broadcast, name, attributes, default=place, thread_id=thread_id, turn_id=turn_id, **measured)

    def report_prompt(self, message: UserMessageEvent, text: str) -> None:
        """Report input of the user.

        Args:
            text: Its text, redacted.
        """
        self.report_event(
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
        """Return the context of a task that begins below the turn's span, if there is telemetry."""
        return context_of(self.span.place)


def _usage(completed: Completed | None) -> dict[str, str | int]:
    """Return the telemetry fields of a response."""
    if completed is None or completed.usage is None:
        return {}
    usage = completed.usage.plausible()
    return {
        "response_id": completed.response_id,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_input_tokens": usage.cache_write_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_output_tokens,
        "total_tokens": usage.total_tokens,
    }


class TurnReports:
    """The reports of one turn. They are synchronous, because the order of the lines in the record has a meaning.

    Args:
        redactors: The interceptors that redact. Nothing secret is recorded.
        facts: Returns the facts of the turn.

    Attributes:
        telemetry: The turn's telemetry.
    """

    def __init__(
        self, conversation: Conversation, turn_id: str, redactors: Sequence[Guard], facts: Callable[[], TurnFacts]
    ) -> None:
        self.telemetry = TurnTelemetry(conversation.host.broadcast, conversation.id, turn_id)
        self._conversation = conversation
        self._turn_id = turn_id
        self._redactors = redactors
        self._facts = facts
        self._trail: TurnTrail | None = None

    @property
    def trail(self) -> TurnTrail | None:
        """The provenance of the turn, made at its first use, or None if nothing is recorded."""
        trail = self._conversation.trail
        if not trail.keeps:
            return None
        if self._trail is None:
            self._trail = trail.for_turn(self._turn_id, self._redact if self._redactors else None)
        return self._trail

    def report_changes(
        self, what: str, changes: Sequence[Change], call: ToolCall | None = None, sample: int | None = None
    ) -> None:
        """Report all changes of a value on its way through the interceptors."""
        if not changes and self._trail is None:  # else a request without changes ends those of the one before
            return
        if (trail := self.trail) is not None:
            trail.record_passage(Passage(what=what, changes=changes, call=call, sample=sample))

    def report_end(
        self,
        what: str,
        changes: Sequence[Change],
        by: Actor,
        error: Exception,
        seconds: float,
        call: ToolCall | None = None,
    ) -> None:
        """Report that an interceptor refused a value or ended the turn."""
        if (trail := self.trail) is None:
            return
        if changes:
            trail.record_passage(Passage(what=what, changes=changes, call=call, refused=True))
        did: Deed = "stopped" if isinstance(error, StopTurn) else "refused"
        self._record(
            did,
            what,
            by,
            reason=str(error),
            seconds=seconds,
            call_id=None if call is None else call.call_id,
            tool=None if call is None else call.name,
        )

    def report_decision(self, call_id: str, decision: str, source: str = "config") -> None:
        """Report a decision made without asking: it follows from the configuration, or from an earlier answer of the user."""
        self.telemetry.report_decision(call_id, decision, source)
        if source == "user":
            by = Actor(role="user", causes=("an earlier answer, for the session",))
            self._record("decided", "approval", by, call_id=call_id or None, decision="approved_for_session")

    def report_answer(
        self, call_id: str, by: Actor, decision: str, source: str, reason: str | None, seconds: float
    ) -> None:
        """Report the answer to an approval request."""
        self.telemetry.report_decision(call_id, decision, source)
        self._record(
            "decided", "approval", by, call_id=call_id or None, decision=decision, reason=reason, seconds=seconds
        )

    def report_refusal(self, call_id: str | None, by: Actor, reason: str, tool: str | None = None) -> None:
        """Report who refused a call, or something in it."""
        self._record("refused", "call", by, call_id=call_id, tool=tool, reason=reason)

    def report_redaction(self, call_id: str | None, by: Iterable[Guard], places: Sequence[str]) -> None:
        """Report which interceptors redacted texts of a call, and where: ``output``, or an event and its field."""
        for guard in by:
            actor = Actor(role="interceptor", name=guard.name, plugin=guard.plugin)
            self._record("redacted", "text", actor, call_id=call_id, withheld=places)

    def _record(self, did: Deed, what: str, by: Actor, **fields: Any) -> None:
        if (trail := self.trail) is not None:
            trail.record(Provenance(did=did, what=what, by=by, **fields))

    def _redact(self, text: str) -> str:
        """Return a text without what interceptors keep secret. If one of them fails, the whole text is removed."""
        for guard in self._redactors:
            try:
                found: Any = guard.call(text, self._facts())
            except Exception:  # reported where the text itself is redacted
                found = None
            text = found if isinstance(found, str) else "[withheld]"
        return text
