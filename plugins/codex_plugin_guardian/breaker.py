"""Ends a turn with too many refusals, because an agent that keeps trying needs the user's attention."""

from __future__ import annotations

__all__ = ["IN_A_ROW", "OF_RECENT", "RECENT", "Breaker"]

IN_A_ROW = 3
"""Number of consecutive refusals that end a turn (Codex's number)."""

OF_RECENT, RECENT = 10, 50
"""Number of refusals, among this number of last decisions of a turn, that end it (Codex's numbers)."""


class Breaker:
    """Counts the decisions of a thread's current turn."""

    def __init__(self) -> None:
        self._turn = ""
        self._decisions = 0  # one bit per decision, the newest is the lowest; 1 means refused
        self._tripped = False

    def record(self, turn_id: str, *, refused: bool) -> str | None:
        """Count a decision. Return why the turn must end now, once per turn, or None."""
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
