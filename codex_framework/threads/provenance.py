"""Lets change recorders write who changed, refused or added something into a thread's record.

The record is the only place for it: nothing is kept in memory, and nothing is written for a thread without a record or a
recorder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.wire import encode_item, to_wire
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.interceptors import UserInput
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.provenance import KIND, Actor, ChangeRecorder, Passage, Provenance, Source
from codex_framework.contract.roles.stores import PluginEntry
from codex_framework.contract.value import fields_of
from codex_framework.loader.offers import Offer
from codex_framework.threads.faults import Label, check_type
from codex_framework.threads.plugin_calls import Notices
from codex_framework.threads.texts import map_texts
from codex_framework.toolkit.item_marks import mark_of
from codex_framework.toolkit.strict_json import strict_json

if TYPE_CHECKING:
    from codex_framework.threads.journal import Journal
    from codex_framework.threads.prompt_context import ContextUpdate

__all__ = ["Trail", "TurnTrail"]

_LONGEST_REASON = 2000
"""Longest reason that is recorded, in characters. The whole text is where it was sent."""


class Trail:
    """The provenance of one thread."""

    __slots__ = ("_journal", "_notices", "_recorders")

    def __init__(self, journal: Journal, recorders: Sequence[Offer[ChangeRecorder]], notices: Notices) -> None:
        self._journal = journal
        self._recorders = recorders
        self._notices = notices

    @property
    def keeps(self) -> bool:
        """Whether anything is recorded. If not, callers need not collect data for it."""
        return bool(self._recorders) and self._journal.is_stored

    def for_turn(self, turn_id: str | None, redact: Callable[[str], str] | None = None) -> TurnTrail:
        """Return the provenance of a turn.

        Args:
            turn_id: The turn with which the entries are rolled back. Without one they never are.
            redact: Takes out of a text what interceptors keep secret.
        """
        return TurnTrail(self._recorders, self._journal, turn_id, redact, self._notices)

    def record(self, fact: Provenance, turn_id: str | None) -> None:
        """Record a fact that has nothing to do with the others of its turn."""
        if self.keeps:
            self.for_turn(turn_id).record(fact)

    def record_addition(self, what: str, by: Actor, items: Sequence[ResponseItem], turn_id: str | None) -> None:
        """Record who has added items to the history."""
        if self.keeps and items:
            self.record(Provenance(did="added", what=what, by=by, items=[mark_of(item) for item in items]), turn_id)

    def record_context(self, update: ContextUpdate, turn_id: str | None) -> None:
        """Record which source gave which part of the context."""
        if self.keeps and update.messages:
            self.record(_context_fact(tuple(map(mark_of, update.messages)), update.actors), turn_id)


@lru_cache(maxsize=8)
def _context_fact(marks: tuple[str, ...], actors: tuple[tuple[tuple[Actor, float], ...], ...]) -> Provenance:
    """Return the fact of the sources of messages, which is the same for all threads that begin with the same context."""
    sources = [
        Source(by=by, item=mark, part=part, seconds=seconds)
        for mark, parts in zip(marks, actors, strict=True)
        for part, (by, seconds) in enumerate(parts)
    ]
    items = list(dict.fromkeys(marks))
    return Provenance(did="added", what="context", by=Actor(role="kernel"), items=items, sources=sources)


class TurnTrail:
    """The provenance of one turn. It removes data that must not be recorded from every entry, whatever a recorder writes.

    Args:
        redact: Removes the interceptors' secrets from a text.
    """

    def __init__(
        self,
        recorders: Sequence[Offer[ChangeRecorder]],
        journal: Journal,
        turn_id: str | None,
        redact: Callable[[str], str] | None,
        notices: Notices,
    ) -> None:
        self._offers = recorders
        self._recorders: dict[Label, Any] = {}
        self._journal = journal
        self._turn_id = turn_id
        self._redact = redact
        self._notices = notices

    def record(self, fact: Provenance) -> None:
        """Record a complete fact."""
        self._write_entries("fact_entries", fact)

    def record_passage(self, passage: Passage) -> None:
        """Record all changes of a value on its way through the interceptors.

        Of all changes but the last one, only the texts are recorded that are left in the end: a later interceptor may have
        removed a secret. If the value was refused, nothing is: perhaps one of them was the reason.
        """
        final: set[tuple[type, Any]] | None = set() if passage.refused else None
        if len(passage.changes) > 1 and not passage.refused:
            final = _final_leaves(passage.changes[-1].after)
        self._write_entries("change_entries", passage, final)

    def _write_entries(
        self,
        method: Literal["change_entries", "fact_entries"],
        subject: Passage | Provenance,
        final: set[tuple[type, Any]] | None = None,
    ) -> None:
        for offer in self._offers:
            label = Label("change recorder", offer.item.name, offer.plugin)
            source: Callable[..., Any] = offer.item.begin_turn
            try:
                if label not in self._recorders:
                    self._recorders[label] = offer.item.begin_turn()
                source = getattr(self._recorders[label], method)
                for entry in self._notices.call(label, method, source, subject):
                    self._write(self._clean(check_type(entry, Provenance, "an entry", source), final))
            except Exception as error:  # what cannot be recorded has happened all the same
                then = "This change is missing from the record, so `why` cannot show it."
                self._notices.tell(label.describe_failure(method, error, then=then, source=source))

    def _write(self, entry: Provenance) -> None:
        self._journal.keep(PluginEntry(plugin=entry.by.plugin, kind=KIND, data=entry.data, turn_id=self._turn_id))

    def _clean(self, entry: Provenance, final: set[tuple[type, Any]] | None) -> Provenance:
        """Return an entry without data that must not be recorded. The paths of removed values are in ``withheld``."""
        changes: dict[str, Any] = {}
        if self._redact is not None and entry.reason is not None:
            changes["reason"] = self._redact(entry.reason)
        if len(reason := changes.get("reason", entry.reason) or "") > _LONGEST_REASON:
            changes["reason"] = f"{reason[:_LONGEST_REASON]}..."
        if entry.patch and (final is not None or self._redact is not None):
            patch = [self._clean_operation(operation, final) for operation in entry.patch]
            pairs = zip(entry.patch, patch, strict=True)
            withheld = [operation["path"] for operation, clean in pairs if clean is not operation]
            changes |= {"patch": patch, "withheld": (*entry.withheld, *withheld)}
        return entry.evolve(**changes) if changes else entry

    def _clean_operation(self, operation: Mapping[str, Any], final: set[tuple[type, Any]] | None) -> Mapping[str, Any]:
        value = operation.get("value")
        clean = value if self._redact is None else map_texts(value, self._redact)
        if final is not None and not _leaves(value) <= final:
            clean = None
        return operation if clean == value else {**operation, "value": clean}


def _final_leaves(value: Any) -> set[tuple[type, Any]]:
    """Return the texts and numbers in a value, in wire form."""
    try:
        match value:
            case ModelRequest():
                names = [field.name for field in fields_of(ModelRequest) if field.name not in ("measure", "prompt")]
                parts = [*(to_wire(getattr(value, name)) for name in names), *map(_data, value.prompt.items)]
            case UserInput():
                parts = [*map(_data, value.items), *value.context]
            case ToolCall():
                parts = [to_wire(value), _json_or_none(value.arguments)]
            case _:
                parts = [to_wire(value)]
    except (TypeError, ValueError, RecursionError):
        return set()
    return _leaves(parts)


def _data(item: ResponseItem) -> Any:
    return json.loads(encode_item(item))


def _json_or_none(text: str) -> Any:
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any) -> set[tuple[type, Any]]:
    """Return the texts and numbers in a document."""
    found: set[tuple[type, Any]] = set()
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            rest += part.values()
        elif isinstance(part, (list, tuple)):
            rest += part
        elif part is not None and not isinstance(part, bool):
            found.add((type(part), part))
    return found
