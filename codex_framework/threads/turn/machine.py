"""A turn as a state machine without I/O: no ``async``, no clock, no file, no task.

:meth:`Turn.receive` takes one input and returns the resulting commands. A driver runs the commands and feeds back their results.
All rules about *when* something may happen are in this file:

1.  A call is recorded as soon as it is complete, and starts while the response is still streaming.
2.  Calls start in the order of the response. Parallel-safe calls overlap; any other call runs alone, and later calls wait for it.
3.  Outputs are recorded together, in call order, when the response and all calls have ended. Each call has exactly one output.
4.  A response that breaks off is requested again with the current history: completed items stay, and calls that ran do not run
    again.
5.  Steered input is recorded before the next sample, never before the first sample of its turn, and is never lost: input after an
    interrupt, and input that a failed turn has not recorded, is kept for the next turn.
6.  An interrupt takes effect immediately. The turn ends when its running calls have ended. Every call has an output, the marker
is
    recorded and history is flushed before the end is visible.
7.  Input that a guard must check is recorded once it is admitted, and never if it is refused.
8.  Between two samples the order is: compaction if one is due, inputs, deliveries, sample. Nothing samples, runs or waits
during a
    compaction, and there is no second compaction before a response is complete. After an overflow, the history is compacted once;
    the same request is never repeated.
9.  A delivery that joins is recorded once, or is kept for the next turn. It never causes a sample.
10. Interceptors are asked whether the turn may stop only when nothing is left to do. User input cancels this check. Late answers
    have no effect.

States: ``new -> [compacting -> admitting ->] sampling -> draining -> (sampling | waiting -> sampling | stopping -> done)``; an
interrupt leads to ``aborting -> done`` from anywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import assert_never

from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent, StreamErrorEvent
from codex_framework.contract.protocol.items import (
    ABORTED_OUTPUT,
    AnyCall,
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    OutputItem,
    ResponseItem,
    UnknownItem,
    message_text,
    output_for,
    search_output,
    user_message,
)
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.threads.turn.commands import (
    Admit,
    CancelCompact,
    CancelSample,
    CancelStop,
    CancelTool,
    CancelWait,
    CheckStop,
    Command,
    Compact,
    Emit,
    Finish,
    Flush,
    Record,
    Replace,
    RunTool,
    Sample,
    Wait,
)
from codex_framework.threads.turn.inputs import (
    Admitted,
    Compacted,
    CompactionFailed,
    Delivered,
    Input,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Refused,
    StopChecked,
    StopRequested,
    TimerFired,
    ToolFinished,
)

__all__ = ["BACKOFF_BASE_S", "INTERRUPT_MARKER", "State", "Turn", "with_wait"]

INTERRUPT_MARKER = (
    "<turn_aborted>\n"
    "The user interrupted the turn above. Commands that were running may be partly done, and background sessions may still be "
    "running. Check the current state before you continue.\n</turn_aborted>"
)
"""Recorded as a user message after an interrupt. Codex's tags distinguish it from text of the user."""

OVERFLOW = "context_window_exceeded"
"""The ``CodexErrorInfo`` of a request that does not fit the model's context window."""

FIRST = 0
"""The key of a turn's first input. Steered input has greater keys."""

BACKOFF_BASE_S = 0.2
"""First delay in seconds before a response is requested again. It doubles each time (Codex: 200 ms)."""
_TOLD_S = 2.0
"""From this many seconds on, a wait is told."""

MAX_CONTINUATIONS = 25
"""How often interceptors may continue a turn that has nothing left to do."""

MAX_STARTS_OVER = 20
"""How often a provider may send a request in yet another way before a response is complete. More would be a loop."""


class State(enum.Enum):
    """The state of the machine."""

    NEW = "new"
    ADMITTING = "admitting"
    COMPACTING = "compacting"
    SAMPLING = "sampling"
    DRAINING = "draining"
    WAITING = "waiting"
    STOPPING = "stopping"
    ABORTING = "aborting"
    DONE = "done"


class _Call:
    """A call of the model. One without ``item`` is answered without a tool: it has its ``output`` from the beginning."""

    def __init__(self, key: int, item: AnyCall | None, *, parallel: bool, output: UnknownItem | None = None) -> None:
        self.key = key
        self.item = item
        self.parallel = parallel
        self.started = output is not None
        self.output: OutputItem | UnknownItem | None = output


class Turn:
    """One turn.

    Args:
        parallel: Whether a call may overlap with others.
        searches: Whether a tool answers tool searches. Otherwise they find nothing.
        max_retries: How often a broken response is requested again (the provider's ``stream_max_retries``).
        jitter: Returns a factor near 1 for each delay.
        guarded: Whether guards check inputs before they are recorded.
        compacts: Whether the history can be compacted.
        due: The reason for a compaction before the next sample, or None.
        checks_stop: Whether interceptors check the end.
        limit: Returns a sentence about the limit that is reached, or None.
        marks: Whether an interrupt records its marker and the end is flushed. False for a loop within a task, which does this
            itself.
        tells_interrupts: Whether an interrupt records its marker, if ``marks`` is true.
    """

    state = State.NEW
    _next_key = 0
    _next_input = FIRST + 1
    _began = False
    _sampled = False
    _compacted = False
    _continuations = 0
    _retries = 0
    _starts_over = 0
    _needs_sample = False
    _failure: ModelFailed | None = None
    _end_turn: bool | None = None
    _fatal: str | None = None
    _stop_message: str | None = None
    _reason = "interrupted"
    _last_message: str | None = None

    def __init__(
        self,
        *,
        parallel: Callable[[AnyCall], bool],
        searches: Callable[[], bool] = lambda: False,
        max_retries: int = 5,
        jitter: Callable[[], float] = lambda: 1.0,
        guarded: bool = False,
        compacts: bool = False,
        due: Callable[[], str | None] = lambda: None,
        checks_stop: bool = False,
        limit: Callable[[], str | None] = lambda: None,
        marks: bool = True,
        tells_interrupts: bool = True,
    ) -> None:
        self._parallel = parallel
        self._searches = searches
        self._max_retries = max_retries
        self._jitter = jitter
        self._guarded = guarded
        self._compacts = compacts
        self._due = due
        self._checks_stop = checks_stop
        self._limit = limit
        self._marks = marks
        self._tells_interrupts = tells_interrupts
        self._calls: dict[int, _Call] = {}
        self._inputs: dict[int, InputArrived | Refused | None] = {}  # None if the guards have not answered yet
        self._joined: list[Delivered] = []
        self._follow_ups: list[Delivered] = []
        self._pending: list[InputArrived] = []

    def receive(self, event: Input) -> list[Command]:  # one line for each input
        """Take one input and return the commands, in order.

        Input that does not fit the state has no effect. User input and deliveries are never lost: if they arrive too late, they
        are kept for :meth:`take_pending` and :meth:`take_deliveries`.
        """
        if self.state is State.DONE:
            return self._keep_late_input(event)
        match event:
            case InputArrived() | Delivered() if self.state is State.ABORTING:
                return self._keep_late_input(event)
            case InputArrived():
                return self._take_input(event)
            case Admitted(key, admitted):
                return self._take_decision(key, admitted)
            case Refused(key):
                return self._take_decision(key, event)
            case Delivered():
                return self._take_delivery(event)
            case ModelItem(item, shown):
                return self._take_item(item, shown)
            case ModelCompleted():
                return self._take_completion(event)
            case ModelFailed():
                return self._take_failure(event)
            case ToolFinished():
                return self._take_output(event)
            case Compacted() | CompactionFailed():
                return self._take_compaction(event)
            case StopChecked():
                return self._take_stop_answer(event)
            case TimerFired():
                return self._advance() if self.state is State.WAITING else []
            case StopRequested(message):
                return self._stop_normally(message)
            case Interrupted():
                return self._interrupt(event.reason)
            case _:
                assert_never(event)

    @property
    def has_input(self) -> bool:
        """Whether there is input that no sample contains yet."""
        return bool(self._inputs)

    def begin(self) -> list[Command]:
        """Start without an input, by sampling the current history."""
        if self.state is not State.NEW:
            return []
        self._needs_sample = self._began = True
        return self._advance()

    def take_pending(self) -> tuple[InputArrived, ...]:
        """Return input that arrived too late to be sampled. Call it after the end, so that nothing is lost."""
        pending, self._pending = tuple(self._pending), []
        return pending

    def take_deliveries(self) -> tuple[Delivered, ...]:
        """Return deliveries that were not recorded. Call it after the end."""
        left, self._joined, self._follow_ups = (*self._joined, *self._follow_ups), [], []
        return left

    def take_undecided(self) -> tuple[int, ...]:
        """Return the keys of inputs that the guards had not decided on when the turn ended. They were never recorded."""
        undecided = tuple(key for key, value in self._inputs.items() if value is None)
        self._inputs.clear()
        return undecided

    # Input and deliveries

    def _keep_late_input(self, event: Input) -> list[Command]:
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

    def _take_input(self, event: InputArrived) -> list[Command]:
        decided = None if self._guarded else event
        if self.state is State.NEW:
            self._inputs = {FIRST: decided, **self._inputs}  # before the deliveries of plugins so far
            return [*self._request_admission(FIRST, event), *self._advance()]
        key = self._queue_input(decided)
        if self.state is State.STOPPING:
            return [CancelStop(), *self._request_admission(key, event), *self._advance()]
        return self._request_admission(key, event)

    def _request_admission(self, key: int, event: InputArrived) -> list[Command]:
        return [Admit(key, event)] if self._guarded else []

    def _take_decision(self, key: int, decision: InputArrived | Refused) -> list[Command]:
        if key not in self._inputs or self._inputs[key] is not None:
            return []
        self._inputs[key] = decision
        return self._advance() if self.state is State.ADMITTING else []

    def _take_delivery(self, event: Delivered) -> list[Command]:
        if event.when == "steer":
            self._queue_input(InputArrived(event.items, event.event))
        elif event.when == "follow_up":
            self._follow_ups.append(event)
        else:
            self._joined.append(event)
        return []

    def _queue_input(self, decided: InputArrived | None) -> int:
        """Keep input for the steps between two samples, and return its key."""
        key, self._next_input = self._next_input, self._next_input + 1
        self._inputs[key] = decided
        return key

    # Between two samples

    def _advance(self) -> list[Command]:
        """Run the steps between two samples, or end the turn if no further sample is needed."""
        reason = self._compaction_reason()
        if reason is not None:
            self.state = State.COMPACTING
            return [Compact(reason)]
        # Steered input never comes before the first sample of its turn.
        keys = list(self._inputs) if self._began else list(self._inputs)[:1]
        for key in keys:
            if self._inputs[key] is None:
                self.state = State.ADMITTING
                return []
        commands: list[Command] = []
        for key in keys:
            commands += self._record_input(key)
        first, self._began = not self._began, True
        if not self._needs_sample:
            return [*commands, *(self._advance() if first and self._inputs else self._end_or_continue())]
        for delivery in self._joined:
            commands += _record_commands(delivery)
        self._joined.clear()
        return [*commands, *self._sample()]

    def _compaction_reason(self) -> str | None:
        if not self._compacts or self._compacted or self._limit() is not None:
            return None
        return "overflow" if self._is_overflow() else self._due()

    def _is_overflow(self) -> bool:
        return self._failure is not None and self._failure.info == OVERFLOW

    def _record_input(self, key: int) -> list[Command]:
        """Record an admitted input, or the context of a refused one."""
        match self._inputs.pop(key):
            case InputArrived() as admitted:
                self._needs_sample = True
                return _record_commands(admitted)
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
            return [Emit(WarningEvent(reached, slug="limit-reached")), *self._finish(outcome)]
        self.state = State.SAMPLING
        self._failure = None
        self._end_turn = None
        self._needs_sample = False
        self._sampled = True
        return [Sample()]

    def _take_compaction(self, event: Compacted | CompactionFailed) -> list[Command]:
        if self.state is not State.COMPACTING:
            return []
        self._compacted = True
        if isinstance(event, Compacted):
            return [Replace(event.edit), *self._advance()]
        warned = Emit(WarningEvent(event.message, slug="not-compacted"))
        if self._failure is not None and self._is_overflow():  # the request would still not fit
            return [warned, *self._fail(self._failure)]
        return [warned, *self._advance()] if event.failure is None else self._fail(event.failure)

    def _end_or_continue(self) -> list[Command]:
        """End the turn, unless there is a follow-up or an interceptor continues it."""
        if self._follow_ups:
            follow_up = self._follow_ups.pop(0)
            self._queue_input(InputArrived(follow_up.items, follow_up.event))
            return self._advance()
        if self._sampled and self._checks_stop and self._continuations < MAX_CONTINUATIONS:
            self.state = State.STOPPING
            return [CheckStop(self._last_message)]
        return self._finish(self._completed_outcome())

    def _take_stop_answer(self, event: StopChecked) -> list[Command]:
        if self.state is not State.STOPPING:
            return []
        if event.continuation is not None:
            self._continuations += 1
            self._queue_input(event.continuation)
        if self._inputs:
            return self._advance()
        if self._follow_ups:
            return self._end_or_continue()
        return self._finish(self._completed_outcome())

    # The response and its calls

    def _take_item(self, item: ResponseItem, shown: str | None) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        if isinstance(item, Message) and item.role == "assistant" and item.phase != "commentary":
            self._last_message = message_text(item) if shown is None else shown or self._last_message
        call = self._as_call(item)
        if call is None:
            self._answer_search(item)
            return [Record((item,))]
        self._add_call(_Call(self._next_key, call, parallel=self._parallel(call)))
        return [Record((call,)), *self._start_calls()]

    def _as_call(self, item: ResponseItem) -> AnyCall | None:
        """Return the item if it is a call for a tool."""
        if isinstance(item, LocalShellCall) and not item.call_id:
            return item.evolve(call_id=item.id or f"local_shell_{self._next_key}")
        if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)):
            return item
        if isinstance(item, UnknownItem) and search_output(item) is not None and self._searches():
            return item
        return None

    def _answer_search(self, item: ResponseItem) -> None:
        """Answer a tool search that the client is to make as Codex does where there is nothing to find: with no tools."""
        output = search_output(item)
        if output is not None:
            self._add_call(_Call(self._next_key, None, parallel=True, output=output))

    def _add_call(self, call: _Call) -> None:
        self._calls[call.key] = call
        self._next_key += 1
        self._needs_sample = True

    def _start_calls(self) -> list[Command]:
        """Start the calls that may run now, in call order: parallel calls beside each other, any other call alone."""
        commands: list[Command] = []
        running = alone = False
        for call in self._calls.values():  # in one pass: what is running comes before what waits for it
            if call.output is not None:
                continue
            if not call.started and call.item is not None:
                if running and (alone or not call.parallel):
                    break
                call.started = True
                commands.append(RunTool(call.key, call.item))
            running, alone = True, alone or not call.parallel
        return commands

    def _take_completion(self, event: ModelCompleted) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        self.state = State.DRAINING
        self._retries = 0
        self._starts_over = 0
        self._compacted = False
        self._end_turn = event.end_turn
        return self._continue_after_calls()

    def _take_failure(self, event: ModelFailed) -> list[Command]:
        if self.state is not State.SAMPLING:
            return []
        self.state = State.DRAINING
        self._failure = event
        return self._continue_after_calls()

    def _take_output(self, event: ToolFinished) -> list[Command]:
        call = self._calls.get(event.key)
        if call is None or call.output is not None:
            return []
        call.output = event.output
        if event.fatal is not None and self.state is not State.ABORTING:
            self._fatal = event.fatal
            return self._abort()
        if self.state is State.ABORTING:
            return self._finish_abort()
        return [*self._start_calls(), *self._continue_after_calls()]

    def _continue_after_calls(self) -> list[Command]:
        """Continue when the response and all calls have ended."""
        if self.state is not State.DRAINING or not self._all_answered():
            return []
        outputs = self._record_outputs()
        if self._failure is not None:
            return [*outputs, *self._retry_or_fail(self._failure)]
        self._needs_sample = self._needs_sample or self._end_turn is False
        if self._needs_sample or self._inputs:
            return [*outputs, *self._advance()]
        return [*outputs, *self._end_or_continue()]

    def _all_answered(self) -> bool:
        for call in self._calls.values():  # noqa: SIM110  # asked twice per sample, and all() over a generator takes twice as long
            if call.output is None:
                return False
        return True

    def _record_outputs(self) -> list[Command]:
        outputs = [call.output for call in self._calls.values() if call.output is not None]
        self._calls.clear()
        return [Record(tuple(outputs))] if outputs else []

    def _retry_or_fail(self, failure: ModelFailed) -> list[Command]:
        self._needs_sample = True
        if self._is_overflow():
            return self._advance() if self._compacts and not self._compacted else self._fail(failure)
        if failure.starts_over and self._starts_over < MAX_STARTS_OVER:
            self._retries, self.state = 0, State.WAITING
            self._starts_over += 1
            return [Wait(0.0)]
        if not failure.retryable or self._retries >= self._max_retries:
            return self._fail(failure)
        self._retries += 1
        self.state = State.WAITING
        delay = failure.retry_after_s
        if delay is None:
            delay = BACKOFF_BASE_S * 2 ** (self._retries - 1) * self._jitter()
        notice = f"Reconnecting... {self._retries}/{self._max_retries}"
        return [Emit(StreamErrorEvent(notice, failure.info, with_wait(failure.message, delay))), Wait(delay)]

    def _fail(self, failure: ModelFailed) -> list[Command]:
        outcome = Outcome(
            status=Status.FAILED,
            last_agent_message=self._last_message,
            error=failure.message,
            info=failure.info,
            failure=failure.error,
        )
        slug = "error" if failure.error is None else failure.error.slug
        return [Emit(ErrorEvent(failure.message, failure.info, slug)), *self._finish(outcome)]

    # The end

    def _interrupt(self, reason: str) -> list[Command]:
        if self.state is State.ABORTING:
            return []
        self._reason = reason
        if self.state is State.NEW:
            return self._finish(Outcome(status=Status.INTERRUPTED, reason=reason))
        return self._abort()

    def _stop_normally(self, message: str) -> list[Command]:
        if self.state in (State.NEW, State.ABORTING):
            return []
        self._stop_message = message
        return self._abort()

    def _abort(self) -> list[Command]:
        """Cancel all running work. Calls that have not started get their output here."""
        cancels: dict[State, Command] = {
            State.SAMPLING: CancelSample(),
            State.WAITING: CancelWait(),
            State.COMPACTING: CancelCompact(),
            State.STOPPING: CancelStop(),
        }
        commands = [cancels[self.state]] if self.state in cancels else []
        self.state = State.ABORTING
        for call in self._calls.values():
            if not call.started and call.item is not None:
                call.output = output_for(call.item, ABORTED_OUTPUT)
            elif call.output is None:
                commands.append(CancelTool(call.key))
        return [*commands, *self._finish_abort()]

    def _finish_abort(self) -> list[Command]:
        if not self._all_answered():
            return []
        commands = self._record_outputs()
        for key in [key for key, value in self._inputs.items() if value is not None]:
            commands += self._record_input(key)
        if self._fatal is not None:
            error = Outcome(status=Status.FAILED, last_agent_message=self._last_message, error=self._fatal)
            return [*commands, Emit(ErrorEvent(self._fatal, "other")), *self._finish(error)]
        if self._stop_message is not None:
            shown: list[Command] = (
                [Emit(WarningEvent(self._stop_message, slug="stop-turn"))] if self._stop_message else []
            )
            return [*commands, *shown, *self._finish(self._completed_outcome())]
        if self._marks and self._tells_interrupts and self._reason == "interrupted":
            commands.append(Record((user_message(INTERRUPT_MARKER),)))
        outcome = Outcome(status=Status.INTERRUPTED, last_agent_message=self._last_message, reason=self._reason)
        return [*commands, *self._finish(outcome)]

    def _completed_outcome(self) -> Outcome:
        return Outcome(status=Status.COMPLETED, last_agent_message=self._last_message)

    def _finish(self, outcome: Outcome) -> list[Command]:
        self.state = State.DONE
        for key in [key for key, value in self._inputs.items() if value is not None]:
            self._carry_over(self._inputs.pop(key))
        return [Flush(), Finish(outcome)] if self._marks else [Finish(outcome)]

    def _carry_over(self, decided: InputArrived | Refused | None) -> None:
        """Keep decided but unrecorded input for the next turn."""
        match decided:
            case InputArrived():
                self._pending.append(decided)
            case Refused(_, context) if context:
                self._joined.append(Delivered(context))
            case _:
                pass


def _record_commands(event: InputArrived | Delivered) -> list[Command]:
    items = event.all_items if isinstance(event, InputArrived) else event.items
    commands: list[Command] = [Record(items)] if items else []
    if event.event is not None:
        commands.append(Emit(event.event))
    return commands


def with_wait(message: str, delay_s: float) -> str:
    """Return the reason for a new attempt, with the remaining time if the wait is noticeable."""
    return message if delay_s < _TOLD_S else f"{message}; the next attempt is in {delay_s:.0f} s"
