"""The subject of a question: a call, another item, or a tool; and the notes that answer it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Literal

import attrs

from codex_framework.contract.errors import ThreadError
from codex_plugin_provenance.session import Item, Note, Session

__all__ = ["Subject", "notes_about", "subject_named"]

_SHOWN = 5
_SHORTEST_BEGINNING = 3


@attrs.frozen(kw_only=True)
class Subject:
    """The subject of a question.

    Attributes:
        name: The id of the call, the number of the item, or the name of the tool.
        items: The items that it concerns.
    """

    kind: Literal["call", "item", "tool"]
    name: str
    items: Sequence[Item]


def subject_named(session: Session, named: str) -> Subject:
    """Return the subject that a word names: the number or id of an item, the id of a call, or a tool.

    Raises:
        ThreadError: It names nothing in the session.
    """
    if named.isascii() and named.isdecimal():
        number = int(named[:10])
        if not 1 <= number <= len(session.items):
            raise _unknown(session, named, f"The items have the numbers 1 to {len(session.items)}.")
        return _of_item(session, session.items[number - 1])
    found = _exactly(session, named)
    if found is not None:
        return found
    names = list(dict.fromkeys(_names(session)))
    begin = [name for name in names if name.startswith(named)] if len(named) >= _SHORTEST_BEGINNING else []
    if len(begin) == 1 and (found := _exactly(session, begin[0])) is not None:
        return found
    near = begin or get_close_matches(named, names, n=_SHOWN, cutoff=0.5)
    known = ", ".join(near[:_SHOWN]) or ", ".join(dict.fromkeys(_tools(session)))
    raise _unknown(
        session, named, f"{'The nearest' if near else 'Its tools'}: {known}." if known else "It has no calls."
    )


def _unknown(session: Session, named: str, hint: str) -> ThreadError:
    return ThreadError(
        f"the session {session.id or session.path} has no item, call or tool {named!r}",
        slug="item-not-found",
        hint=f"{hint} Without an item, `why` lists all that happened, with the numbers of the items.",
    )


def _exactly(session: Session, named: str) -> Subject | None:
    calls = [item for item in session.items if item.call_id == named]
    if calls or any(note.record.call_id == named for note in session.notes):
        return Subject(kind="call", name=named, items=calls)
    for item in session.items:
        if named in (item.id, item.mark):
            return _of_item(session, item)
    if named in _tools(session):
        return Subject(kind="tool", name=named, items=[item for item in session.items if item.tool == named])
    return None


def _of_item(session: Session, item: Item) -> Subject:
    if item.call_id:
        return Subject(
            kind="call", name=item.call_id, items=[other for other in session.items if other.call_id == item.call_id]
        )
    return Subject(kind="item", name=str(item.number), items=[item])


def _names(session: Session) -> Iterator[str]:
    for item in session.items:
        yield from filter(None, (item.call_id, item.id))
    yield from (note.record.call_id for note in session.notes if note.record.call_id)
    yield from _tools(session)


def _tools(session: Session) -> Iterator[str]:
    """Yield the names of tools that were called, added, removed or refused."""
    for item in session.items:
        if item.tool:
            yield item.tool
    for note in session.notes:
        if note.record.tool:
            yield note.record.tool
        yield from _changed_tools(note)


def _changed_tools(note: Note) -> Iterator[str]:
    for operation in note.patch or () if note.record.what == "request" else ():
        parts = str(operation.get("path", "")).split("/")
        if parts[1:2] == ["tools"] and len(parts) > 2:
            yield parts[2].replace("~1", "/").replace("~0", "~")


def notes_about(session: Session, subject: Subject) -> list[Note]:
    """Return the notes about a subject, in the order of the record."""
    if subject.kind == "tool":
        calls = {item.call_id for item in subject.items}
        return [note for note in session.notes if _is_about_tool(note, subject.name, calls)]
    numbers = {item.number for item in subject.items}
    marks = {item.mark for item in subject.items}
    found = []
    for note in session.notes:
        record = note.record
        if subject.kind == "call" and record.call_id == subject.name:
            found.append(note)
        elif numbers.intersection(item.number for item in session.items_of(note)):
            sources = [source for source in record.sources if source.item in marks]
            found.append(attrs.evolve(note, record=record.evolve(sources=sources)) if sources else note)
    return found


def _is_about_tool(note: Note, tool: str, calls: set[str]) -> bool:
    record = note.record
    return record.tool == tool or record.call_id in calls or tool in _changed_tools(note)
