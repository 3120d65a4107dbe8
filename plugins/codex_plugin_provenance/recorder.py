"""Describes what interceptors changed, refused and redacted in a turn, for the thread's record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import described
from codex_framework.contract.protocol.items import InputText, Message
from codex_framework.contract.roles.provenance import (
    Actor,
    Change,
    ChangeRecorder,
    Passage,
    Provenance,
    TurnRecorder,
)
from codex_framework.toolkit.item_marks import mark_of

if TYPE_CHECKING:
    from codex_framework.toolkit.json_patch import Operation
    from codex_framework.toolkit.value_diff import Difference

__all__ = ["PatchRecorder"]


class PatchRecorder(ChangeRecorder):
    """Describes changes as JSON Patches."""

    name = "patches"

    def begin_turn(self) -> TurnRecorder:  # noqa: D102  # the role's
        return _TurnPatches()


class _TurnPatches(TurnRecorder):
    """The patches of one turn, and the parts that must not be recorded twice in it."""

    def __init__(self) -> None:
        self._refused: set[str | None] = set()
        self._refusals: set[tuple[Any, ...]] = set()
        self._requests: dict[tuple[str, str], list[Operation]] = {}
        self._redacted: dict[tuple[str | None, str, str], set[str]] = {}

    # Changes

    def change_entries(self, passage: Passage) -> Iterator[Provenance]:
        what, changes, call = passage.what, passage.changes, passage.call
        fields: dict[str, Any] = {} if call is None else {"call_id": call.call_id, "tool": call.name}
        if what == "request" and not passage.refused:
            yield from self._ends_of_changes(changes, passage.sample)
            fields["sample"] = passage.sample
        for change in changes:
            yield from self._entries_of(change, passage, fields)

    def _ends_of_changes(self, changes: Sequence[Change], sample: int | None) -> Iterator[Provenance]:
        """Yield which interceptors changed the turn's previous request, but not this one."""
        acted = {(change.by.plugin, change.by.name) for change in changes}
        for key in [key for key, patch in self._requests.items() if patch and key not in acted]:
            self._requests[key] = []
            by = Actor(role="interceptor", name=key[1], plugin=key[0])
            yield Provenance(did="changed", what="request", by=by, sample=sample, patch=())

    def _entries_of(self, change: Change, passage: Passage, fields: dict[str, Any]) -> Iterator[Provenance]:
        from codex_framework.toolkit.value_diff import diff_values  # only where an interceptor changes something

        what = passage.what
        entry = Provenance(did="changed", what=what, by=change.by, seconds=change.seconds, **fields)
        try:
            found = diff_values(what, change.before, change.after)
        except (TypeError, ValueError, RecursionError) as error:
            yield entry.evolve(reason=f"the change cannot be shown as JSON: {described(error)}")
            return
        patch, repeats = found.patch, 0
        if what == "request":
            key = (change.by.plugin, change.by.name)
            before = self._requests.get(key, [])
            self._requests[key] = patch
            if patch != before:
                repeats = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(patch, before, strict=False)))
                yield entry.evolve(patch=patch[repeats:], repeats=repeats, items=found.items, without=found.without)
        elif patch:
            yield entry.evolve(patch=patch, items=_marks(found, change, passage), without=found.without)

    # Refusals, decisions and redaction

    def fact_entries(self, fact: Provenance) -> Sequence[Provenance]:
        call_id = fact.call_id
        match fact.did:
            case "refused" | "stopped":
                if fact.by.role == "tool" and call_id in self._refused:
                    return ()  # whoever refused it has said so already
                self._refused.add(call_id)
                key = (fact.did, fact.what, call_id, fact.by.role, fact.by.name, fact.reason)
                if call_id is not None and key in self._refusals:
                    return ()
                self._refusals.add(key)
            case "decided" if not str(fact.decision).startswith("approved"):
                self._refused.add(call_id)
            case "redacted":
                known = self._redacted.setdefault((call_id, fact.by.plugin, fact.by.name), set())
                new = [place for place in fact.withheld if place not in known]
                known.update(new)
                return (fact.evolve(withheld=new),) if new else ()
        return (fact,)


def _marks(found: Difference, change: Change, passage: Passage) -> Sequence[str]:
    """Return the marks of the recorded items that an interceptor brought or changed."""
    if passage.refused:
        return found.items
    if passage.what == "item":
        return (mark_of(passage.changes[-1].after),)
    return _own_marks(found.items, change, _added_marks(passage.changes)) if passage.what == "input" else found.items


def _added_marks(changes: Sequence[Change]) -> set[str]:
    """Return the marks of the items that interceptors added to an input or changed in it."""
    before, after = changes[0].before, changes[-1].after
    given = {id(item) for item in (*before.items, *before.additional_context)}
    items = (*after.additional_context, *after.items, *map(_developer_message, after.context))
    return {mark_of(item) for item in items if id(item) not in given}


def _developer_message(text: str) -> Message:
    return Message(role="developer", content=(InputText(text),))


def _own_marks(marks: Sequence[str], change: Change, among: Iterable[str]) -> tuple[str, ...]:
    """Return the marks of recorded items that an interceptor of inputs added, or of all new items if its own were removed."""
    context = set(change.before.context)
    new = [_developer_message(text) for text in change.after.context if text not in context]
    brought = [*marks, *map(mark_of, new)]
    among = list(among)
    return tuple(mark for mark in brought if mark in among) or tuple(among)
