"""The answers of ``why``, as text and as JSON data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.json_patch import apply_json_patch
from codex_framework.toolkit.strict_json import strict_json
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_provenance.sentences import changes_of, sentence, shortened, titled
from codex_plugin_provenance.session import Item, Note, Session, Turn
from codex_plugin_provenance.subjects import Subject, notes_about

__all__ = ["answer_data", "answer_lines", "overview_data", "overview_lines"]


def overview_lines(session: Session) -> Iterator[str]:
    """Yield what happened in a session, turn by turn."""
    yield from _head(session)
    silent = True
    of_turn: dict[int, list[Note]] = {}
    for note in session.notes:
        of_turn.setdefault(id(note.turn), []).append(note)
    for turn in _turns(session):
        notes = of_turn.get(id(turn), [])
        if notes or turn.number:
            yield ""
            yield _turn_line(turn)
        for note in notes:
            silent = False
            yield f"  {_place(session, note)}{sentence(note)}"
    if silent:
        yield ""
        yield (
            "Nothing was changed, refused or added."
            if session.says_who
            else "The record does not say who changed anything."
        )


def answer_lines(session: Session, subject: Subject) -> Iterator[str]:
    """Yield who acted on a subject."""
    yield from _head(session)
    yield ""
    for item in subject.items if subject.kind != "tool" else ():
        yield f"#{item.number} {printable(titled(item))}: {_origin(session, item)}"
    if subject.kind == "tool":
        count = len(subject.items)
        places = ", ".join(f"#{item.number}" for item in subject.items[:20]) + (", ..." if count > 20 else "")
        yield printable(
            f"tool {subject.name}: called {count} time{'' if count == 1 else 's'}{f' ({places})' if places else ''}"
        )
    elif not subject.items:
        yield f"call {printable(subject.name)}: not in the history"
    notes = notes_about(session, subject)
    turn: Turn | None = None
    for note, before in _with_documents(session, notes):
        if note.turn is not turn and (subject.kind == "tool" or turn is not None or note.turn.number):
            turn = note.turn
            yield f"  {_turn_line(turn)}"
        yield f"    {sentence(note)}{_of_parent(note)}"
        if note.record.what in ("call", "output", "item", "input"):
            yield from (f"      {change}" for change in changes_of(note, before))
    if not notes:
        yield "  Nobody changed or refused it."


def overview_data(session: Session) -> dict[str, Any]:
    """Return what happened in a session."""
    notes = [_note_data(session, note, before) for note, before in _with_documents(session, session.notes)]
    return {"session": _session_data(session), "notes": notes, "faults": session.faults}


def answer_data(session: Session, subject: Subject) -> dict[str, Any]:
    """Return who acted on a subject."""
    notes = [
        _note_data(session, note, before) for note, before in _with_documents(session, notes_about(session, subject))
    ]
    items = [
        {
            "number": item.number,
            "type": item.kind,
            **({"id": item.id} if item.id else {}),
            **({"call_id": item.call_id} if item.call_id else {}),
            **({"tool": item.tool} if item.tool else {}),
            **({"role": item.role} if item.role else {}),
            "turn": item.turn.number,
            "origin": _origin(session, item),
        }
        for item in subject.items
    ]
    about = {"kind": subject.kind, "name": subject.name, "items": items}
    return {"session": _session_data(session), "about": about, "notes": notes, "faults": session.faults}


def _session_data(session: Session) -> dict[str, Any]:
    turns = [
        {
            "number": turn.number,
            "id": turn.id,
            "began": turn.began,
            "prompt": turn.prompt,
            "rolled_back": turn.rolled_back,
        }
        for turn in session.turns
    ]
    return {
        "id": session.id,
        "path": session.path,
        "cwd": session.cwd,
        "originator": session.originator,
        "version": session.version,
        "recorded_provenance": session.says_who,
        "items": len(session.items),
        "turns": turns,
    }


def _note_data(session: Session, note: Note, before: Any) -> dict[str, Any]:
    record = to_wire(note.record)
    slim = {name: value for name, value in record.items() if value not in ("", [], None) or name == "patch"}
    slim.pop("repeats", None)
    if note.patch is not None:
        slim["patch"] = list(note.patch)
    numbers = [item.number for item in session.items_of(note)]
    return {
        **slim,
        "turn": note.turn.number,
        "turn_id": note.turn.id,
        "time": note.time,
        "recorded": note.recorded,
        **({"numbers": numbers} if numbers else {}),
        **({"before": before} if before is not None else {}),
        **({"inherited_from": note.inherited} if note.inherited else {}),
        "text": sentence(note),
    }


def _head(session: Session) -> Iterator[str]:
    turns = sum(1 for turn in session.turns if turn.number)
    what = f"{turns} turn{'' if turns == 1 else 's'}, {len(session.items)} item{'' if len(session.items) == 1 else 's'}"
    yield printable(f"Session {session.id or '(without an id)'}: {what}")
    if session.of_framework and not session.says_who:
        yield "It has no entries about who acted (the plugin provenance writes them). The following is inferred from the items."
    elif not session.of_framework:
        by = f"{session.originator or 'another program'} {session.version}".strip()
        yield printable(f"Recorded by {by}, which does not record who acted. The following is inferred from the items.")


def _turns(session: Session) -> Sequence[Turn]:
    first = [note.turn for note in session.notes if not note.turn.number][:1]
    return [*first, *(turn for turn in session.turns if turn.number)]


def _turn_line(turn: Turn) -> str:
    if not turn.number:
        return "Before the first turn"
    began = f", {turn.began[:19].replace('T', ' ')}" if turn.began else ""
    prompt = f': "{shortened(turn.prompt, 60)}"' if turn.prompt else ""
    return printable(f"Turn {turn.number}{began}{prompt}{' (rolled back)' if turn.rolled_back else ''}")


def _place(session: Session, note: Note) -> str:
    found = [item.number for item in session.items_of(note)]
    shown = ", ".join(f"#{number}" for number in found[:4]) + (", ..." if len(found) > 4 else "")
    return f"{shown}: " if shown else ""


def _of_parent(note: Note) -> str:
    return printable(f" (in the thread {note.inherited}, which this one continues)") if note.inherited else ""


def _origin(session: Session, item: Item) -> str:
    """Return where an item came from, in a clause."""
    turn = f" in turn {item.turn.number}" if item.turn.number else ""
    if item.is_call or item.kind in ("reasoning",) or item.role == "assistant":
        return f"from the model{turn}"
    if item.is_output:
        return f"the answer to the call{turn}"
    about = [
        note.record
        for note in session.notes
        if item.mark in note.record.items and item.number in {other.number for other in session.items_of(note)}
    ]
    if any(record.did == "added" for record in about):
        return f"added{turn}"
    if any(record.what in ("input", "stop") for record in about):
        return f"brought or changed by an interceptor{turn}"
    if item.role == "user":
        return f"from the user{turn}" if item.turn.number else "from the user"
    return f"added{turn}; by whom was not recorded"


def _with_documents(session: Session, notes: Sequence[Note]) -> Iterator[tuple[Note, Any]]:
    """Yield notes with the document before their change, if it is known. It is known for calls."""
    calls = {item.call_id: item for item in session.items if item.is_call and item.call_id}
    documents: dict[str, Any] = {}
    for note in notes:
        call_id = note.record.call_id
        if note.record.what != "call" or note.patch is None or call_id not in calls:
            yield note, None
            continue
        before = documents.get(call_id) or _call_document(calls[call_id])
        if not isinstance(before, dict):  # a damaged record has replaced all of it
            before = _call_document(calls[call_id])
        parsed = any(str(operation.get("path", "")).startswith("/arguments/") for operation in note.patch)
        before = {**before, "arguments": _parsed(before["arguments"], parsed)}
        yield note, before
        try:
            documents[call_id] = apply_json_patch(before, note.patch)
        except ValueError:  # a damaged record
            documents.pop(call_id, None)


def _call_document(item: Item) -> dict[str, Any]:
    kind = {"custom_tool_call": "custom", "local_shell_call": "local_shell", "tool_search_call": "tool_search"}
    return {
        "call_id": item.call_id,
        "name": item.tool,
        "kind": kind.get(item.kind, "function"),
        "arguments": item.arguments,
    }


def _parsed(arguments: Any, parsed: bool) -> Any:  # noqa: FBT001  # one of two forms
    if parsed and isinstance(arguments, str):
        try:
            return strict_json(arguments)
        except (ValueError, RecursionError):
            return arguments
    if not parsed and isinstance(arguments, dict):
        return json.dumps(arguments)
    return arguments
