"""Writes what the interceptors of a turn changed, refused and redacted into the thread's record. Made for the first of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, ParamSpec

from codex_framework.contract.errors import described
from codex_framework.contract.protocol.items import InputText, Message, ResponseItem
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor, Deed, Provenance
from codex_framework.loader.interceptor_table import Guard
from codex_framework.threads.provenance import Trail, mark_of
from codex_framework.threads.turn.differences import Difference, difference_of, documents_of, leaves
from codex_framework.threads.turn.redaction import cleaned
from codex_framework.threads.turn.watched import Step
from codex_framework.toolkit.json_patch import Operation

__all__ = ["Changes"]

P = ParamSpec("P")

_LONGEST_REASON = 2000
"""Longest reason that is recorded, in characters. The whole text is where it was sent."""


def _harmless(method: Callable[P, None]) -> Callable[P, None]:
    """Return a method that warns instead of raising. What cannot be recorded has happened all the same."""

    @functools.wraps(method)
    def contained(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # values of plugins, which may fail at anything
            changes: Any = args[0]
            changes.failed(error)

    return contained


class Changes:
    """The record of one turn.

    Args:
        trail: The provenance of the thread.
        guards: The interceptors that redact.
        facts: Returns the facts of the turn.
        tell: Warns the clients of the thread.
    """

    def __init__(
        self,
        trail: Trail,
        turn_id: str,
        *,
        guards: Sequence[Guard],
        facts: Callable[[], TurnFacts],
        tell: Callable[[str], None],
    ) -> None:
        self._trail = trail
        self._turn_id = turn_id
        self._guards = guards
        self._facts = facts
        self._tell = tell
        self._refused: set[str | None] = set()
        self._refusals: set[tuple[Any, ...]] = set()
        self._requests: dict[tuple[str, str], list[Operation]] = {}
        self._redacted: dict[tuple[str | None, str, str], set[str]] = {}

    def failed(self, error: Exception) -> None:
        """Warn that something is missing in the record."""
        text = f"a change in this turn could not be recorded, so `why` does not know of it: {described(error)}"
        self._tell(text)

    # Changes

    @_harmless
    def changed(self, what: str, steps: Sequence[Step], call: ToolCall | None = None, **fields: Any) -> None:
        """Record the changes of a value.

        Args:
            what: As in ``Provenance``.
            call: The call that is concerned.
            fields: Further fields of each entry.
        """
        if call is not None:
            fields |= {"call_id": call.call_id, "tool": call.name}
        self._record(what, steps, fields, _final(what, steps[-1]) if len(steps) > 1 else None)

    @_harmless
    def input(self, steps: Sequence[Step], items: Sequence[ResponseItem]) -> None:
        """Record the changes of an input.

        Args:
            items: The items that are recorded in the end.
        """
        before = steps[0].before
        given = {id(item) for item in (*before.items, *before.additional_context)}
        new = {mark_of(item) for item in items if id(item) not in given}
        self._record("input", steps, {}, _final("input", steps[-1]) if len(steps) > 1 else None, among=new)

    @_harmless
    def item(self, steps: Sequence[Step]) -> None:
        """Record the changes of an item of the model."""
        self.changed("item", steps, items=(mark_of(steps[-1].after),))

    @_harmless
    def continued(self, message: ResponseItem, by: Actor, seconds: float | None) -> None:
        """Record that the turn goes on with a message."""
        patch, withheld = self._shown([{"op": "add", "path": "/items/0", "value": to_wire(message)}], None)
        items = (mark_of(message),)
        record = Provenance(did="changed", what="stop", by=by, seconds=seconds, patch=patch, items=items)
        self._keep(record.evolve(withheld=withheld))

    @_harmless
    def requests(self, steps: Sequence[Step], sample: int) -> None:
        """Record how the changes of a request differ from those of the turn's previous request.

        Args:
            steps: The changes. None means that the request is sent as it is, which may end earlier changes.
            sample: The number of the request.
        """
        acted = {(step.by.plugin, step.by.name) for step in steps}
        for key in [key for key, patch in self._requests.items() if patch and key not in acted]:
            self._requests[key] = []
            by = Actor(role="interceptor", name=key[1], plugin=key[0])
            self._keep(Provenance(did="changed", what="request", by=by, sample=sample, patch=()))
        self._record("request", steps, {"sample": sample}, _final("request", steps[-1]) if len(steps) > 1 else None)

    @_harmless
    def abandoned(self, what: str, steps: Sequence[Step], call: ToolCall | None = None) -> None:
        """Record changes of a value that was refused in the end. Their values are not recorded: perhaps they were the reason."""
        fields = {} if call is None else {"call_id": call.call_id, "tool": call.name}
        self._record(what, steps, fields, final=set())

    def _record(
        self,
        what: str,
        steps: Sequence[Step],
        fields: dict[str, Any],
        final: set[tuple[type, Any]] | None,
        *,
        among: Iterable[str] | None = None,
    ) -> None:
        for step in steps:
            try:
                found = difference_of(what, step.before, step.after)
            except (TypeError, ValueError, RecursionError) as error:
                reason = f"the change cannot be shown as JSON: {described(error)}"
                self._keep(
                    Provenance(did="changed", what=what, by=step.by, seconds=step.seconds, reason=reason, **fields)
                )
                continue
            if among is not None:
                found = found.evolve(items=_attributed(found.items, step, among))
            self._difference(what, step, found, fields, final)

    def _difference(
        self, what: str, step: Step, found: Difference, fields: dict[str, Any], final: set[tuple[type, Any]] | None
    ) -> None:
        repeats = 0
        patch = found.patch
        if what == "request":
            key = (step.by.plugin, step.by.name)
            before = self._requests.get(key, [])
            if patch == before:
                return
            self._requests[key] = patch
            repeats = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(patch, before, strict=False)))
            patch = patch[repeats:]
        elif not patch:
            return
        shown, withheld = self._shown(patch, final)
        self._keep(
            Provenance(
                did="changed",
                what=what,
                by=step.by,
                seconds=step.seconds,
                patch=shown,
                repeats=repeats,
                withheld=withheld,
                **{"items": found.items, "without": found.without, **fields},
            )
        )

    def _shown(
        self, patch: Sequence[Operation], final: set[tuple[type, Any]] | None
    ) -> tuple[list[Operation], tuple[str, ...]]:
        """Return the operations without what must not be recorded, and the paths of what was taken out."""
        shown = []
        withheld = []
        for operation in patch:
            value = operation.get("value")
            is_gone = final is not None and not leaves(value) <= final
            told = None if is_gone else cleaned(value, self.redact) if self._guards else value
            if told == value:
                shown.append(operation)
            else:
                withheld.append(operation["path"])
                shown.append({**operation, "value": told})
        return shown, tuple(withheld)

    # Refusals and decisions

    @_harmless
    def refused(
        self, what: str, by: Actor, reason: str, *, did: Deed = "refused", seconds: float | None = None, **fields: Any
    ) -> None:
        """Record that something was refused or ended. The same refusal of the same call is recorded once."""
        call_id = fields.get("call_id")
        self._refused.add(call_id)
        key = (did, what, call_id, by.role, by.name, reason)
        if call_id is None or key not in self._refusals:
            self._refusals.add(key)
            self._keep(Provenance(did=did, what=what, by=by, seconds=seconds, reason=self._reason(reason), **fields))

    @_harmless
    def decided(
        self, call_id: str, by: Actor, decision: str, reason: str | None, *, allows: bool, seconds: float | None = None
    ) -> None:
        """Record a decision about an approval."""
        if not allows:
            self._refused.add(call_id)
        reason = None if reason is None else self._reason(reason)
        self._keep(
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

    @_harmless
    def fell(self, call: ToolCall, reason: str, plugin: str) -> None:
        """Record the refusal of a call, unless whoever refused it has done so already."""
        if call.call_id not in self._refused:
            by = Actor(role="tool", name=call.name, plugin=plugin)
            self.refused("call", by, reason, call_id=call.call_id, tool=call.name)

    # Redaction

    @_harmless
    def redacted(self, call_id: str | None, guards: Iterable[Guard], places: Iterable[str]) -> None:
        """Record that interceptors redacted texts of a call: once for each interceptor and place, and never the text.

        Args:
            call_id: The call. None means that the texts belong to none.
            places: Where the texts stand: ``output``, or an event and its field.
        """
        for guard in guards:
            known = self._redacted.setdefault((call_id, guard.plugin, guard.name), set())
            new = [place for place in places if place not in known]
            if new:
                known.update(new)
                by = Actor(role="interceptor", name=guard.name, plugin=guard.plugin)
                self._keep(Provenance(did="redacted", what="text", by=by, call_id=call_id, withheld=new))

    def redact(self, text: str) -> str:
        """Return a text without what interceptors keep secret. If one of them fails, the whole text is removed."""
        for guard in self._guards:
            try:
                found: Any = guard.call(text, self._facts())
            except Exception:  # reported where the text itself is redacted
                found = None
            text = found if isinstance(found, str) else "[withheld]"
        return text

    def _reason(self, reason: str) -> str:
        text = self.redact(reason)
        return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."

    def _keep(self, record: Provenance) -> None:
        self._trail.keep(record, self._turn_id)


def _final(what: str, step: Step) -> set[tuple[type, Any]]:
    """Return the texts and numbers that are left in the end. Those of earlier changes that are not among them are not recorded."""
    try:
        _, whole = documents_of(what, step.before, step.after)
        texts = leaves(whole)
        return texts | {(str, step.after.arguments)} if what == "call" else texts
    except (TypeError, ValueError, RecursionError):
        return set()


def _attributed(marks: Sequence[str], step: Step, among: Iterable[str]) -> tuple[str, ...]:
    """Return the marks of the recorded items that an interceptor of inputs brought, or all new ones if none of its own is left."""
    context = set(step.before.context)
    new = [Message(role="developer", content=(InputText(text),)) for text in step.after.context if text not in context]
    brought = [*marks, *map(mark_of, new)]
    among = list(among)
    return tuple(mark for mark in brought if mark in among) or tuple(among)
