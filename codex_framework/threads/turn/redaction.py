"""The redaction of a turn's texts by its interceptors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.value import Value, fields_of
from codex_framework.threads.faults import Label, check_type, error_text
from codex_framework.threads.interceptor_table import Guard
from codex_framework.threads.texts import map_fields
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["Redaction"]

V = TypeVar("V", bound=Value)


class Redaction:
    """The interceptors of one turn that redact.

    Without them, every method returns its argument. The places of redacted texts are reported for the record, but never the
    texts.
    """

    def __init__(self, scope: TurnScope) -> None:
        self._scope = scope
        self._guards = scope.guards.redact

    def __bool__(self) -> bool:
        """Whether anything is redacted."""
        return bool(self._guards)

    def redact(self, text: str) -> str:
        """Return a redacted text, for telemetry and for messages. Nothing is reported."""
        return self._redact(text, {})

    def redact_output(self, text: str, call_id: str) -> str:
        """Return a redacted text of a call."""
        changed: dict[Guard, None] = {}
        clean = self._redact(text, changed)
        self._report(call_id, changed, ["output"])
        return clean

    def redact_value(self, value: V, call_id: str, place: str = "output") -> V:
        """Return a value of a call with every text in it redacted.

        Args:
            place: A name for the value, for the record.
        """
        if not self._guards:
            return value
        changed: dict[Guard, None] = {}
        clean = map_fields(value, lambda text: self._redact(text, changed))
        if changed:
            names = [field.name for field in fields_of(type(value))]
            different = [name for name in names if getattr(value, name) != getattr(clean, name)]
            self._report(call_id, changed, [f"{place}.{name}" for name in different])
        return clean

    def redact_items(self, items: Sequence[ResponseItem]) -> Sequence[ResponseItem]:
        """Return items with every text in them redacted that is not from the model."""
        if not self._guards:
            return items
        changed: dict[Guard, None] = {}
        clean = [
            item if _is_of_model(item) else map_fields(item, lambda text: self._redact(text, changed)) for item in items
        ]
        self._report(None, changed, ["record"])
        return clean

    def emit(self, msg: EventMsg, call_id: str) -> None:
        """Send a redacted event of a call to clients. Streamed output is not sent, because half of a secret is not recognised."""
        if not self._guards:
            self._scope.emit(msg)
        elif not msg.is_delta:
            self._scope.emit(self.redact_value(msg, call_id, msg.type))

    def _redact(self, text: str, changed: dict[Guard, None]) -> str:
        """Return a redacted text, and add the interceptors that changed it. If one fails, the whole text is removed."""
        notices, facts = self._scope.conversation.notices, self._scope.facts
        for guard in self._guards:
            label = Label("interceptor", guard.name, guard.plugin)
            try:
                found = check_type(notices.call(label, "redact", guard.call, text, facts), str, "it", guard.call)
            except Exception as error:  # fails closed
                notices.tell(label.describe_failure("redact", error, then="The text is withheld.", source=guard.call))
                return f"[withheld: interceptor {guard.name!r} of plugin {guard.plugin!r} failed: {error_text(error)}]"
            if found != text:
                changed[guard] = None
            text = found
        return text

    def _report(self, call_id: str | None, changed: Iterable[Guard], places: Sequence[str]) -> None:
        self._scope.reports.report_redaction(call_id, changed, places)


def _is_of_model(item: ResponseItem) -> bool:
    return item.type == "reasoning" or getattr(item, "role", None) == "assistant"
