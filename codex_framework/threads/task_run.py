"""The life cycle of a task: a state machine without I/O, and the code that runs its commands.

Every kind of task ends exactly once. Its marker is recorded and flushed before the end is visible, and no request of it is open
afterwards. The built-in loop follows the same rules in its own machine (``turn.machine``).
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, assert_never

from codex_framework.contract.errors import CodexError, StopTurn
from codex_framework.contract.protocol.events import ErrorEvent, EventMsg, WarningEvent
from codex_framework.contract.protocol.items import ResponseItem, user_message
from codex_framework.contract.roles.agents import TaskRole
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.contract.value import Value
from codex_framework.threads.delivery import Delivered
from codex_framework.threads.faults import advice, error_message, error_text, place_of, source_place
from codex_framework.threads.plugin_calls import call_isolated
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.turn.machine import INTERRUPT_MARKER
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["CoroutineRun", "Run", "TaskRun"]

LIMIT_INFO = "budget_limited"
"""The ``info`` of the error that a sample raises if a limit is reached."""

PATIENCE_S = 5.0
"""How long an interrupted task may clean up, in seconds."""


class Phase(enum.Enum):
    """The state of a task."""

    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Cancel(Value):
    """Cancel the task, and call ``patience_over`` if it does not end within the time limit."""


class Tell(Value):
    """Send an event to the clients."""

    msg: EventMsg


class Mark(Value):
    """Record the marker of an interrupt."""


class Flush(Value):
    """Flush the record to disk."""


class Finish(Value):
    """End the task. Always the last step."""

    outcome: Outcome


Step: TypeAlias = Cancel | Tell | Mark | Flush | Finish


class TaskRun:
    """The life cycle of one task.

    Args:
        kind: The task's kind, for messages.
        marks: Whether an interrupt records its marker in the history. False for a task beside a turn, which records it itself.
    """

    def __init__(self, kind: str, *, marks: bool = True) -> None:
        self.phase = Phase.RUNNING
        self._kind = kind
        self._marks = marks
        self._reason = "interrupted"

    def handle_return(self, message: str | None) -> list[Step]:
        """Handle the task's return."""
        return self._end(Outcome(status=Status.COMPLETED, last_agent_message=message))

    def handle_error(self, text: str, info: Any = "other", error: CodexError | None = None) -> list[Step]:
        """Handle an exception of the task."""
        outcome = Outcome(status=Status.FAILED, error=text, info=info, failure=error)
        event = ErrorEvent(text, info, CodexError.slug if error is None else error.slug)
        return [] if self.phase is Phase.ENDED else [*self._tell_failure(event), *self._end(outcome)]

    def handle_limit(self, text: str) -> list[Step]:
        """Handle a task that ended because a limit of the thread was reached."""
        return self._end(Outcome(status=Status.LIMITED, error=text, reason=LIMIT_INFO))

    def handle_stop(self, text: str) -> list[Step]:
        """Handle a normal stop by an interceptor or a tool."""
        shown: list[Step] = [Tell(WarningEvent(text, slug="stop-turn"))] if text and self.phase is Phase.RUNNING else []
        return [*shown, *self.handle_return(None)]

    def handle_interrupt(self, reason: str) -> list[Step]:
        """Handle an interrupt."""
        if self.phase is not Phase.RUNNING:
            return []
        self.phase = Phase.STOPPING
        self._reason = reason
        return [Cancel()]

    def handle_cancellation(self) -> list[Step]:
        """Handle the task's cancellation, requested or its own."""
        if self.phase is Phase.RUNNING:
            return self.handle_error(f"the task {self._kind!r} was cancelled without an interrupt")
        return self._end(Outcome(status=Status.INTERRUPTED, reason=self._reason))

    def patience_over(self, seconds: float) -> list[Step]:
        """Abandon a task that did not end in time."""
        if self.phase is not Phase.STOPPING:
            return []
        text = f"the task {self._kind!r} did not stop within {seconds:.0f} s and was abandoned"
        return [
            Tell(WarningEvent(text, slug="abandoned")),
            *self._end(Outcome(status=Status.INTERRUPTED, reason=self._reason)),
        ]

    def _tell_failure(self, event: ErrorEvent) -> list[Step]:
        return [Tell(event)] if self.phase is Phase.RUNNING else []

    def _end(self, outcome: Outcome) -> list[Step]:
        if self.phase is Phase.ENDED:
            return []
        stopping, self.phase = self.phase is Phase.STOPPING, Phase.ENDED
        if stopping:  # the user stopped it, whatever the task did about it
            outcome = Outcome(
                status=Status.INTERRUPTED, reason=self._reason, last_agent_message=outcome.last_agent_message
            )
        mark: list[Step] = [Mark()] if stopping and self._marks and self._reason == "interrupted" else []
        return [*mark, Flush(), Finish(outcome)]


class Run(Protocol):
    """The running content of a turn."""

    done: asyncio.Future[Outcome]

    @property
    def kind(self) -> str:
        """The kind of the task."""
        ...

    @property
    def steerable(self) -> bool:
        """Whether it accepts user input."""
        ...

    def steer(self, arrived: InputArrived) -> None:
        """Take user input."""
        ...

    def deliver(self, delivered: Delivered) -> None:
        """Take items of a plugin."""
        ...

    def interrupt(self, reason: str) -> None:
        """Request the end."""
        ...

    def stop(self, message: str) -> None:
        """Take note that an interceptor of a call, or its tool, wants the turn to end, with a sentence for the user."""
        ...

    def leftover_input(self) -> Sequence[InputArrived]:
        """Return the input that arrived too late."""
        ...

    def leftover_deliveries(self) -> Sequence[Delivered]:
        """Return the deliveries that were not recorded."""
        ...


class CoroutineRun:
    """A task of a plugin.

    Args:
        contexts: The contexts of the turn.
        plugin: The plugin that owns the task.
        input: The input passed to ``start_task``.
        record: Adds items to history, for input that reaches the task.
        marks: As for :class:`TaskRun`.
    """

    def __init__(
        self,
        task: TaskRole,
        contexts: TurnContexts,
        plugin: str,
        input: object,  # noqa: A002  # the word of the contract
        *,
        record: Callable[[Sequence[ResponseItem]], None],
        marks: bool = True,
    ) -> None:
        self._task = task
        self._contexts = contexts
        self._plugin = plugin
        self._record = record
        self._life = TaskRun(task.kind, marks=marks)
        self._late: list[InputArrived] = []
        self._deliveries: list[Delivered] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.done: asyncio.Future[Outcome] = self._loop.create_future()
        self._work = self._loop.create_task(self._run(input))
        self._work.add_done_callback(self._report_end)

    @property
    def kind(self) -> str:
        """The kind of the task."""
        return self._task.kind

    @property
    def steerable(self) -> bool:
        """Whether it accepts user input."""
        return self._task.steerable

    def steer(self, arrived: InputArrived) -> None:
        """Pass user input to the task. Input that it can no longer take is kept for the next turn."""
        if self._life.phase is not Phase.RUNNING:
            self._late.append(arrived)
            return
        try:
            self._task.steer(arrived.all_items, self._contexts(self._plugin))
        except Exception as error:  # a plugin may raise anything, and the input must not be lost because of it
            self._late.append(arrived)
            self._contexts.scope.emit(
                WarningEvent(
                    f"{self._name()} did not accept input: {error_text(error)}{place_of(error)}", slug="plugin-failed"
                )
            )
            return
        if arrived.event is not None:
            self._contexts.scope.emit(arrived.event)

    def deliver(self, delivered: Delivered) -> None:
        """Keep items for the next turn, because only the task writes history."""
        self._deliveries.append(delivered)

    def interrupt(self, reason: str) -> None:
        """Cancel the task."""
        self._perform(self._life.handle_interrupt(reason))

    def stop(self, message: str) -> None:
        """Tell the user. The task decides how to proceed after a stopped call."""
        self._contexts.scope.emit(WarningEvent(message, slug="stop-turn"))

    def leftover_input(self) -> Sequence[InputArrived]:
        """Return the input that arrived too late."""
        return self._late

    def leftover_deliveries(self) -> Sequence[Delivered]:
        """Return the items that were delivered in the meantime."""
        return self._deliveries

    async def _run(self, input: object) -> None:  # noqa: A002  # the word of the contract
        try:
            message = await call_isolated(self._task.run, self._contexts(self._plugin), input)
        except StopTurn as error:
            steps = self._life.handle_stop(str(error))
        except CodexError as error:
            info = getattr(error, "info", "other")
            if info == LIMIT_INFO:
                steps = self._life.handle_limit(str(error))
            else:
                steps = self._life.handle_error(error_message(error), info, error)
        except Exception as error:  # a plugin may raise anything
            text = f"{self._name()} failed: {error_message(error, self._task.run)}"
            steps = self._life.handle_error(f"{text}. {advice(self._plugin, error)}")
        else:
            steps = self._handle_result(message)
        self._perform(steps)

    def _handle_result(self, message: object) -> list[Step]:
        if message is None or isinstance(message, str):
            return self._life.handle_return(message)
        place = source_place(self._task.run)
        text = f"{self._name()} returned {type(message).__name__}{place}; the last message must be text"
        return [Tell(WarningEvent(text, slug="plugin-failed")), *self._life.handle_return(None)]

    def _report_end(self, work: asyncio.Task[None]) -> None:
        """End the task if it has not reported its end itself."""
        error = None if work.cancelled() else work.exception()
        if error is None:
            self._perform(self._life.handle_cancellation())
        else:  # not an Exception
            text = f"{self._name()} failed: {error_text(error)}{place_of(error)}"
            self._perform(self._life.handle_error(f"{text}. {advice(self._plugin, error)}"))

    def _name(self) -> str:
        return f"the task {self.kind!r} of plugin {self._plugin!r}"

    def _perform(self, steps: Sequence[Step]) -> None:
        scope = self._contexts.scope
        for step in steps:
            match step:
                case Cancel():
                    scope.conversation.requests.abort(scope.turn_id)
                    self._work.cancel()
                    self._timer = self._loop.call_later(PATIENCE_S, self._impatient)
                case Tell(msg):
                    scope.emit(msg)
                case Mark():
                    if scope.conversation.tells_interrupts:
                        scope.record((user_message(INTERRUPT_MARKER),))
                case Flush():
                    scope.flush()
                case Finish(outcome):
                    if self._timer is not None:
                        self._timer.cancel()
                    if not self.done.done():
                        self.done.set_result(outcome)
                case _:
                    assert_never(step)

    def _impatient(self) -> None:
        self._perform(self._life.patience_over(PATIENCE_S))
