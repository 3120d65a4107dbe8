"""A turn as a state machine without I/O: no ``async``, no clock, no file, no task.

:meth:`Turn.receive` takes one input and returns the commands that follow from it. A driver performs the commands and feeds
back what comes of them. Every rule about *when* something may happen stands in this file and nowhere else:

1.  A call is recorded the moment it is complete and starts while the response is still streaming.
2.  Calls start in the order of the response. Parallel-safe ones overlap; any other runs alone, and later ones wait behind it.
3.  Outputs are recorded together, in call order, when the response has ended and every call has: each call has exactly one.
4.  A response that breaks off is asked for again with the history as it then is: what was complete stays, what ran does not
    run again.
5.  Steered input is recorded before the next sample, never before the first of its turn, and is never lost.
6.  An interrupt is answered at once; the turn ends when its running calls have, with every call answered, the marker recorded
    and history flushed before the end is visible.
7.  An approval is known here before its request is emitted, so it can be answered the moment it is seen. One that is still
    open when the turn is interrupted is answered with ``abort``.

States: ``new -> sampling -> draining -> (sampling | waiting -> sampling | done)``; an interrupt leads to ``aborting -> done``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

import attrs

from codex_framework.protocol.events import ApprovalEvent
from codex_framework.protocol.events.message import UserMessageEvent
from codex_framework.protocol.events.turn import ErrorEvent, StreamErrorEvent
from codex_framework.protocol.items import (
    CallItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputItem,
    ResponseItem,
    message_text,
    user_message,
)
from codex_framework.protocol.policies import Decision, ReviewDecision
from codex_framework.value import Value

__all__ = [
    "ABORTED_OUTPUT",
    "INTERRUPT_MARKER",
    "ApprovalAnswered",
    "ApprovalRequested",
    "CancelSample",
    "CancelTool",
    "CancelWait",
    "Command",
    "Emit",
    "Finish",
    "Flush",
    "Input",
    "InputArrived",
    "Interrupted",
    "ModelCompleted",
    "ModelFailed",
    "ModelItem",
    "Outcome",
    "Record",
    "Resolve",
    "RunTool",
    "Sample",
    "State",
    "Status",
    "TimerFired",
    "ToolFinished",
    "Turn",
    "Wait",
    "output_for",
]

ABORTED_OUTPUT = "aborted"
"""The output of a call that never ran (Codex's word for it)."""

INTERRUPT_MARKER = (
    "<turn_aborted>\n"
    "The person stopped the turn above. Commands that were running may have done a part of their work, and background"
    " sessions may still run. Look at the present state before you go on.\n"
    "</turn_aborted>"
)
"""Recorded as a user message after an interrupt. The tags are Codex's; by them the text is known not to be the person's."""

BACKOFF_BASE_S = 0.2
"""First wait before a response is asked for again; doubles each time (Codex: 200 ms)."""


class State(enum.Enum):
    """Where the machine stands."""

    NEW = "new"
    SAMPLING = "sampling"
    DRAINING = "draining"
    WAITING = "waiting"
    ABORTING = "aborting"
    DONE = "done"


class Status(enum.StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Outcome(Value):
    """The end of a turn.

    Attributes:
        error: Why it failed.
        reason: Why it was aborted: ``interrupted``, ``replaced``, ``review_ended``, ``budget_limited``.
    """

    status: Status
    last_agent_message: str | None = None
    error: ErrorEvent | None = None
    reason: str | None = None


# Inputs: what has happened.


class InputArrived(Value):
    """A person's input: the first of the turn, or steered into it. ``items`` go into history, ``event`` to clients."""

    items: tuple[ResponseItem, ...]
    event: UserMessageEvent | None = None


class ModelItem(Value):
    """The model has completed an item."""

    item: ResponseItem


class ModelCompleted(Value):
    """The response is whole. ``end_turn`` False asks for another sample."""

    end_turn: bool | None = None


class ModelFailed(Value):
    """The response broke off, or never began."""

    message: str
    retryable: bool = False
    retry_after_s: float | None = None
    info: str | Mapping[str, Any] = "other"


class ToolFinished(Value):
    """A call that was started has ended, in whatever way. ``fatal`` ends the turn as well."""

    key: int
    output: OutputItem
    fatal: str | None = None


class ApprovalRequested(Value):
    """A running call needs an answer. ``id`` is unique among the open ones."""

    id: str
    event: ApprovalEvent


class ApprovalAnswered(Value):
    """Somebody has answered. An answer to nothing (twice, too late) is ignored."""

    id: str
    decision: ReviewDecision


class TimerFired(Value):
    """The wait is over."""


class Interrupted(Value):
    """The turn has to end now."""

    reason: str = "interrupted"


Input: TypeAlias = (
    InputArrived
    | ModelItem
    | ModelCompleted
    | ModelFailed
    | ToolFinished
    | ApprovalRequested
    | ApprovalAnswered
    | TimerFired
    | Interrupted
)


# Commands: what to do about it.


class Sample(Value):
    """Ask the model, with history as it is now."""


class CancelSample(Value):
    """Give up the response; no more model input may follow."""


class RunTool(Value):
    """Start a call. A ``ToolFinished`` with this key must follow, whatever happens."""

    key: int
    item: CallItem


class CancelTool(Value):
    """End a running call soon; its ``ToolFinished`` must still follow."""

    key: int


class Record(Value):
    """Add items to history."""

    items: tuple[ResponseItem, ...]


class Emit(Value):
    """Tell the clients."""

    msg: Any


class Resolve(Value):
    """Give an answer to the call that waits for it."""

    id: str
    decision: ReviewDecision


class Wait(Value):
    """Come back with ``TimerFired`` after so many seconds."""

    seconds: float


class CancelWait(Value):
    """The timer is not needed any more."""


class Flush(Value):
    """Bring history to disk before anything that follows."""


class Finish(Value):
    """The turn has ended. Always the last command."""

    outcome: Outcome


Command: TypeAlias = (
    Sample | CancelSample | RunTool | CancelTool | Record | Emit | Resolve | Wait | CancelWait | Flush | Finish
)


@attrs.define
class _Call:
    key: int
    item: CallItem
    parallel: bool
    started: bool = False
    output: OutputItem | None = None


def output_for(item: CallItem, text: str) -> OutputItem:
    """An output item of the kind that answers this kind of call."""
    if isinstance(item, CustomToolCall):
        return CustomToolCallOutput(call_id=item.call_id, output=text)
    return FunctionCallOutput(call_id=item.call_id or "", output=text)


class Turn:
    """One turn.

    Args:
        parallel: Whether a call may overlap with others.
        max_retries: How often a broken response is asked for again (provider's ``stream_max_retries``).
        jitter: Gives a factor near 1 for each wait.
    """

    def __init__(
        self,
        *,
        parallel: Callable[[CallItem], bool],
        max_retries: int = 5,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.state = State.NEW
        self._parallel = parallel
        self._max_retries = max_retries
        self._jitter = jitter
        self._calls: list[_Call] = []
        self._next_key = 0
        self._retries = 0
        self._pending: list[InputArrived] = []
        self._approvals: dict[str, None] = {}
        self._failure: ModelFailed | None = None
        self._fatal: str | None = None
        self._end_turn: bool | None = None
        self._follow_up = False
        self._reason = "interrupted"
        self._last_message: str | None = None

    def receive(self, event: Input) -> list[Command]:
        """Take one input; return what to do, in order.

        Input out of place changes nothing; a person's input after the end is kept for :meth:`take_pending`.
        """
        if self.state is State.DONE:
            return self._too_late(event)
        match event:
            case InputArrived():
                return self._input_arrived(event)
            case ModelItem():
                return self._model_item(event.item)
            case ModelCompleted():
                return self._model_completed(event)
            case ModelFailed():
                return self._model_failed(event)
            case ToolFinished():
                return self._tool_finished(event)
            case ApprovalRequested():
                return self._approval_requested(event)
            case ApprovalAnswered():
                return self._approval_answered(event)
            case TimerFired():
                return self._sample() if self.state is State.WAITING else []
            case Interrupted():
                return self._interrupted(event.reason)
            case _:
                assert_never(event)

    def _too_late(self, event: Input) -> list[Command]:
        if isinstance(event, InputArrived):
            self._pending.append(event)
        return [Resolve(event.id, _ABORT)] if isinstance(event, ApprovalRequested) else []

    def take_pending(self) -> tuple[InputArrived, ...]:
        """Input that arrived too late to be sampled; to be called after the end, so that nothing is lost."""
        pending, self._pending = tuple(self._pending), []
        return pending

    def _input_arrived(self, event: InputArrived) -> list[Command]:
        if self.state is not State.NEW:
            self._pending.append(event)
            return []
        return [*_recorded(event), *self._sample(drain=False)]

    def _sample(self, *, drain: bool = True) -> list[Command]:
        commands: list[Command] = []
        if drain:
            for pending in self.take_pending():
                commands += _recorded(pending)
        self.state = State.SAMPLING
        self._failure = None
        self._end_turn = None
        self._follow_up = False
        return [*commands, Sample()]

    def _model_item(self, item: ResponseItem) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        if isinstance(item, Message) and item.role == "assistant" and item.phase != "commentary":
            self._last_message = message_text(item)
        if not isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            return [Record((item,))]
        if not item.call_id and isinstance(item, LocalShellCall):
            item = item.evolve(call_id=item.id or f"local_shell_{self._next_key}")
        self._calls.append(_Call(self._next_key, item, self._parallel(item)))
        self._next_key += 1
        self._follow_up = True
        return [Record((item,)), *self._start_calls()]

    def _start_calls(self) -> list[Command]:
        """Start what may run now, in call order: a parallel call beside parallel ones, any other alone."""
        commands: list[Command] = []
        running = [call for call in self._calls if call.started and call.output is None]
        for call in self._calls:
            if call.started:
                continue
            if running and not (call.parallel and all(other.parallel for other in running)):
                break
            call.started = True
            running.append(call)
            commands.append(RunTool(call.key, call.item))
        return commands

    def _model_completed(self, event: ModelCompleted) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        self.state = State.DRAINING
        self._retries = 0
        self._end_turn = event.end_turn
        return self._drained()

    def _model_failed(self, event: ModelFailed) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        self.state = State.DRAINING
        self._failure = event
        return self._drained()

    def _tool_finished(self, event: ToolFinished) -> list[Command]:
        call = next((call for call in self._calls if call.key == event.key), None)
        if call is None or call.output is not None:
            return []
        call.output = event.output
        if event.fatal is not None and self.state is not State.ABORTING:
            self._fatal = event.fatal
            return self._stop()
        if self.state is State.ABORTING:
            return self._aborted()
        return [*self._start_calls(), *self._drained()]

    def _drained(self) -> list[Command]:
        """Go on, once the response has ended and every call has."""
        if self.state is not State.DRAINING or any(call.output is None for call in self._calls):
            return []
        outputs = self._record_outputs()
        if self._failure is not None:
            return [*outputs, *self._after_failure(self._failure)]
        if self._follow_up or self._end_turn is False or self._pending:
            return [*outputs, *self._sample()]
        return self._finish(Outcome(Status.COMPLETED, self._last_message))

    def _record_outputs(self) -> list[Command]:
        outputs = tuple(call.output for call in self._calls if call.output is not None)
        self._calls.clear()
        return [Record(outputs)] if outputs else []

    def _after_failure(self, failure: ModelFailed) -> list[Command]:
        if not failure.retryable or self._retries >= self._max_retries:
            error = ErrorEvent(failure.message, failure.info)
            return [Emit(error), *self._finish(Outcome(Status.FAILED, self._last_message, error=error))]
        self._retries += 1
        self.state = State.WAITING
        delay = failure.retry_after_s
        if delay is None:
            delay = BACKOFF_BASE_S * 2 ** (self._retries - 1) * self._jitter()
        notice = f"Reconnecting... {self._retries}/{self._max_retries}"
        return [Emit(StreamErrorEvent(notice, failure.info, failure.message)), Wait(delay)]

    def _approval_requested(self, event: ApprovalRequested) -> list[Command]:
        if self.state is State.ABORTING:
            return [Resolve(event.id, _ABORT)]
        self._approvals[event.id] = None
        return [Emit(event.event)]

    def _approval_answered(self, event: ApprovalAnswered) -> list[Command]:
        if event.id not in self._approvals:
            return []
        del self._approvals[event.id]
        commands: list[Command] = [Resolve(event.id, event.decision)]
        if event.decision.decision is Decision.ABORT:
            commands += self._interrupted("interrupted")
        return commands

    def _interrupted(self, reason: str) -> list[Command]:
        if self.state is State.ABORTING:
            return []
        self._reason = reason
        if self.state is State.NEW:
            return self._finish(Outcome(Status.INTERRUPTED, reason=reason))
        return self._stop()

    def _stop(self) -> list[Command]:
        """Cancel everything that runs; calls that have not started are answered here."""
        commands: list[Command] = [Resolve(approval, _ABORT) for approval in self._approvals]
        self._approvals.clear()
        if self.state is State.SAMPLING:
            commands.append(CancelSample())
        elif self.state is State.WAITING:
            commands.append(CancelWait())
        self.state = State.ABORTING
        for call in self._calls:
            if not call.started:
                call.output = output_for(call.item, ABORTED_OUTPUT)
            elif call.output is None:
                commands.append(CancelTool(call.key))
        return [*commands, *self._aborted()]

    def _aborted(self) -> list[Command]:
        if any(call.output is None for call in self._calls):
            return []
        outputs = self._record_outputs()
        leftover = [command for pending in self.take_pending() for command in _recorded(pending)]
        if self._fatal is not None:
            error = ErrorEvent(self._fatal, "other")
            outcome = Outcome(Status.FAILED, self._last_message, error=error)
            return [*outputs, *leftover, Emit(error), *self._finish(outcome)]
        marker = Record((user_message(INTERRUPT_MARKER),))
        outcome = Outcome(Status.INTERRUPTED, self._last_message, reason=self._reason)
        return [*outputs, *leftover, marker, *self._finish(outcome)]

    def _finish(self, outcome: Outcome) -> list[Command]:
        self.state = State.DONE
        unanswered: list[Command] = [Resolve(approval, _ABORT) for approval in self._approvals]
        self._approvals.clear()
        return [*unanswered, Flush(), Finish(outcome)]


_ABORT = ReviewDecision(Decision.ABORT)


def _recorded(event: InputArrived) -> list[Command]:
    commands: list[Command] = [Record(event.items)] if event.items else []
    if event.event is not None:
        commands.append(Emit(event.event))
    return commands
