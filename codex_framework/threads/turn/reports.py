"""What a turn reports about decisions, refusals and changes: to telemetry, and to the thread's record if it has one.

Apart from ``scope``: a turn that nobody records or measures has none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from codex_framework.contract.errors import StopTurn
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor, Change, Deed, Passage, Provenance
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.interceptor_table import Guard
from codex_framework.threads.provenance import TurnTrail
from codex_framework.threads.turn.telemetry import TurnTelemetry

__all__ = ["TurnReports"]


class TurnReports:
    """The reports of one turn. They are synchronous, because the order of the lines in the record has a meaning.

    Args:
        redactors: The interceptors that redact. Nothing secret is recorded.
        facts: Returns the facts of the turn.

    Attributes:
        telemetry: What the turn reports to telemetry.
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
        """Report a decision that nobody was asked for: it follows from the configuration, or from an earlier answer of the user."""
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
