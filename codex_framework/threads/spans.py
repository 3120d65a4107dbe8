"""Spans: measured pieces of work with W3C ids, which form a tree from submission to turn to sample, call and below.

Ids are created only if telemetry is in use. The current span is a context variable, so that measurements of a plugin become
children
of its call or task.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from codex_framework.contract.roles.observers import Measurement
from codex_framework.contract.roles.scopes import Span, Trace
from codex_framework.threads.broadcast import Broadcast

__all__ = ["Place", "measured", "span_of"]

Place = tuple[str, str]
"""Trace id (32 hex digits) and span id (16)."""

_CURRENT: ContextVar[Place | None] = ContextVar("codex_framework_span", default=None)


def span_of(
    broadcast: Broadcast,
    name: str,
    *,
    thread_id: str = "",
    turn_id: str = "",
    attributes: dict[str, Any] | None = None,
    trace: Trace | None = None,
) -> AbstractContextManager[Span]:
    """Measure a block as a child of the current span, or of ``trace``."""
    if not broadcast.measures:
        return _NOTHING
    return RunningSpan(broadcast, name, thread_id, turn_id, dict(attributes or {}), _place_of(trace) or _CURRENT.get())


def _place_of(trace: Trace | None) -> Place | None:
    """Read ``00-<trace id>-<span id>-<flags>``; anything else is no trace."""
    parts = [] if trace is None else trace.traceparent.split("-")
    if len(parts) != 4 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return None
    return parts[1], parts[2]


def measured(broadcast: Broadcast, measurement: Measurement) -> None:
    """Report an ended span to telemetry, as a child of the current span."""
    parent = _CURRENT.get()
    placed = measurement.evolve(
        trace_id=parent[0] if parent else os.urandom(16).hex(),
        span_id=os.urandom(8).hex(),
        parent_id=parent[1] if parent else "",
    )
    broadcast.measurement(measurement.thread_id, placed)


class _NoSpan:
    """The span without telemetry."""

    trace: Trace | None = None

    def set(self, **attributes: str | float | bool) -> None:
        """Do nothing."""

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: object) -> None:
        return None


_NOTHING = _NoSpan()


class RunningSpan:
    """A span that is being measured."""

    def __init__(
        self,
        broadcast: Broadcast,
        name: str,
        thread_id: str,
        turn_id: str,
        attributes: dict[str, Any],
        parent: Place | None,
    ) -> None:
        self._broadcast = broadcast
        self._name = name
        self._thread_id = thread_id
        self._turn_id = turn_id
        self._attributes = attributes
        self._parent_id = parent[1] if parent else ""
        self._place: Place = (parent[0] if parent else os.urandom(16).hex(), os.urandom(8).hex())
        self._token: Token[Place | None] | None = None
        self._began = self._started = 0.0

    @property
    def trace(self) -> Trace | None:
        """The trace context of the span."""
        return Trace(f"00-{self._place[0]}-{self._place[1]}-01")

    def set(self, **attributes: str | float | bool) -> None:
        """Add attributes."""
        self._attributes.update(attributes)

    def __enter__(self) -> Span:
        self._began, self._started = time.time(), time.monotonic()
        self._token = _CURRENT.set(self._place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        self._broadcast.measurement(
            self._thread_id,
            Measurement(
                kind="span",
                name=self._name,
                time_s=self._began,
                duration_s=time.monotonic() - self._started,
                attributes=self._attributes,
                thread_id=self._thread_id,
                turn_id=self._turn_id,
                trace_id=self._place[0],
                span_id=self._place[1],
                parent_id=self._parent_id,
                failed=kind is not None or self._attributes.get("success") is False,
            ),
        )
