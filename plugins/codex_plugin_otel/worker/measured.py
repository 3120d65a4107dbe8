"""A measurement, as the worker reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Measured"]


class Measured(NamedTuple):
    """One line of the kernel's. See ``codex_framework.Measurement`` for the fields.

    Attributes:
        content: Text of the user, the model and tools.
        marks: Moments within a span: name and Unix time in seconds.
    """

    kind: str
    name: str
    time_s: float
    duration_s: float
    value: float
    attributes: dict[str, Any]
    content: Mapping[str, str]
    marks: tuple[tuple[str, float], ...]
    thread_id: str
    turn_id: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool

    @property
    def start_ns(self) -> int:
        """When it began, in nanoseconds."""
        return max(int(self.time_s * 1e9), 0)

    @property
    def end_s(self) -> float:
        """When it ended, as Unix time in seconds."""
        return self.time_s + self.duration_s

    @property
    def end_ns(self) -> int:
        """When it ended, in nanoseconds."""
        return max(int((self.time_s + self.duration_s) * 1e9), 0)

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return int(self.duration_s * 1000)
