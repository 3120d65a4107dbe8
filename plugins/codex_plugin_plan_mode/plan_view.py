"""The view of a message with proposed plans: clients get a plan as the item ``Plan``, and the rest as the message."""

from __future__ import annotations

import time

from codex_framework import TurnContext
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_plugin_plan_mode.events import PlanDeltaEvent

__all__ = ["PlanView"]

_OPEN, _CLOSE = "<proposed_plan>", "</proposed_plan>"

_LONGEST = 200
"""Length in characters from which the start of a line cannot be a tag with whitespace around it any more."""


class PlanView:
    """Splits the text of a message at the tags, which are on separate lines.

    A plan that is not closed ends with the message. Of several plans, the last one counts.

    Args:
        turn: The turn, whose clients get the plan.
    """

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._in_plan = False
        self._held = ""
        self._is_decided = False
        self._plan: list[str] | None = None
        self._has_started = False

    def feed(self, text: str) -> str:
        """Take a piece of the message, cut anywhere. Return the part that belongs to the message."""
        shown: list[str] = []
        plan: list[str] = []
        for piece in _lines(text):
            found = self._text_of_line(piece)
            if found is None:
                self._tell(plan)
                plan = []
                self._switch()
            else:
                (plan if self._in_plan else shown).append(found)
        self._tell(plan)
        return "".join(shown)

    def _text_of_line(self, piece: str) -> str | None:
        """Return the text that is not part of a tag, or None if the line is a tag. ``piece`` is a part of one line."""
        ends = piece.endswith("\n")
        if self._is_decided:
            self._is_decided = not ends
            return piece
        self._held += piece
        tag = _CLOSE if self._in_plan else _OPEN
        if ends and len(self._held) < _LONGEST and self._held.strip() == tag:
            self._held = ""
            return None
        if not ends and len(self._held) < _LONGEST and _may_be(self._held, tag):
            return ""
        found, self._held = self._held, ""
        self._is_decided = not ends
        return found

    def _switch(self) -> None:
        self._in_plan = not self._in_plan
        if self._in_plan:
            self._plan = []

    def _tell(self, pieces: list[str]) -> None:
        text = "".join(pieces)
        if not text:
            return
        facts = self._turn.facts
        if not self._has_started:
            self._has_started = True
            self._turn.emit(ItemStartedEvent(facts.thread_id, facts.turn_id, self._item(""), _now_ms()))
        assert self._plan is not None
        self._plan.append(text)
        self._turn.emit(PlanDeltaEvent(facts.thread_id, facts.turn_id, self._item_id, text))

    def end(self) -> str:
        """Complete the plan, and return the rest of the message."""
        held, self._held = self._held, ""
        if self._in_plan and held.strip() != _CLOSE:
            self._tell([held])
        if self._has_started:
            facts = self._turn.facts
            item = self._item("".join(self._plan or ()))
            self._turn.emit(ItemCompletedEvent(facts.thread_id, facts.turn_id, item, _now_ms()))
        return "" if self._in_plan or held.strip() == _OPEN else held

    @property
    def _item_id(self) -> str:
        return f"{self._turn.facts.turn_id}-plan"

    def _item(self, text: str) -> dict[str, str]:
        return {"type": "Plan", "id": self._item_id, "text": text}


def _lines(text: str) -> list[str]:
    """Split text after each newline, and nowhere else."""
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def _may_be(line: str, tag: str) -> bool:
    """Return whether the start of a line can become a line with only a tag."""
    text = line.lstrip()
    return tag.startswith(text) if len(text) <= len(tag) else text.rstrip() == tag


def _now_ms() -> int:
    return int(time.time() * 1000)
