"""Records what the interceptors of a turn changed, refused and redacted in the thread's record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, ParamSpec

from codex_framework.contract.errors import StopTurn, described
from codex_framework.contract.protocol.items import InputText, Message, ResponseItem
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor, Deed, Provenance
from codex_framework.threads.interceptor_table import Guard
from codex_framework.threads.provenance import Change, Trail, mark_of
from codex_framework.threads.turn.texts import map_texts
from codex_framework.threads.turn.value_diff import Difference, diff_values, documents_of, leaves
from codex_framework.toolkit.json_patch import Operation

__all__ = ["ProvenanceRecorder"]

P = ParamSpec("P")

_LONGEST_REASON = 2000
"""Longest reason that is recorded, in characters. The whole text is where it was sent."""


def _warn_on_failure(method: Callable[P, None]) -> Callable[P, None]:
    """Return a method that warns instead of raising. What cannot be recorded has happened all the same."""

    @functools.wraps(method)
    def call_or_warn(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # values of plugins, which may fail at anything
            recorder: Any = args[0]
            recorder.warn(error)

    return call_or_warn


class ProvenanceRecorder:
    """The record of one turn.

    Args:
        trail: The provenance of the thread.
        redactors: The interceptors that redact.
        facts: Returns the facts of the turn.
        tell: Warns the clients of the thread.
    """

    def __init__(
        self,
        trail: Trail,
        turn_id: str,
        *,
        redactors: Sequence[Guard],
        facts: Callable[[], TurnFacts],
        tell: Callable[[str], None],
    ) -> None:
        self._trail = trail
        self._turn_id = turn_id
        self._redactors = redactors
        self._facts = facts
        self._tell = tell
        self._refused: set[str | None] = set()
        self._refusals: set[tuple[Any, ...]] = set()
        self._requests: dict[tuple[str, str], list[Operation]] = {}
        self._redacted: dict[tuple[str | None, str, str], set[str]] = {}

    def warn(self, error: Exception) -> None:
        """Warn that something is missing in the record."""
        text = f"a change in this turn could not be recorded, so `why` does not know of it: {described(error)}"
        self._tell(text)

    # Changes

    @_warn_on_failure
    def record_changes(
        self, what: str, changes: Sequence[Change], *, call: ToolCall | None = None, sample: int | None = None
    ) -> None:
        """Record all changes of a value on its way through the interceptors.

        Only what is left of a change in the end is recorded: a later interceptor may have removed a secret.

        Args:
            what: The kind of the value, as in ``Provenance``.
            changes: The changes. A request may have none, which ends the changes of the one before.
            sample: The number of the request.
        """
        fields = _fields_of(call)
        if what == "request":
            self._end_changes_of_requests(changes, sample)
            fields["sample"] = sample
        if not changes:
            return
        if what == "item":
            fields |= {"items": (mark_of(changes[-1].after),)}
        new = _added_marks(changes) if what == "input" else None
        self._record_each(
            what, changes, fields, _final_texts(what, changes[-1]) if len(changes) > 1 else None, among=new
        )

    def _end_changes_of_requests(self, changes: Sequence[Change], sample: int | None) -> None:
        """Record which interceptors changed the turn's previous request, but not this one."""
        acted = {(change.by.plugin, change.by.name) for change in changes}
        for key in [key for key, patch in self._requests.items() if patch and key not in acted]:
            self._requests[key] = []
            by = Actor(role="interceptor", name=key[1], plugin=key[0])
            self._write(Provenance(did="changed", what="request", by=by, sample=sample, patch=()))

    @_warn_on_failure
    def record_continuation(self, message: ResponseItem, by: Actor, seconds: float | None) -> None:
        """Record that the turn goes on with a message."""
        patch, withheld = self._withhold([{"op": "add", "path": "/items/0", "value": to_wire(message)}], None)
        items = (mark_of(message),)
        record = Provenance(did="changed", what="stop", by=by, seconds=seconds, patch=patch, items=items)
        self._write(record.evolve(withheld=withheld))

    @_warn_on_failure
    def record_end(
        self,
        what: str,
        changes: Sequence[Change],
        by: Actor,
        error: Exception,
        seconds: float,
        call: ToolCall | None = None,
    ) -> None:
        """Record that an interceptor refused a value or ended the turn.

        The values of earlier changes are not recorded: perhaps they were the reason.
        """
        fields = _fields_of(call)
        self._record_each(what, changes, fields, final=set())
        did: Deed = "stopped" if isinstance(error, StopTurn) else "refused"
        self.record_refusal(what, by, str(error), did=did, seconds=seconds, **fields)

    def _record_each(
        self,
        what: str,
        changes: Sequence[Change],
        fields: dict[str, Any],
        final: set[tuple[type, Any]] | None,
        *,
        among: Iterable[str] | None = None,
    ) -> None:
        for change in changes:
            try:
                found = diff_values(what, change.before, change.after)
            except (TypeError, ValueError, RecursionError) as error:
                reason = f"the change cannot be shown as JSON: {described(error)}"
                self._write(
                    Provenance(did="changed", what=what, by=change.by, seconds=change.seconds, reason=reason, **fields)
                )
                continue
            if among is not None:
                found = found.evolve(items=_own_marks(found.items, change, among))
            self._record_difference(what, change, found, fields, final)

    def _record_difference(
        self, what: str, change: Change, found: Difference, fields: dict[str, Any], final: set[tuple[type, Any]] | None
    ) -> None:
        repeats = 0
        patch = found.patch
        if what == "request":
            key = (change.by.plugin, change.by.name)
            before = self._requests.get(key, [])
            if patch == before:
                return
            self._requests[key] = patch
            repeats = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(patch, before, strict=False)))
            patch = patch[repeats:]
        elif not patch:
            return
        shown, withheld = self._withhold(patch, final)
        self._write(
            Provenance(
                did="changed",
                what=what,
                by=change.by,
                seconds=change.seconds,
                patch=shown,
                repeats=repeats,
                withheld=withheld,
                **{"items": found.items, "without": found.without, **fields},
            )
        )

    def _withhold(
        self, patch: Sequence[Operation], final: set[tuple[type, Any]] | None
    ) -> tuple[list[Operation], tuple[str, ...]]:
        """Return the operations without what must not be recorded, and the paths of what was taken out."""
        shown = []
        withheld = []
        for operation in patch:
            value = operation.get("value")
            is_gone = final is not None and not leaves(value) <= final
            told = None if is_gone else map_texts(value, self.redact) if self._redactors else value
            if told == value:
                shown.append(operation)
            else:
                withheld.append(operation["path"])
                shown.append({**operation, "value": told})
        return shown, tuple(withheld)

    # Refusals and decisions

    @_warn_on_failure
    def record_refusal(
        self, what: str, by: Actor, reason: str, *, did: Deed = "refused", seconds: float | None = None, **fields: Any
    ) -> None:
        """Record that something was refused or ended. The same refusal of the same call is recorded once."""
        call_id = fields.get("call_id")
        self._refused.add(call_id)
        key = (did, what, call_id, by.role, by.name, reason)
        if call_id is None or key not in self._refusals:
            self._refusals.add(key)
            self._write(Provenance(did=did, what=what, by=by, seconds=seconds, reason=self._reason(reason), **fields))

    @_warn_on_failure
    def record_decision(
        self, call_id: str, by: Actor, decision: str, reason: str | None, *, allows: bool, seconds: float | None = None
    ) -> None:
        """Record a decision about an approval."""
        if not allows:
            self._refused.add(call_id)
        reason = None if reason is None else self._reason(reason)
        self._write(
            Provenance(
                did="decided",
                what="approval",
                by=by,
                seconds=seconds,
                call_id=call_id or None,
                decision=decision,
                reason=reason,
            )
        )

    @_warn_on_failure
    def record_rejection(self, call: ToolCall, reason: str, plugin: str) -> None:
        """Record the refusal of a call, unless whoever refused it has done so already."""
        if call.call_id not in self._refused:
            by = Actor(role="tool", name=call.name, plugin=plugin)
            self.record_refusal("call", by, reason, call_id=call.call_id, tool=call.name)

    # Redaction

    @_warn_on_failure
    def record_redaction(self, call_id: str | None, guards: Iterable[Guard], places: Iterable[str]) -> None:
        """Record that interceptors redacted texts of a call: once for each interceptor and place, and never the text.

        Args:
            call_id: The call, if the texts belong to one.
            places: Where the texts stand: ``output``, or an event and its field.
        """
        for guard in guards:
            known = self._redacted.setdefault((call_id, guard.plugin, guard.name), set())
            new = [place for place in places if place not in known]
            if new:
                known.update(new)
                by = Actor(role="interceptor", name=guard.name, plugin=guard.plugin)
                self._write(Provenance(did="redacted", what="text", by=by, call_id=call_id, withheld=new))

    def redact(self, text: str) -> str:
        """Return a text without what interceptors keep secret. If one of them fails, the whole text is removed."""
        for guard in self._redactors:
            try:
                found: Any = guard.call(text, self._facts())
            except Exception:  # reported where the text itself is redacted
                found = None
            text = found if isinstance(found, str) else "[withheld]"
        return text

    def _reason(self, reason: str) -> str:
        text = self.redact(reason)
        return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."

    def _write(self, record: Provenance) -> None:
        self._trail.write(record, self._turn_id)


def _fields_of(call: ToolCall | None) -> dict[str, Any]:
    return {} if call is None else {"call_id": call.call_id, "tool": call.name}


def _final_texts(what: str, change: Change) -> set[tuple[type, Any]]:
    """Return the texts and numbers that are left in the end. Those of earlier changes that are not among them are not recorded."""
    try:
        _, whole = documents_of(what, change.before, change.after)
        texts = leaves(whole)
        return texts | {(str, change.after.arguments)} if what == "call" else texts
    except (TypeError, ValueError, RecursionError):
        return set()


def _added_marks(changes: Sequence[Change]) -> set[str]:
    """Return the marks of the items that interceptors added to an input or changed in it."""
    before, after = changes[0].before, changes[-1].after
    given = {id(item) for item in (*before.items, *before.additional_context)}
    items = (*after.additional_context, *after.items, *map(_developer_message, after.context))
    return {mark_of(item) for item in items if id(item) not in given}


def _developer_message(text: str) -> Message:
    return Message(role="developer", content=(InputText(text),))


def _own_marks(marks: Sequence[str], change: Change, among: Iterable[str]) -> tuple[str, ...]:
    """Return the marks of the recorded items that an interceptor of inputs brought, or all new ones if none of its own is left."""
    context = set(change.before.context)
    new = [_developer_message(text) for text in change.after.context if text not in context]
    brought = [*marks, *map(mark_of, new)]
    among = list(among)
    return tuple(mark for mark in brought if mark in among) or tuple(among)
