"""Writes who changed, refused or added something into a thread's record.

The record is the only place for it: nothing is kept in memory, and a thread without a record has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.wire import encode_item, to_wire
from codex_framework.contract.roles.provenance import KIND, Actor, Provenance, Source
from codex_framework.contract.roles.stores import PluginEntry
from codex_framework.contract.value import Value
from codex_framework.toolkit.item_marks import item_mark

if TYPE_CHECKING:
    from codex_framework.threads.journal import Journal
    from codex_framework.threads.prompt_context import ContextUpdate

__all__ = ["Change", "Trail", "because", "causes", "collect_causes", "mark_of"]

_MOST_CAUSES = 20
"""Causes that one actor can name. More say nothing new."""

_LONGEST_CAUSE = 500
"""Longest text of a cause, in characters."""

_CAUSES: ContextVar[list[str] | None] = ContextVar("causes", default=None)
"""What the plugin that is called now has named as its causes. A list, so that tasks which the plugin starts write into it too."""


def collect_causes() -> list[str]:
    """Return a new list, to which plugins that are called from here on add their causes."""
    heard: list[str] = []
    _CAUSES.set(heard)
    return heard


def because(text: str) -> None:
    """Name a cause of what the running plugin does. Without a listener, nothing happens."""
    heard = _CAUSES.get()
    if heard is not None and len(heard) < _MOST_CAUSES:
        heard.append(text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}...")


def causes() -> tuple[str, ...]:
    """Return the causes that the running plugin has named so far."""
    return tuple(_CAUSES.get() or ())


def mark_of(item: ResponseItem) -> str:
    """Return the mark of an item."""
    return _mark_of(encode_item(item))


@lru_cache(maxsize=8)
def _mark_of(encoded: bytes) -> str:  # the threads of a kernel begin with the same context
    return item_mark(json.loads(encoded))


class Change(Value):
    """A value that an interceptor replaced, and how long it took."""

    by: Actor
    seconds: float
    before: Any
    after: Any


class Trail:
    """The provenance of one thread."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def keeps(self) -> bool:
        """Whether there is a record. Without one, nobody needs to find out what to write into it."""
        return self._journal.is_stored

    def write(self, record: Provenance, turn_id: str | None) -> None:
        """Write one entry.

        Args:
            turn_id: The turn with which it is rolled back. Without one it is never rolled back.
        """
        self._keep(record.by.plugin, _without_defaults(to_wire(record)), turn_id)

    def _keep(self, plugin: str, data: Mapping[str, Any], turn_id: str | None) -> None:
        self._journal.keep(PluginEntry(plugin=plugin, kind=KIND, data=data, turn_id=turn_id))

    def record_addition(self, what: str, by: Actor, items: Sequence[ResponseItem], turn_id: str | None) -> None:
        """Write who has added items to the history."""
        if self.keeps and items:
            self.write(Provenance(did="added", what=what, by=by, items=[mark_of(item) for item in items]), turn_id)

    def added_context(self, update: ContextUpdate, turn_id: str | None) -> None:
        """Write which source gave which part of the context."""
        if self.keeps and update.messages:
            self._keep("", _context_record(tuple(map(mark_of, update.messages)), update.actors), turn_id)


@lru_cache(maxsize=8)
def _context_record(marks: tuple[str, ...], actors: tuple[tuple[tuple[Actor, float], ...], ...]) -> Mapping[str, Any]:
    """Return the record of the sources of messages, which is the same for all threads that begin with the same context."""
    sources = [
        Source(by=by, item=mark, part=part, seconds=seconds)
        for mark, parts in zip(marks, actors, strict=True)
        for part, (by, seconds) in enumerate(parts)
    ]
    items = list(dict.fromkeys(marks))
    record = Provenance(did="added", what="context", by=Actor(role="kernel"), items=items, sources=sources)
    return _without_defaults(to_wire(record))


def _without_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a record without what says nothing. An empty patch says something."""
    slim: dict[str, Any] = {name: value for name, value in data.items() if value not in ("", [], 0) or name == "patch"}
    if "seconds" in slim:
        slim["seconds"] = round(slim["seconds"], 6)
    if "by" in slim:
        slim["by"] = _without_defaults(slim["by"])
    if "sources" in slim:
        slim["sources"] = [{"part": source["part"], **_without_defaults(source)} for source in slim["sources"]]
    return slim
