"""Reading a session from its file, and from the files that it continues. Damaged parts are left out and reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.items import CONTEXT_MARKS
from codex_framework.contract.protocol.wire import WireError, read
from codex_framework.contract.roles.provenance import KIND, Actor, Provenance
from codex_framework.toolkit.item_marks import item_mark
from codex_framework.toolkit.strict_json import strict_json
from codex_plugin_provenance.concluded import concluded
from codex_plugin_provenance.files import Files, open_session_file
from codex_plugin_provenance.session import Item, Note, Session, Turn

__all__ = ["session_of"]

_LONGEST_LINE = 64 * 1024 * 1024
"""Longer lines are left out. No message of a model is as long."""

_PROMPT = 100
_PRIVATE = "internal_chat_message_metadata_passthrough"
_MOST_ANCESTORS = 50


_DEEPEST = 300
"""Lines with data that are nested more deeply are left out: they could not be shown."""


def session_of(path: Path, files: Files) -> Session:
    """Return the session in a file, with what it inherits from other threads.

    Raises:
        ThreadError: The file cannot be read, or does not contain a session.
    """
    try:
        return _session(path, files)
    except RecursionError:
        raise ThreadError(
            f"{path} has data in it that are nested too deeply",
            slug="thread-unreadable",
            hint="Remove the line from a copy.",
        ) from None


def _session(path: Path, files: Files) -> Session:
    reader = _Reader(path)
    reader.take(path)
    session = reader.session
    if not session.id and not session.items and not session.turns:
        raise ThreadError(
            f"{path} is not the file of a session: none of its lines is one of a session",
            slug="thread-unreadable",
            hint="Name a file rollout-*.jsonl.",
        )
    _inherit(session, reader.head, files)
    session.notes += concluded(session)
    return session


def _inherit(session: Session, head: Mapping[str, Any], files: Files) -> None:
    """Add the items of the threads that a fork continues, and the notes of all its ancestors about items that it has."""
    seen = {session.path}
    path = Path(session.path)
    for _ in range(_MOST_ANCESTORS):
        base = head.get("history_base")
        older, end = _older(head, base, files, path)
        if older is None or str(older) in seen:
            if base is not None:
                session.faults.append(
                    "the thread continues another one, whose file is missing, so its beginning is missing here"
                )
            return
        seen.add(str(older))
        reader = _Reader(older)
        try:
            reader.take(older, end=end)
        except ThreadError as error:
            session.faults.append(str(error))
            return
        _adopt(session, reader.session, whole=base is not None)
        head, path = reader.head, older


def _older(head: Mapping[str, Any], base: Any, files: Files, path: Path) -> tuple[Path | None, int | None]:
    match base:
        case {"thread_id": str(name), "end_ordinal_exclusive": int(end)}:
            return files.of_segment(name, path), end
    for name in ("forked_from_id", "parent_thread_id"):
        parent = head.get(name)
        if isinstance(parent, str) and parent:
            return files.of_thread(parent), None
    return None, None


def _adopt(session: Session, older: Session, *, whole: bool) -> None:
    import attrs

    if whole:
        session.notes[:] = [
            note if note.after is None else attrs.evolve(note, after=note.after + len(older.items))
            for note in session.notes
        ]
        session.items[:0] = [attrs.evolve(item, inherited=older.id) for item in older.items]
        session.turns[:0] = older.turns
        for number, turn in enumerate((turn for turn in session.turns if turn.number), 1):
            turn.number = number
        session.items[:] = [attrs.evolve(item, number=number) for number, item in enumerate(session.items, 1)]
    marks = {item.mark for item in session.items}
    calls = {item.call_id for item in session.items if item.call_id}
    session.notes[:0] = [
        attrs.evolve(note, inherited=older.id, after=note.after if whole else None)
        for note in older.notes
        if whole or note.record.call_id in calls or marks.intersection((*note.record.items, *note.record.without))
    ]
    session.of_framework = session.of_framework or older.of_framework
    session.says_who = session.says_who or older.says_who
    session.faults += older.faults


class _Reader:
    """Reads one file."""

    def __init__(self, path: Path) -> None:
        self.session = Session(id="", path=str(path))
        self.head: Mapping[str, Any] = {}
        self._turn = Turn(number=0)
        self._turns: dict[str, Turn] = {}
        self._running = False
        self._compacted = False
        self._patches: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        self._unreadable: list[int] = []
        self._unknown: list[int] = []

    def take(self, path: Path, *, end: int | None = None) -> None:
        """Read the file.

        Args:
            end: The ordinal of the first line that does not belong to the thread. None if all lines do.

        Raises:
            ThreadError: It cannot be read.
        """
        try:
            with open_session_file(path) as lines:
                for number, line in _lines(lines):
                    if not self._take(number, line, end):
                        break
        except OSError as error:
            raise ThreadError(
                f"cannot read {path}: {error.strerror or error}",
                slug="thread-unreadable",
                hint="Make the file readable.",
            ) from error
        name = Path(path).name
        for numbers, what in (
            (self._unreadable, "unreadable line"),
            (self._unknown, "unreadable record of provenance"),
        ):
            if numbers:
                places = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
                self.session.faults.append(
                    f"{len(numbers)} {what}{'s' if len(numbers) > 1 else ''} of {name} left out (line {places})"
                )

    def _take(self, number: int, line: bytes | None, end: int | None) -> bool:
        raw = None if line is None else _object(line)
        if raw is None:
            self._unreadable.append(number)
        elif raw:
            ordinal = raw.get("ordinal")
            if end is not None and isinstance(ordinal, int) and ordinal >= end:
                return False
            time = raw.get("timestamp")
            self._apply(number, raw["type"], raw["payload"], time if isinstance(time, str) else "")
        return True

    def _apply(self, number: int, kind: Any, payload: dict[str, Any], time: str) -> None:
        match kind:
            case "session_meta" if not self.session.id and isinstance(payload.get("id"), str):
                self.head = payload
                self._meta(payload)
            case "response_item":
                self._item(payload, time)
            case "event_msg":
                self._event(payload, time)
            case "compacted":
                if not self._compacted:  # else the record before it says by whom
                    record = Provenance(did="compacted", what="history", by=Actor(role="unknown"))
                    self._note(time, record, recorded=False)
                self._compacted = False
            case "plugin_entry":
                self._entry(number, payload, time)

    def _meta(self, payload: Mapping[str, Any]) -> None:
        for field, name in (("id", "id"), ("cwd", "cwd"), ("originator", "originator"), ("version", "cli_version")):
            value = payload.get(name)
            setattr(self.session, field, value if isinstance(value, str) else "")

    def _item(self, payload: dict[str, Any], time: str) -> None:
        item = Item(
            number=len(self.session.items) + 1,
            turn=self._turn,
            time=time,
            payload=payload,
            mark=item_mark({name: value for name, value in payload.items() if name != _PRIVATE}),
        )
        if item.role == "user" and not item.text.lstrip().startswith(CONTEXT_MARKS):
            if not self._running and item.kind == "message":  # older files have no events about turns
                self._begin("", time)
                item = _with_turn(item, self._turn)
            self._turn.prompt = self._turn.prompt or item.text[:_PROMPT]
        self.session.items.append(item)

    def _event(self, payload: dict[str, Any], time: str) -> None:
        match payload.get("type"):
            case "task_started" | "turn_started":
                turn_id = payload.get("turn_id")
                self._begin(turn_id if isinstance(turn_id, str) else "", time)
                self._running = True
            case "task_complete" | "turn_complete" | "turn_aborted":
                self._running = False
            case "thread_rolled_back":
                self._roll_back(payload.get("num_turns"))

    def _begin(self, turn_id: str, time: str) -> None:
        number = len(self.session.turns) + 1
        self._turn = Turn(number=number, id=turn_id, began=time)
        self.session.turns.append(self._turn)
        self._turns[turn_id] = self._turn

    def _roll_back(self, count: Any) -> None:
        if not isinstance(count, int):
            return
        asked = [turn for turn in self.session.turns if turn.prompt and not turn.rolled_back]
        for turn in asked[-count:] if count > 0 else []:
            turn.rolled_back = True

    def _entry(self, number: int, payload: dict[str, Any], time: str) -> None:
        self.session.of_framework = True
        data = payload.get("data")
        if payload.get("kind") == "offered_tools":
            names = data.get("names") if isinstance(data, dict) else None
            self._offered(payload.get("plugin"), names, time)
        if payload.get("kind") != KIND:
            return
        self.session.says_who = True
        try:
            record = read(Provenance, data)
        except (WireError, RecursionError):
            self._unknown.append(number)
            return
        self._compacted = self._compacted or record.did == "compacted"
        self._note(time, record, turn_id=payload.get("turn_id"))

    def _offered(self, plugin: Any, names: Any, time: str) -> None:
        if isinstance(plugin, str) and isinstance(names, list):
            patch = [{"op": "add", "path": f"/tools/{name}", "value": None} for name in names if isinstance(name, str)]
            by = Actor(role="plugin", name=plugin, plugin=plugin)
            self._note(time, Provenance(did="changed", what="request", by=by, patch=patch))

    def _note(self, time: str, record: Provenance, *, turn_id: Any = None, recorded: bool = True) -> None:
        turn = self._turns.get(turn_id, self._turn) if isinstance(turn_id, str) and turn_id else self._turn
        patch = record.patch
        if patch is not None and record.what == "request":
            key = (turn.id, record.by.plugin, record.by.name)
            patch = [*self._patches.get(key, [])[: record.repeats], *patch]
            self._patches[key] = list(patch)
        after = len(self.session.items)
        note = Note(turn=turn, time=time, record=record, patch=patch, after=after, recorded=recorded)
        self.session.notes.append(note)


def _with_turn(item: Item, turn: Turn) -> Item:
    import attrs

    return attrs.evolve(item, turn=turn)


def _lines(file: Any) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines with their numbers. A line that is too long is None."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(_LONGEST_LINE)
            yield number, None
        else:
            yield number, line


def _object(line: bytes) -> dict[str, Any] | None:
    """Return a line's object. It is empty for an empty line, and None for an unreadable one."""
    if not line.strip(b" \t\r\n\0"):
        return {}
    try:
        raw = strict_json(line.decode("utf-8-sig", "surrogatepass"), _DEEPEST)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(raw, dict) and "type" in raw and isinstance(raw.get("payload"), dict)
    return raw if whole else None
