"""What a turn reports about decisions, refusals and changes: to telemetry, and to the thread's record if it has one.

Apart from ``scope``: a turn that nobody records or measures has none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.interceptor_table import Guard
from codex_framework.threads.provenance import Change
from codex_framework.threads.turn.telemetry import TurnTelemetry

if TYPE_CHECKING:
    from codex_framework.threads.turn.provenance_recorder import ProvenanceRecorder

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
        self._recorder: ProvenanceRecorder | None = None

    @property
    def recorder(self) -> ProvenanceRecorder | None:
        """The recorder, made at its first use, or None if the thread has no record."""
        trail = self._conversation.trail
        if not trail.keeps:
            return None
        if self._recorder is None:
            from codex_framework.threads.turn.provenance_recorder import ProvenanceRecorder

            tell = self._conversation.notices.tell
            self._recorder = ProvenanceRecorder(
                trail, self._turn_id, redactors=self._redactors, facts=self._facts, tell=tell
            )
        return self._recorder

    def report_changes(
        self, what: str, changes: Sequence[Change], call: ToolCall | None = None, sample: int | None = None
    ) -> None:
        """Report all changes of a value on its way through the interceptors. See ``ProvenanceRecorder.record_changes``."""
        if not changes and self._recorder is None:  # else a request without changes ends those of the one before
            return
        if (recorder := self.recorder) is not None:
            recorder.record_changes(what, changes, call=call, sample=sample)

    def report_decision(self, call_id: str, decision: str, source: str = "config") -> None:
        """Report a decision that nobody was asked for: it follows from the configuration, or from an earlier answer of the user."""
        self.telemetry.report_decision(call_id, decision, source)
        if source == "user" and (recorder := self.recorder) is not None:
            by = Actor(role="user", causes=("an earlier answer, for the session",))
            recorder.record_decision(call_id, by, "approved_for_session", None, allows=True)

    def report_refusal(self, call_id: str | None, by: Actor, reason: str) -> None:
        """Report who refused a call, or something in it."""
        if (recorder := self.recorder) is not None:
            recorder.record_refusal("call", by, reason, call_id=call_id)
