"""The input and the result of the evaluation of a rules file."""

from __future__ import annotations

import time

from codex_framework.contract.value import Value
from codex_plugin_execpolicy.calls import Call

__all__ = ["WAIT_S", "Deadline", "Failure", "Interpretation", "Part"]

WAIT_S = 10.0
"""Wall-clock time limit for all files together, in seconds. Unless the machine is busy, the limit of processor time is reached
first."""


class Deadline:
    """A point in time until which rules may be read."""

    def __init__(self, seconds: float = WAIT_S) -> None:
        self._ends = time.monotonic() + seconds

    def left(self) -> float:
        """Return the remaining seconds, at least 0."""
        return max(0.0, self._ends - time.monotonic())


class Part(Value):
    """Consecutive lines of a file.

    Attributes:
        line: The number of the first line, from 1.
    """

    text: str
    line: int = 1


class Failure(Value, kw_only=True):
    """The failed evaluation of a part.

    Attributes:
        line: The line in the file, from 1. It is the part's first line if the exact line is unknown.
        column: The column, from 1. None if it is unknown.
        exact: Whether the position is exact, and not only the start of the part.
        hint: Advice, if the error is not in the text.
    """

    fact: str
    line: int
    column: int | None = None
    exact: bool = True
    hint: str = ""


class Interpretation(Value):
    """The result of the evaluation of some parts.

    Attributes:
        failures: One for each part that failed.
        rest: Parts that were not evaluated, because an earlier one reached a limit.
    """

    calls: tuple[Call, ...]
    failures: tuple[Failure, ...] = ()
    rest: tuple[Part, ...] = ()
