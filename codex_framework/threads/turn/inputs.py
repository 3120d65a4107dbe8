"""The events that a turn handles: the inputs of :class:`~codex_framework.threads.turn.machine.Turn`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.items import OutputItem, ResponseItem, UnknownItem
from codex_framework.contract.protocol.ops import MentionInput, SkillInput
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.contract.value import Value, field
from codex_framework.threads.delivery import Delivered

__all__ = [
    "Admitted",
    "Compacted",
    "CompactionFailed",
    "Delivered",
    "Input",
    "InputArrived",
    "Interrupted",
    "ModelCompleted",
    "ModelFailed",
    "ModelItem",
    "Refused",
    "StopChecked",
    "StopRequested",
    "TimerFired",
    "ToolFinished",
]


class InputArrived(Value):
    """User input: the first of the turn, or steered into it.

    History gets ``context`` and then ``items``, clients ``event``, guards also ``mentions``.
    """

    items: tuple[ResponseItem, ...]
    event: EventMsg | None = None
    mentions: tuple[SkillInput | MentionInput, ...] = ()
    context: tuple[ResponseItem, ...] = ()

    @property
    def all_items(self) -> tuple[ResponseItem, ...]:
        """Everything that history gets."""
        return (*self.context, *self.items) if self.context else self.items


class Admitted(Value):
    """The guards admitted an input, possibly changed. ``key`` is the key of its :class:`Admit`."""

    key: int
    input: InputArrived


class Refused(Value):
    """A guard refused an input. Only ``context`` is recorded."""

    key: int
    context: tuple[ResponseItem, ...] = ()


class ModelItem(Value):
    """The model has completed an item. ``shown`` is what clients see of a message, if that is not its text."""

    item: ResponseItem
    shown: str | None = None


class ModelCompleted(Value):
    """The response is complete. ``end_turn`` False requests another sample."""

    end_turn: bool | None = None


class ModelFailed(Value):
    """The response broke off, or never started.

    Attributes:
        error: The exception.
    """

    message: str
    retryable: bool = False
    retry_after_s: float | None = None
    info: str | Mapping[str, Any] = "other"
    starts_over: bool = False
    error: CodexError | None = field(default=None, eq=False, repr=False)


class ToolFinished(Value):
    """A started call has ended, successfully or not. ``fatal`` ends the turn as well."""

    key: int
    output: OutputItem | UnknownItem
    fatal: str | None = None


class Compacted(Value):
    """A compaction is ready to replace the history."""

    edit: Compaction


class CompactionFailed(Value):
    """There is no compaction: an interceptor prevented it, or it failed. ``failure`` ends the turn, because no request would fit."""

    message: str
    failure: ModelFailed | None = None


class StopChecked(Value):
    """The interceptors have checked the end of the turn. ``continuation`` makes it continue; None lets it end."""

    continuation: InputArrived | None = None


class TimerFired(Value):
    """The wait is over."""


class StopRequested(Value):
    """An interceptor or a tool ends the turn as a normal stop. ``message`` is shown to the user."""

    message: str


class Interrupted(Value):
    """The turn must end now."""

    reason: str = "interrupted"


Input: TypeAlias = (
    InputArrived
    | Admitted
    | Refused
    | Delivered
    | ModelItem
    | ModelCompleted
    | ModelFailed
    | ToolFinished
    | Compacted
    | CompactionFailed
    | StopChecked
    | TimerFired
    | StopRequested
    | Interrupted
)
