"""A turn as a state machine without I/O: no ``async``, no clock, no file, no task.

:meth:`Turn.receive` takes one input and returns the commands that follow from it. A driver performs the commands and feeds
back what comes of them. Every rule about *when* something may happen stands in this file and nowhere else:

1.  A call is recorded the moment it is complete and starts while the response is still streaming.
2.  Calls start in the order of the response. Parallel-safe ones overlap; any other runs alone, and later ones wait behind it.
3.  Outputs are recorded together, in call order, when the response has ended and every call has: each call has exactly one.
4.  A response that breaks off is asked for again with the history as it then is: what was complete stays, what ran does not
    run again.
5.  Steered input is recorded before the next sample, never before the first of its turn, and is never lost: what comes after
    an interrupt, and what a failed turn has not recorded, is left over for the next turn.
6.  An interrupt is answered at once; the turn ends when its running calls have, with every call answered, the marker recorded
    and history flushed before the end is visible.
7.  Input that a guard has to see is recorded once it is admitted, and never if it is refused.
8.  Between two samples the order is: compaction if one is due, inputs, deliveries, sample. Nothing samples, runs or waits
    during a compaction, and there is no second one before a response is whole. An overflow is compacted once; it is never
    simply asked for again.
9.  A delivery that joins is recorded once, or is left over for the next turn; it is never the reason for a sample.
10. Whether the turn may stop is asked only when nothing is left to do; input of a person ends the asking. Late answers change
    nothing.

States: ``new -> [compacting -> admitting ->] sampling -> draining -> (sampling | waiting -> sampling | stopping -> done)``; an
interrupt leads to ``aborting -> done`` from anywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent, StreamErrorEvent
from codex_framework.contract.protocol.items import (
    ABORTED_OUTPUT,
    CallItem,
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    OutputItem,
    ResponseItem,
    message_text,
    output_for,
    user_message,
)
from codex_framework.contract.roles.outcomes import Compaction, Outcome, Status
from codex_framework.contract.value import Value
from codex_framework.threads.delivery import Delivered

__all__ = [
    "INTERRUPT_MARKER",
    "Admit",
    "Admitted",
    "CancelCompact",
    "CancelSample",
    "CancelStop",
    "CancelTool",
    "CancelWait",
    "CheckStop",
    "Command",
    "Compact",
    "Compacted",
    "CompactionFailed",
    "Delivered",
    "Emit",
    "Finish",
    "Flush",
    "Input",
    "InputArrived",
    "Interrupted",
    "ModelCompleted",
    "ModelFailed",
    "ModelItem",
    "Record",
    "Refused",
    "Replace",
    "RunTool",
    "Sample",
    "State",
    "StopChecked",
    "StopRequested",
    "TimerFired",
    "ToolFinished",
    "Turn",
    "Wait",
]

INTERRUPT_MARKER = (
    "<turn_aborted>\n"
    "The person stopped the turn above. Commands that were running may have done a part of their work, and background"
    " sessions may still run. Look at the present state before you go on.\n"
    "</turn_aborted>"
)
"""Recorded as a user message after an interrupt. The tags are Codex's; by them the text is known not to be the person's."""

OVERFLOW = "context_window_exceeded"
"""The ``CodexErrorInfo`` of a request that does not fit the model's context window."""

FIRST = 0
"""The key of the input that a turn begins with; that of steered input is greater."""

BACKOFF_BASE_S = 0.2
"""First wait before a response is asked for again; doubles each time (Codex: 200 ms)."""

MAX_CONTINUATIONS = 25
"""How often interceptors may make a turn go on that has nothing left to do."""


class State(enum.Enum):
    """Where the machine stands."""

    NEW = "new"
    ADMITTING = "admitting"
    COMPACTING = "compacting"
    SAMPLING = "sampling"
    DRAINING = "draining"
    WAITING = "waiting"
    STOPPING = "stopping"
    ABORTING = "aborting"
    DONE = "done"


# Inputs: what has happened.


class InputArrived(Value):
    """A person's input: the first of the turn, or steered into it. ``items`` go into history, ``event`` to clients."""

    items: tuple[ResponseItem, ...]
    event: EventMsg | None = None


class Admitted(Value):
    """The guards let an input pass, perhaps changed. ``key`` is that of :class:`Admit`."""

    key: int
    input: InputArrived


class Refused(Value):
    """A guard refused an input. Only ``context`` is recorded."""

    key: int
    context: tuple[ResponseItem, ...] = ()


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


class Compacted(Value):
    """A compaction is ready to take the place of the history."""

    edit: Compaction


class CompactionFailed(Value):
    """There is no compaction: an interceptor prevented it, or it failed."""

    message: str


class StopChecked(Value):
    """The interceptors have seen the end of the turn. ``continuation`` makes it go on; None lets it end."""

    continuation: InputArrived | None = None


class TimerFired(Value):
    """The wait is over."""


class StopRequested(Value):
    """An interceptor or a tool ends the turn as a normal stop. ``message`` is shown to the person."""

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


# Commands: what to do about it.


class Sample(Value):
    """Ask the model, with the history as it is now."""


class CancelSample(Value):
    """Give up the response; no more model input may follow."""


class Admit(Value):
    """Show an input to the guards. :class:`Admitted` or :class:`Refused` must follow."""

    key: int
    input: InputArrived


class Compact(Value):
    """Shorten the history. ``Compacted`` or ``CompactionFailed`` must follow; nothing is replaced before ``Replace``."""

    reason: str


class CancelCompact(Value):
    """Give up the compaction."""


class Replace(Value):
    """Put the compaction in the place of the history, with the initial context, and bring it to disk."""

    edit: Compaction


class CheckStop(Value):
    """Ask whether the turn may end. :class:`StopChecked` must follow."""

    message: str | None


class CancelStop(Value):
    """Give up asking."""


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

    msg: EventMsg


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


class _Call:
    def __init__(self, key: int, item: CallItem, *, parallel: bool) -> None:
        self.key = key
        self.item = item
        self.parallel = parallel
        self.started = False
        self.output: OutputItem | None = None


class Turn:
    """One turn.

    Args:
        parallel: Whether a call may overlap with others.
        max_retries: How often a broken response is asked for again (provider's ``stream_max_retries``).
        jitter: Gives a factor near 1 for each wait.
        guarded: Whether guards see inputs before they are recorded.
        compacts: Whether the history can be compacted.
        due: The reason for a compaction before the next sample, or None.
        checks_stop: Whether interceptors see the end.
        limit: The sentence that tells which limit is reached, or None.
        marks: Whether an interrupt records its marker and the end is flushed. False for a loop within a task, whose end that is.
    """

    def __init__(
        self,
        *,
        parallel: Callable[[CallItem], bool],
        max_retries: int = 5,
        jitter: Callable[[], float] = lambda: 1.0,
        guarded: bool = False,
        compacts: bool = False,
        due: Callable[[], str | None] = lambda: None,
        checks_stop: bool = False,
        limit: Callable[[], str | None] = lambda: None,
        marks: bool = True,
    ) -> None:
        self.state = State.NEW
        self._parallel = parallel
        self._max_retries = max_retries
        self._jitter = jitter
        self._guarded = guarded
        self._compacts = compacts
        self._due = due
        self._checks_stop = checks_stop
        self._limit = limit
        self._marks = marks
        self._calls: list[_Call] = []
        self._next_key = 0
        self._inputs: dict[int, InputArrived | Refused | None] = {}  # None: the guards have not answered yet
        self._next_input = FIRST + 1
        self._joined: list[Delivered] = []
        self._follow_ups: list[Delivered] = []
        self._pending: list[InputArrived] = []
        self._began = False
        self._sampled = False
        self._compacted = False
        self._continuations = 0
        self._retries = 0
        self._wanted = False
        self._failure: ModelFailed | None = None
        self._end_turn: bool | None = None
        self._fatal: str | None = None
        self._stop_message: str | None = None
        self._reason = "interrupted"
        self._last_message: str | None = None

    def receive(self, event: Input) -> list[Command]:  # one line for each input
        """Take one input; return what to do, in order.

        Input out of place changes nothing. Input of a person and deliveries are never lost: what comes too late is kept for
        :meth:`take_pending` and :meth:`take_deliveries`.
        """
        if self.state is State.DONE:
            return self._too_late(event)
        match event:
            case InputArrived() | Delivered() if self.state is State.ABORTING:
                return self._too_late(event)
            case InputArrived():
                return self._input_arrived(event)
            case Admitted(key, admitted):
                return self._decided(key, admitted)
            case Refused(key):
                return self._decided(key, event)
            case Delivered():
                return self._delivered(event)
            case ModelItem():
                return self._model_item(event.item)
            case ModelCompleted():
                return self._model_completed(event)
            case ModelFailed():
                return self._model_failed(event)
            case ToolFinished():
                return self._tool_finished(event)
            case Compacted() | CompactionFailed():
                return self._compaction_ended(event)
            case StopChecked():
                return self._stop_checked(event)
            case TimerFired():
                return self._advance() if self.state is State.WAITING else []
            case StopRequested(message):
                return self._stop_requested(message)
            case Interrupted():
                return self._interrupted(event.reason)
            case _:
                assert_never(event)

    def begin(self) -> list[Command]:
        """Start without an input: sample the history as it is."""
        if self.state is not State.NEW:
            return []
        self._wanted = self._began = True
        return self._advance()

    def take_pending(self) -> tuple[InputArrived, ...]:
        """Return input that arrived too late to be sampled; to be called after the end, so that nothing is lost."""
        pending, self._pending = tuple(self._pending), []
        return pending

    def take_deliveries(self) -> tuple[Delivered, ...]:
        """Return deliveries that were not recorded; to be called after the end."""
        left, self._joined, self._follow_ups = (*self._joined, *self._follow_ups), [], []
        return left

    def take_undecided(self) -> tuple[int, ...]:
        """Return the keys of inputs that no guard had decided on when the turn ended. They were never recorded."""
        undecided = tuple(key for key, value in self._inputs.items() if value is None)
        self._inputs.clear()
        return undecided

    # Input and deliveries

    def _too_late(self, event: Input) -> list[Command]:
        match event:
            case InputArrived():
                self._pending.append(event)
            case Delivered(items, shown, "steer"):
                self._pending.append(InputArrived(items, shown))
            case Delivered():
                self._joined.append(event)
            case _:
                pass
        return []

    def _input_arrived(self, event: InputArrived) -> list[Command]:
        decided = None if self._guarded else event
        if self.state is State.NEW:
            self._inputs = {FIRST: decided, **self._inputs}  # before what a plugin has delivered already
            return [*self._admission(FIRST, event), *self._advance()]
        key = self._take_up(decided)
        if self.state is State.STOPPING:
            return [CancelStop(), *self._admission(key, event), *self._advance()]
        return self._admission(key, event)

    def _admission(self, key: int, event: InputArrived) -> list[Command]:
        return [Admit(key, event)] if self._guarded else []

    def _decided(self, key: int, decision: InputArrived | Refused) -> list[Command]:
        if key not in self._inputs or self._inputs[key] is not None:
            return []
        self._inputs[key] = decision
        return self._advance() if self.state is State.ADMITTING else []

    def _delivered(self, event: Delivered) -> list[Command]:
        if event.when == "steer":
            self._take_up(InputArrived(event.items, event.event))
        elif event.when == "follow_up":
            self._follow_ups.append(event)
        else:
            self._joined.append(event)
        return []

    def _take_up(self, decided: InputArrived | None) -> int:
        """Keep input for the next gap between two samples; return its key."""
        key, self._next_input = self._next_input, self._next_input + 1
        self._inputs[key] = decided
        return key

    # Between two samples

    def _advance(self) -> list[Command]:
        """Do what comes between two samples, or end the turn if nothing asks for a sample."""
        reason = self._compaction_reason()
        if reason is not None:
            self.state = State.COMPACTING
            return [Compact(reason)]
        # Steered input never comes before the first sample of its turn.
        keys = list(self._inputs) if self._began else list(self._inputs)[:1]
        if any(self._inputs[key] is None for key in keys):
            self.state = State.ADMITTING
            return []
        commands: list[Command] = []
        for key in keys:
            commands += self._taken(key)
        first, self._began = not self._began, True
        if not self._wanted:
            return [*commands, *(self._advance() if first and self._inputs else self._ending())]
        for delivery in self._joined:
            commands += _recorded(delivery)
        self._joined.clear()
        return [*commands, *self._sample()]

    def _compaction_reason(self) -> str | None:
        if not self._compacts or self._compacted or self._limit() is not None:
            return None
        return "overflow" if self._overflowed() else self._due()

    def _overflowed(self) -> bool:
        return self._failure is not None and self._failure.info == OVERFLOW

    def _taken(self, key: int) -> list[Command]:
        """Record an input that was decided on, or the context of one that was refused."""
        match self._inputs.pop(key):
            case InputArrived() as admitted:
                self._wanted = True
                return _recorded(admitted)
            case Refused(_, context) if context:
                return [Record(context)]
            case _:
                return []

    def _sample(self) -> list[Command]:
        reached = self._limit()
        if reached is not None:
            outcome = Outcome(
                status=Status.LIMITED, last_agent_message=self._last_message, error=reached, reason="budget_limited"
            )
            return [Emit(WarningEvent(reached)), *self._finish(outcome)]
        self.state = State.SAMPLING
        self._failure = None
        self._end_turn = None
        self._wanted = False
        self._sampled = True
        return [Sample()]

    def _compaction_ended(self, event: Compacted | CompactionFailed) -> list[Command]:
        if self.state is not State.COMPACTING:
            return []
        self._compacted = True
        if isinstance(event, Compacted):
            return [Replace(event.edit), *self._advance()]
        warned = Emit(WarningEvent(event.message))
        if self._failure is not None and self._overflowed():  # the request would not fit this time either
            return [warned, *self._fail(self._failure)]
        return [warned, *self._advance()]

    def _ending(self) -> list[Command]:
        """End, unless a follow-up or an interceptor has something left to do."""
        if self._follow_ups:
            follow_up = self._follow_ups.pop(0)
            self._take_up(InputArrived(follow_up.items, follow_up.event))
            return self._advance()
        if self._sampled and self._checks_stop and self._continuations < MAX_CONTINUATIONS:
            self.state = State.STOPPING
            return [CheckStop(self._last_message)]
        return self._finish(self._completed())

    def _stop_checked(self, event: StopChecked) -> list[Command]:
        if self.state is not State.STOPPING:
            return []
        if event.continuation is not None:
            self._continuations += 1
            self._take_up(event.continuation)
        if self._inputs:
            return self._advance()
        if self._follow_ups:
            return self._ending()
        return self._finish(self._completed())

    # The response and its calls

    def _model_item(self, item: ResponseItem) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        if isinstance(item, Message) and item.role == "assistant" and item.phase != "commentary":
            self._last_message = message_text(item)
        if not isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            return [Record((item,))]
        if not item.call_id and isinstance(item, LocalShellCall):
            item = item.evolve(call_id=item.id or f"local_shell_{self._next_key}")
        self._calls.append(_Call(self._next_key, item, parallel=self._parallel(item)))
        self._next_key += 1
        self._wanted = True
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
        self._compacted = False
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
        self._wanted = self._wanted or self._end_turn is False
        if self._wanted or self._inputs:
            return [*outputs, *self._advance()]
        return [*outputs, *self._ending()]

    def _record_outputs(self) -> list[Command]:
        outputs = tuple(call.output for call in self._calls if call.output is not None)
        self._calls.clear()
        return [Record(outputs)] if outputs else []

    def _after_failure(self, failure: ModelFailed) -> list[Command]:
        self._wanted = True
        if self._overflowed():
            return self._advance() if self._compacts and not self._compacted else self._fail(failure)
        if not failure.retryable or self._retries >= self._max_retries:
            return self._fail(failure)
        self._retries += 1
        self.state = State.WAITING
        delay = failure.retry_after_s
        if delay is None:
            delay = BACKOFF_BASE_S * 2 ** (self._retries - 1) * self._jitter()
        notice = f"Reconnecting... {self._retries}/{self._max_retries}"
        return [Emit(StreamErrorEvent(notice, failure.info, failure.message)), Wait(delay)]

    def _fail(self, failure: ModelFailed) -> list[Command]:
        outcome = Outcome(
            status=Status.FAILED, last_agent_message=self._last_message, error=failure.message, info=failure.info
        )
        return [Emit(ErrorEvent(failure.message, failure.info)), *self._finish(outcome)]

    # The end

    def _interrupted(self, reason: str) -> list[Command]:
        if self.state is State.ABORTING:
            return []
        self._reason = reason
        if self.state is State.NEW:
            return self._finish(Outcome(status=Status.INTERRUPTED, reason=reason))
        return self._stop()

    def _stop_requested(self, message: str) -> list[Command]:
        if self.state in (State.NEW, State.ABORTING):
            return []
        self._stop_message = message
        return self._stop()

    def _stop(self) -> list[Command]:
        """Cancel everything that runs; calls that have not started are answered here."""
        cancels: dict[State, Command] = {
            State.SAMPLING: CancelSample(),
            State.WAITING: CancelWait(),
            State.COMPACTING: CancelCompact(),
            State.STOPPING: CancelStop(),
        }
        commands = [cancels[self.state]] if self.state in cancels else []
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
        commands = self._record_outputs()
        for key in [key for key, value in self._inputs.items() if value is not None]:
            commands += self._taken(key)
        if self._fatal is not None:
            error = Outcome(status=Status.FAILED, last_agent_message=self._last_message, error=self._fatal)
            return [*commands, Emit(ErrorEvent(self._fatal, "other")), *self._finish(error)]
        if self._stop_message is not None:
            shown: list[Command] = [Emit(WarningEvent(self._stop_message))] if self._stop_message else []
            return [*commands, *shown, *self._finish(self._completed())]
        if self._marks and self._reason == "interrupted":
            commands.append(Record((user_message(INTERRUPT_MARKER),)))
        outcome = Outcome(status=Status.INTERRUPTED, last_agent_message=self._last_message, reason=self._reason)
        return [*commands, *self._finish(outcome)]

    def _completed(self) -> Outcome:
        return Outcome(status=Status.COMPLETED, last_agent_message=self._last_message)

    def _finish(self, outcome: Outcome) -> list[Command]:
        self.state = State.DONE
        for key in [key for key, value in self._inputs.items() if value is not None]:
            self._leave(self._inputs.pop(key))
        return [Flush(), Finish(outcome)] if self._marks else [Finish(outcome)]

    def _leave(self, decided: InputArrived | Refused | None) -> None:
        """Keep for the next turn what was decided on and not recorded."""
        match decided:
            case InputArrived():
                self._pending.append(decided)
            case Refused(_, context) if context:
                self._joined.append(Delivered(context))
            case _:
                pass


def _recorded(event: InputArrived | Delivered) -> list[Command]:
    commands: list[Command] = [Record(event.items)] if event.items else []
    if event.event is not None:
        commands.append(Emit(event.event))
    return commands
