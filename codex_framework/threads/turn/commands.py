"""The requests of a turn to its driver: the commands that :class:`~codex_framework.threads.turn.machine.Turn` returns."""

from __future__ import annotations

from typing import TypeAlias

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.items import AnyCall, ResponseItem
from codex_framework.contract.roles.outcomes import Compaction, Outcome
from codex_framework.contract.value import Value
from codex_framework.threads.turn.inputs import InputArrived

__all__ = [
    "Admit",
    "CancelCompact",
    "CancelSample",
    "CancelStop",
    "CancelTool",
    "CancelWait",
    "CheckStop",
    "Command",
    "Compact",
    "Emit",
    "Finish",
    "Flush",
    "Record",
    "Replace",
    "RunTool",
    "Sample",
    "Wait",
]


class Sample(Value):
    """Sample the model with the current history."""


class CancelSample(Value):
    """Cancel the response. No more model input may follow."""


class Admit(Value):
    """Pass an input to the guards. :class:`Admitted` or :class:`Refused` must follow."""

    key: int
    input: InputArrived


class Compact(Value):
    """Shorten the history. ``Compacted`` or ``CompactionFailed`` must follow; nothing is replaced before ``Replace``."""

    reason: str


class CancelCompact(Value):
    """Cancel the compaction."""


class Replace(Value):
    """Replace the history by the compaction and the initial context, and flush it to disk."""

    edit: Compaction


class CheckStop(Value):
    """Ask whether the turn may end. :class:`StopChecked` must follow."""

    message: str | None


class CancelStop(Value):
    """Cancel the check."""


class RunTool(Value):
    """Start a call. A ``ToolFinished`` with this key must follow, whatever happens."""

    key: int
    item: AnyCall


class CancelTool(Value):
    """Cancel a running call. Its ``ToolFinished`` must still follow."""

    key: int


class Record(Value):
    """Add items to history."""

    items: tuple[ResponseItem, ...]


class Emit(Value):
    """Send an event to the clients."""

    msg: EventMsg


class Wait(Value):
    """Feed ``TimerFired`` after this number of seconds."""

    seconds: float


class CancelWait(Value):
    """Cancel the timer."""


class Flush(Value):
    """Flush history to disk before the next command."""


class Finish(Value):
    """End the turn. Always the last command."""

    outcome: Outcome


Command: TypeAlias = (
    Sample
    | CancelSample
    | Admit
    | Compact
    | CancelCompact
    | Replace
    | CheckStop
    | CancelStop
    | RunTool
    | CancelTool
    | Record
    | Emit
    | Wait
    | CancelWait
    | Flush
    | Finish
)
