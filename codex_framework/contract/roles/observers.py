"""The passive roles: observers, notifiers, telemetry. They cannot affect a turn.

All three are called on a separate operating-system thread, one call at a time and in order, never on the event loop. An exception
is reported with the plugin's name. An object that raises three times, or exceeds its time limit, is muted for the thread.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, overload

from codex_framework.contract.protocol.events import Event
from codex_framework.contract.roles.scopes import Trace
from codex_framework.contract.value import Value, field

__all__ = ["Measurement", "Measurements", "Notification", "Notifier", "Observer", "Telemetry"]


class Observer:
    """Receives every event of every thread, except deltas.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def observe(self, thread_id: str, event: Event) -> None:
        """Handle one event. Time limit 5 s."""
        raise NotImplementedError


class Notification(Value, kw_only=True):
    """A notification for a user who is not watching.

    Attributes:
        type: ``agent-turn-complete``, ``approval-requested``, ``turn-failed`` or ``budget-reached``. Ignore the types that you
            do not know. A turn that the user has interrupted causes no notification.
        client: The name of the thread's client (its originator), such as ``codex_exec``.
        input_messages: The user's input in this turn.
        text: The question to the user, the reason of the failure, or the limit that was reached.
        duration_s: How long the turn has taken, in seconds. None for a request, because the turn still runs.
    """

    type: str
    thread_id: str
    turn_id: str
    cwd: str
    input_messages: tuple[str, ...] = ()
    last_assistant_message: str | None = None
    text: str = ""
    client: str = ""
    duration_s: float | None = None


class Notifier:
    """Notifies the user that a turn has ended, has failed or needs an answer.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def notify(self, notification: Notification) -> None:
        """Deliver a notification. Time limit 5 s: start a process without waiting for it."""
        raise NotImplementedError

    def flush(self) -> None:
        """Deliver queued data and release resources. Called when the kernel closes. Time limit 5 s."""


class Measurement(Value, kw_only=True):
    """One measurement. ``docs/explanation/measurements.md`` lists the measurements of the kernel.

    Attributes:
        kind: ``span`` (has ``duration_s``), ``event`` (may have it) or ``counter`` (has ``value``).
        name: The measured quantity (``codex.turn``, ``codex.tool.call``, ``codex.api_request``, ...).
        time_s: Unix time of the start, in seconds.
        attributes: Strings, numbers and booleans; never prompt text or tool output.
        content: Text of the user, of the model or of tools, redacted by interceptors. Pass it on only where the user allows that.
        marks: Moments within a span: name, and Unix time in seconds.
        thread_id, turn_id: The thread and turn. Empty if it belongs to no thread or no turn.
        trace_id, span_id, parent_id: Its position in a trace, as W3C ids in hex. Empty for counters.
        failed: Whether the measured work failed.
    """

    kind: str
    name: str
    time_s: float
    duration_s: float = 0.0
    value: float = 1.0
    attributes: Mapping[str, Any] = field(factory=dict)
    content: Mapping[str, str] = field(factory=dict, repr=False)
    marks: Sequence[tuple[str, float]] = ()
    thread_id: str = ""
    turn_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent_id: str = ""
    failed: bool = False


_FIELDS = tuple(Measurement.__annotations__)

MeasurementRow = tuple[Any, ...]
"""The fields of a :class:`Measurement`, in their order."""


class Measurements(Sequence[Measurement]):
    """The measurements of one moment. Each is created on access, so that passing them on costs little.

    Attributes:
        rows: The fields of each, in the order of :class:`Measurement`.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: Sequence[MeasurementRow]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Measurement: ...

    @overload
    def __getitem__(self, place: slice) -> Measurements: ...

    def __getitem__(self, place: int | slice) -> Measurement | Measurements:
        """Return one, or a part of them."""
        if isinstance(place, slice):
            return Measurements(self.rows[place])
        fields: dict[str, Any] = dict(zip(_FIELDS, self.rows[place], strict=True))
        return Measurement(**fields)


class Telemetry:
    """Receives measurements.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def record(self, measurement: Measurement) -> None:
        """Handle one measurement. Time limit 5 s."""
        raise NotImplementedError

    def record_many(self, measurements: Sequence[Measurement]) -> None:
        """Handle the measurements of a moment, at most 0.2 s after the first. Time limit 5 s. The default calls :meth:`record`.

        Override it if a batch costs less than its measurements one by one. Then :meth:`record` is not called by the kernel, which
        passes :class:`Measurements`.
        """
        for measurement in measurements:
            self.record(measurement)

    def current(self) -> Trace | None:
        """Return the current trace, which becomes the parent of spans without a parent.

        None starts a new trace. Called often, on the event loop: do not compute anything.
        """
        return None

    def flush(self) -> None:
        """Send buffered measurements. Called when the kernel closes. Time limit 5 s."""
