"""Spans: measured pieces of work with W3C ids, which form a tree from submission to turn to sample, call and below.

Ids are created only if telemetry is in use. The current span is a context variable, so that measurements of a plugin become
children of its call or task.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextvars import Context, ContextVar, Token, copy_context
from itertools import count
from types import TracebackType
from typing import Any

from codex_framework.contract.roles.scopes import Trace
from codex_framework.threads.broadcast import Broadcast
from codex_framework.toolkit.spans import NO_SPAN, NoSpan, Place

__all__ = ["RunningSpan", "context_of", "event", "span_of"]

_NOWHERE: Place = ("", "")
_NO_CONTENT: Mapping[str, str] = {}
_CURRENT: ContextVar[Place | None] = ContextVar("codex_framework_span", default=None)

_MASK = (1 << 64) - 1
_SPAN_IDS = count(int.from_bytes(os.urandom(8), "big"), 0x9E3779B97F4A7C15)
"""Ids that begin anywhere and never come twice. Asking the system for each would cost as much as the rest of a span."""

_TRACEPARENT = r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"


def span_of(
    broadcast: Broadcast,
    name: str,
    *,
    thread_id: str = "",
    turn_id: str = "",
    attributes: dict[str, Any] | None = None,
    trace: Trace | None = None,
    parent: Place | None = None,
    default: Place | None = None,
) -> RunningSpan | NoSpan:
    """Measure a block as a child of ``trace`` or ``parent``, else of the current span, of ``default``, or of the program's trace."""
    if not broadcast.measures:
        return NO_SPAN
    above = (trace and place_of(trace)) or parent or _CURRENT.get() or default or place_of(broadcast.current())
    return RunningSpan(broadcast, name, thread_id, turn_id, {} if attributes is None else attributes, above)


def event(
    broadcast: Broadcast,
    name: str,
    attributes: Mapping[str, Any],
    *,
    default: Place | None = None,
    time_s: float | None = None,
    duration_s: float = 0.0,
    failed: bool = False,
    marks: Sequence[tuple[str, float]] = (),
    content: Mapping[str, str] = _NO_CONTENT,
    thread_id: str = "",
    turn_id: str = "",
) -> None:
    """Report that something has happened, within the current span or ``default``. Check ``broadcast.measures`` first.

    Args:
        time_s: When it began, as Unix time in seconds. The default is now.
        duration_s, failed, marks, content, thread_id, turn_id: As in a ``Measurement``.
    """
    trace_id, parent_id = _CURRENT.get() or default or _NOWHERE
    began = time.time() if time_s is None else time_s
    broadcast.add_measurement(
        (
            *("event", name, began, duration_s, 1.0, attributes, content, marks),
            *(thread_id, turn_id, trace_id, "", parent_id, failed),
        )
    )


def context_of(place: Place | None) -> Context | None:
    """Return a context for a task whose current span is ``place``, if there is one."""
    if place is None:
        return None
    context = copy_context()
    context.run(_CURRENT.set, place)
    return context


def place_of(trace: Trace | None) -> Place | None:
    """Parse ``00-<trace id>-<span id>-<flags>``. Returns None for anything else."""
    match = None if trace is None else re.fullmatch(_TRACEPARENT, trace.traceparent)
    return None if match is None else (match[1], match[2])


class RunningSpan:
    """A span that is being measured, as a ``with`` block, or from :meth:`begin` to :meth:`finish`.

    Attributes:
        place: Its ids.
    """

    __slots__ = (
        *("place", "_broadcast", "_name", "_thread_id", "_turn_id", "_parent_id"),
        *("_attributes", "_content", "_marks", "_token", "_began", "_started"),
    )

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
        self._content: Mapping[str, str] = _NO_CONTENT
        self._marks: Sequence[tuple[str, float]] = ()
        span_id = f"{next(_SPAN_IDS) & _MASK or 1:016x}"
        if parent:
            trace_id, self._parent_id = parent
        else:
            trace_id, self._parent_id = os.urandom(16).hex(), ""
        self.place: Place = (trace_id, span_id)
        self._token: Token[Place | None] | None = None
        self._began = self._started = 0.0

    @property
    def trace(self) -> Trace | None:
        """The trace context of the span."""
        return Trace(f"00-{self.place[0]}-{self.place[1]}-01")

    def set(self, **attributes: str | float | bool) -> None:
        """Add attributes."""
        self._attributes.update(attributes)

    def mark(self, name: str) -> None:
        """Note a moment within the span."""
        self._marks = (*self._marks, (name, time.time()))

    def tell(self, **content: str) -> None:
        """Add text of the user, of the model or of tools."""
        self._content = {**self._content, **content}

    def begin(self) -> None:
        """Begin, without becoming the current span."""
        self._began, self._started = time.time(), time.monotonic()

    def finish(self, *, failed: bool = False) -> None:
        """End, and report the span."""
        duration_s = time.monotonic() - self._started
        trace_id, span_id = self.place
        failed = failed or self._attributes.get("success") is False
        self._broadcast.add_measurement(
            (
                *("span", self._name, self._began, duration_s, 1.0, self._attributes, self._content, self._marks),
                *(self._thread_id, self._turn_id, trace_id, span_id, self._parent_id, failed),
            )
        )

    def __enter__(self) -> RunningSpan:
        self._began, self._started = time.time(), time.monotonic()
        self._token = _CURRENT.set(self.place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        self.finish(failed=kind is not None)
