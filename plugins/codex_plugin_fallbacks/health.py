"""Tracks which models have failed, how long they are skipped, and which model answers in each turn."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import attrs

from codex_framework import ModelError

__all__ = ["Health", "Target", "is_final"]

Target = tuple[str, str]
"""A provider's id and a model's name."""

_FINAL = frozenset({"overloaded", "quota", "usage-limit", "rate-limit", "unreachable"})
"""The errors after which only another model can help, if the error says that a retry cannot."""

_THREADS = 1024
"""How many threads are remembered. Others start with the model that is configured."""


def is_final(error: ModelError, failures: int, retries: int, longest_wait_s: float) -> bool:
    """Return whether a model has failed permanently.

    Args:
        failures: The number of failures for the same response, including this one.
        retries: The number of retries of a turn.
    """
    if error.retryable:
        wait_s = error.retry_after_s or 0.0
        return wait_s > longest_wait_s or failures >= retries
    return error.slug in _FINAL


@attrs.define
class Turn:
    """The state of one thread's turn.

    Attributes:
        target: The model that answers.
        failures: The number of its failures since its last complete response.
    """

    turn_id: str
    target: Target
    failures: int = 0


class Health:
    """The models that have failed, for all threads of a kernel.

    Args:
        rest_s: How long a model is left out after it has failed, in seconds.
    """

    def __init__(self, rest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest_s = rest_s
        self._clock = clock
        self._failed: dict[Target, tuple[float, str]] = {}
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._told: dict[str, Target] = {}

    def turn(self, thread_id: str, turn_id: str, targets: Sequence[Target]) -> Turn:
        """Return the state of a turn. A new one starts with the first target that has not failed lately."""
        known = self._turns.get(thread_id)
        if known is None or known.turn_id != turn_id or known.target not in targets:
            known = Turn(turn_id, self.first(targets))
            self._turns[thread_id] = known
            while len(self._turns) > _THREADS:
                self._told.pop(self._turns.popitem(last=False)[0], None)
        self._turns.move_to_end(thread_id)
        return known

    def first(self, targets: Sequence[Target]) -> Target:
        """Return the first target that has not failed lately, or the first one if all have."""
        return next((one for one in targets if not self._rests(one)), targets[0])

    def failed(self, target: Target, reason: str) -> None:
        """Leave a target out from now on."""
        self._failed[target] = (self._clock() + self._rest_s, reason)

    def answered(self, target: Target) -> None:
        """Note that a target has answered."""
        self._failed.pop(target, None)

    def reason(self, thread_id: str, targets: Sequence[Target], target: Target) -> str:
        """Return why a target answers in place of those before it, if the thread's user has not been told. Empty means told."""
        if target == targets[0]:
            self._told.pop(thread_id, None)
            return ""
        told = self._told.get(thread_id)
        if told == target:
            return ""
        self._told[thread_id] = target
        start = targets.index(told) if told in targets else 0
        reasons = [self._failed[one][1] for one in targets[start : targets.index(target)] if one in self._failed]
        return "; then ".join(reasons) or "it failed before"

    def _rests(self, target: Target) -> bool:
        until, _ = self._failed.get(target, (0.0, ""))
        return self._clock() < until
