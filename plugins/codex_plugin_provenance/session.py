"""A session as recorded: its turns, its items, and the record of who acted.

Nothing is applied: items of turns that were rolled back, and items that were compacted, are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs

from codex_framework.contract.roles.provenance import Provenance

__all__ = ["Item", "Note", "Session", "Turn"]


@attrs.define(kw_only=True)
class Turn:
    """A turn.

    Attributes:
        number: From 1. 0 means before the first turn.
        prompt: The first message of the user.
        rolled_back: Whether it was rolled back later.
    """

    number: int
    id: str = ""
    began: str = ""
    prompt: str = ""
    rolled_back: bool = False


@attrs.frozen(kw_only=True)
class Item:
    """An item of the history.

    Attributes:
        number: From 1, in the order of the file.
        kind: The wire's type, such as ``message``.
        mark: The mark by which records name it.
        inherited: The thread that it comes from, if that is another one.
    """

    number: int
    turn: Turn
    time: str
    payload: Mapping[str, Any]
    mark: str
    inherited: str = ""

    @property
    def kind(self) -> str:
        """The wire's type."""
        return _text(self.payload, "type")

    @property
    def id(self) -> str:
        """The item's own id, which may be empty."""
        return _text(self.payload, "id")

    @property
    def call_id(self) -> str:
        """The id of the call that it makes or answers."""
        return _text(self.payload, "call_id")

    @property
    def tool(self) -> str:
        """The tool that it calls, or an empty text."""
        if self.kind == "local_shell_call":
            return "local_shell"
        return f"{_text(self.payload, 'namespace')}{_text(self.payload, 'name')}" if self.is_call else ""

    @property
    def is_call(self) -> bool:
        """Whether the model calls a tool with it."""
        return self.kind.endswith("_call")

    @property
    def is_output(self) -> bool:
        """Whether it answers a call."""
        return self.kind.endswith("_output")

    @property
    def role(self) -> str:
        """The role of a message."""
        return _text(self.payload, "role")

    @property
    def arguments(self) -> Any:
        """The arguments of a call."""
        for name in ("arguments", "input", "action"):
            if name in self.payload:
                return self.payload[name]
        return None

    @property
    def text(self) -> str:
        """The text of a message or an output."""
        content = self.payload.get("content", self.payload.get("output"))
        if isinstance(content, str):
            return content
        parts = content if isinstance(content, list) else self.payload.get("summary")
        return (
            "\n".join(_text(part, "text") for part in parts if isinstance(part, Mapping))
            if isinstance(parts, list)
            else ""
        )

    @property
    def parts(self) -> Sequence[str]:
        """The texts of a message's content."""
        content = self.payload.get("content")
        return (
            [_text(part, "text") if isinstance(part, Mapping) else "" for part in content]
            if isinstance(content, list)
            else []
        )


@attrs.frozen(kw_only=True)
class Note:
    """A recorded or inferred action.

    Attributes:
        patch: The whole patch, with the operations that it repeats.
        after: The number of items before it, if known.
        recorded: Whether it was recorded. False if it was inferred from other lines.
    """

    turn: Turn
    time: str
    record: Provenance
    patch: Sequence[Mapping[str, Any]] | None = None
    after: int | None = None
    recorded: bool = True
    inherited: str = ""


@attrs.define(kw_only=True, slots=False)
class Session:
    """A session that was read.

    Attributes:
        of_framework: Whether this framework has recorded any of it.
        says_who: Whether it contains entries about who acted.
        faults: The unreadable parts, as sentences.
    """

    id: str
    path: str
    cwd: str = ""
    originator: str = ""
    version: str = ""
    of_framework: bool = False
    says_who: bool = False
    turns: list[Turn] = attrs.Factory(list)
    items: list[Item] = attrs.Factory(list)
    notes: list[Note] = attrs.Factory(list)
    faults: list[str] = attrs.Factory(list)

    def items_of(self, note: Note) -> list[Item]:
        """Return the items that a note is about. Of several equal ones, the first after the note, or the last before it."""
        record = note.record
        found = {item.number: item for item in self._called.get(record.call_id or "", ())}
        for marks, later in ((record.items, True), (record.without, False)):
            for mark in marks:
                equal = self._marked.get(mark, [])
                nearest = _nearest(equal, note.after, later=later)
                found.update((item.number, item) for item in nearest)
        return [found[number] for number in sorted(found)]

    @cached_property
    def _called(self) -> dict[str, list[Item]]:
        return _group_items((item.call_id, item) for item in self.items if item.call_id)

    @cached_property
    def _marked(self) -> dict[str, list[Item]]:
        return _group_items((item.mark, item) for item in self.items)


def _nearest(equal: list[Item], after: int | None, *, later: bool) -> list[Item]:
    if after is None or len(equal) < 2:
        return equal
    behind = [item for item in equal if item.number > after]
    ahead = [item for item in equal if item.number <= after]
    return (behind[:1] or ahead[-1:]) if later else (ahead[-1:] or behind[:1])


def _group_items(pairs: Iterable[tuple[str, Item]]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for name, item in pairs:
        found.setdefault(name, []).append(item)
    return found


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
