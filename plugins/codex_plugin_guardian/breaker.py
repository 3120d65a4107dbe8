"""When a turn has been refused too often, it is ended: an agent that goes on trying needs a person."""

from __future__ import annotations

__all__ = ["IN_A_ROW", "OF_RECENT", "RECENT", "Breaker"]

IN_A_ROW = 3
"""Refusals one after the other that end a turn (Codex's number)."""

OF_RECENT, RECENT = 10, 50
"""Refusals among the last decisions of a turn that end it (Codex's numbers)."""


class Breaker:
    """Counts the decisions of a thread's current turn."""

    def __init__(self) -> None:
        self._turn = ""
        self._decisions = 0  # one bit a decision, the newest lowest; 1: refused
        self._tripped = False

    def record(self, turn_id: str, *, refused: bool) -> str | None:
        """Count a decision; why the turn has to end now, or None. It is said once a turn."""
        if turn_id != self._turn:
            self._turn, self._decisions, self._tripped = turn_id, 0, False
        self._decisions = (self._decisions << 1 | refused) & ((1 << RECENT) - 1)
        if self._tripped or not refused:
            return None
        row = (1 << IN_A_ROW) - 1
        if self._decisions & row == row:
            self._tripped = True
            return f"{IN_A_ROW} requests in a row were refused"
        if self._decisions.bit_count() >= OF_RECENT:
            self._tripped = True
            return f"{OF_RECENT} of the last {RECENT} requests were refused"
        return None
