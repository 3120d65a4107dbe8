"""The roles that only watch: observers, notifiers, telemetry. They can't hurt a turn.

All three are called on a thread of their own, one call at a time and in order, never on the event loop. A call that raises is
reported with the plugin's name; one that raises three times, or does not come back within its time, is muted for the thread.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.events import Event
from codex_framework.contract.value import Value, field

__all__ = ["Measurement", "Notification", "Notifier", "Observer", "Telemetry"]


class Observer:
    """Hears every event of every thread, deltas excepted.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def observe(self, thread_id: str, event: Event) -> None:
        """Take one event. 5 s at most."""
        raise NotImplementedError


class Notification(Value, kw_only=True):
    """Something a person who is not looking wants to know.

    Attributes:
        type: ``agent-turn-complete`` or ``approval-requested``.
        input_messages: What the person had asked in this turn.
    """

    type: str
    thread_id: str
    turn_id: str
    cwd: str
    input_messages: tuple[str, ...] = ()
    last_assistant_message: str | None = None
    text: str = ""


class Notifier:
    """Tells a person that a turn has ended or needs them.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def notify(self, notification: Notification) -> None:
        """Tell. 5 s at most; start a process rather than wait for one."""
        raise NotImplementedError


class Measurement(Value, kw_only=True):
    """One measured thing.

    Attributes:
        kind: ``span`` (has ``duration_s``), ``event`` or ``counter`` (has ``value``).
        name: As in the telemetry tables (``codex.tool.call``, ``codex.api_request``, ...).
        time_s: Unix time of the start, in seconds.
        attributes: Strings, numbers and booleans; never prompt text or tool output.
        thread_id, turn_id: Where it belongs; empty for what belongs to no thread or no turn.
        trace_id, span_id, parent_id: Its place in a trace, as W3C ids in hex. Empty for counters.
        failed: Whether what was measured failed.
    """

    kind: str
    name: str
    time_s: float
    duration_s: float = 0.0
    value: float = 1.0
    attributes: Mapping[str, Any] = field(factory=dict)
    thread_id: str = ""
    turn_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent_id: str = ""
    failed: bool = False


class Telemetry:
    """Measures.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def record(self, measurement: Measurement) -> None:
        """Take one measurement. 5 s at most."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send what is held back; called when the kernel closes. 5 s at most."""
