"""Watches the interceptors that get one value: who returned another one, how long it took, and what it named as its cause."""

from __future__ import annotations

import time
from typing import Any

from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.value import Value
from codex_framework.loader.interceptor_table import Guard
from codex_framework.threads.provenance import listen

__all__ = ["Step", "Watched"]


class Step(Value):
    """One change of a value."""

    by: Actor
    seconds: float
    before: Any
    after: Any


class Watched:
    """The changes of one value. A value that is returned as it was given costs a reading of the clock and a comparison.

    Attributes:
        steps: The changes so far.
    """

    __slots__ = ("_began", "_guard", "_heard", "steps")

    _guard: Guard

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] = ()
        self._heard = listen()
        self._began = 0.0

    def begin(self, guard: Guard) -> None:
        """Note that an interceptor is called now."""
        if self._heard:
            self._heard.clear()
        self._guard = guard
        self._began = time.monotonic()

    def end(self, before: Any, after: Any) -> None:
        """Note what the interceptor returned."""
        if after is not before:
            by, seconds = self.actor()
            self.steps = (*self.steps, Step(by, seconds, before, after))

    def actor(self) -> tuple[Actor, float]:
        """Return the interceptor that was called last, and how long it took."""
        seconds = time.monotonic() - self._began
        guard = self._guard
        return Actor(role="interceptor", name=guard.name, plugin=guard.plugin, causes=tuple(self._heard)), seconds
