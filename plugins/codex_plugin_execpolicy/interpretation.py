"""What goes into the evaluation of a rules file, and what comes of it."""

from __future__ import annotations

import time

from codex_framework.contract.value import Value
from codex_plugin_execpolicy.calls import Call

__all__ = ["WAIT_S", "Deadline", "Failure", "Interpretation", "Part"]

WAIT_S = 10.0
"""Wall-clock time for all files that are read together. A limit of processor time comes first, unless the machine is busy."""


class Deadline:
    """A point in time until which rules may be read."""

    def __init__(self, seconds: float = WAIT_S) -> None:
        self._ends = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self._ends - time.monotonic())


class Part(Value):
    """Consecutive lines of a file.

    Attributes:
        line: The number of the first one, 1-based.
    """

    text: str
    line: int = 1


class Failure(Value, kw_only=True):
    """Why a part could not be evaluated.

    Attributes:
        line: Where, 1-based in the file; the part's first line where nothing more is known.
        column: 1-based; None where it is not known.
        exact: Whether the place is that of the mistake, and not just that of the part.
        hint: What to do, if it is not about the text.
    """

    fact: str
    line: int
    column: int | None = None
    exact: bool = True
    hint: str = ""


class Interpretation(Value):
    """What came of some parts.

    Attributes:
        failures: One for each part that failed.
        rest: Parts that were not evaluated, because one before them reached a limit.
    """

    calls: tuple[Call, ...]
    failures: tuple[Failure, ...] = ()
    rest: tuple[Part, ...] = ()
