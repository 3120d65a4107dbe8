"""How a task runs to its one end: a state machine without I/O, and what performs it.

Every kind of task ends once, with its marker and its flush before the end is visible, and with no request open after it. The
built-in loop has the same rules in its own machine (``turn.machine``).
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
from codex_framework.threads.faults import described, explained, place_of, source_place
from codex_framework.threads.patience import contained
from codex_framework.threads.turn.machine import INTERRUPT_MARKER, InputArrived
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["CoroutineRun", "Run", "TaskRun"]

LIMIT_INFO = "budget_limited"
"""The ``info`` of the error that a sample beyond a limit raises."""

PATIENCE_S = 5.0
"""How long an interrupted task may clean up, in seconds."""


class Phase(enum.Enum):
    """Where a task stands."""

    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Cancel(Value):
    """Cancel the task, and come back with ``patience_over`` after the patience if it goes on."""


class Tell(Value):
    """Tell the clients."""

    msg: EventMsg


class Mark(Value):
    """Record the marker of an interrupt."""


class Flush(Value):
    """Bring history to disk."""


class Finish(Value):
    """The task has ended. Always the last step."""

    outcome: Outcome


Step: TypeAlias = Cancel | Tell | Mark | Flush | Finish


class TaskRun:
    """The life of one task.

    Args:
        kind: The task's kind, for people.
        marks: Whether an interrupt leaves its marker in the history. False for a task beside a turn, whose marker that is.
    """

    def __init__(self, kind: str, *, marks: bool = True) -> None:
        self.phase = Phase.RUNNING
        self._kind = kind
        self._marks = marks
        self._reason = "interrupted"

    def returned(self, message: str | None) -> list[Step]:
        """The task has returned."""
        return self._ended(Outcome(status=Status.COMPLETED, last_agent_message=message))

    def failed(self, text: str, info: Any = "other") -> list[Step]:
        """The task has raised."""
        outcome = Outcome(status=Status.FAILED, error=text, info=info)
        return [] if self.phase is Phase.ENDED else [*self._told(text, info), *self._ended(outcome)]

    def limited(self, text: str) -> list[Step]:
        """A limit of the thread is reached, and the task has not gone on without its sample."""
        return self._ended(Outcome(status=Status.LIMITED, error=text, reason=LIMIT_INFO))

    def stopped(self, text: str) -> list[Step]:
        """An interceptor or a tool has ended the turn as a normal stop."""
        shown: list[Step] = [Tell(WarningEvent(text))] if text and self.phase is Phase.RUNNING else []
        return [*shown, *self.returned(None)]

    def interrupted(self, reason: str) -> list[Step]:
        """The task has to end."""
        if self.phase is not Phase.RUNNING:
            return []
        self.phase = Phase.STOPPING
        self._reason = reason
        return [Cancel()]

    def cancelled(self) -> list[Step]:
        """The task has let its cancellation through, or has cancelled itself."""
        if self.phase is Phase.RUNNING:
            return self.failed(f"the task {self._kind!r} was cancelled, but nobody had interrupted it")
        return self._ended(Outcome(status=Status.INTERRUPTED, reason=self._reason))

    def patience_over(self, seconds: float) -> list[Step]:
        """The task has not ended in time; it is abandoned."""
        if self.phase is not Phase.STOPPING:
            return []
        text = f"the task {self._kind!r} did not stop within {seconds:.0f} s and was abandoned"
        return [Tell(WarningEvent(text)), *self._ended(Outcome(status=Status.INTERRUPTED, reason=self._reason))]

    def _told(self, text: str, info: Any) -> list[Step]:
        return [Tell(ErrorEvent(text, info))] if self.phase is Phase.RUNNING else []

    def _ended(self, outcome: Outcome) -> list[Step]:
        if self.phase is Phase.ENDED:
            return []
        stopping, self.phase = self.phase is Phase.STOPPING, Phase.ENDED
        if stopping:  # whatever the task made of it: a person has stopped it
            outcome = Outcome(
                status=Status.INTERRUPTED, reason=self._reason, last_agent_message=outcome.last_agent_message
            )
        mark: list[Step] = [Mark()] if stopping and self._marks and self._reason == "interrupted" else []
        return [*mark, Flush(), Finish(outcome)]


class Run(Protocol):
    """Something that fills a turn, while it runs."""

    done: asyncio.Future[Outcome]

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def steerable(self) -> bool:
        """Whether a person's input reaches it."""
        ...

    def steer(self, arrived: InputArrived) -> None:
        """Take a person's input."""
        ...

    def deliver(self, delivered: Delivered) -> None:
        """Take items of a plugin."""
        ...

    def interrupt(self, reason: str) -> None:
        """End soon."""
        ...

    def leftover_input(self) -> Sequence[InputArrived]:
        """Input that came too late for it."""
        ...

    def leftover_deliveries(self) -> Sequence[Delivered]:
        """Deliveries that it has not recorded."""
        ...


class CoroutineRun:
    """A task of a plugin.

    Args:
        contexts: The turn as plugins have it.
        plugin: Whose task it is.
        input: What ``start_task`` was given.
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
        self._work.add_done_callback(self._worked)

    @property
    def kind(self) -> str:
        """What it is."""
        return self._task.kind

    @property
    def steerable(self) -> bool:
        """Whether a person's input reaches it."""
        return self._task.steerable

    def steer(self, arrived: InputArrived) -> None:
        """Give the task a person's input; what it cannot take any more is kept for the next turn."""
        if self._life.phase is not Phase.RUNNING:
            self._late.append(arrived)
            return
        try:
            self._task.steer(arrived.items, self._contexts(self._plugin))
        except Exception as error:  # a plugin may raise anything, and the input must not be lost for it
            self._late.append(arrived)
            self._contexts.scope.emit(
                WarningEvent(f"{self._named()} took no input: {described(error)}{place_of(error)}")
            )
            return
        if arrived.event is not None:
            self._contexts.scope.emit(arrived.event)

    def deliver(self, delivered: Delivered) -> None:
        """Keep items for the next turn: only the task writes history."""
        self._deliveries.append(delivered)

    def interrupt(self, reason: str) -> None:
        """Cancel the task."""
        self._perform(self._life.interrupted(reason))

    def leftover_input(self) -> Sequence[InputArrived]:
        """Input that came too late."""
        return self._late

    def leftover_deliveries(self) -> Sequence[Delivered]:
        """What was delivered meanwhile."""
        return self._deliveries

    async def _run(self, input: object) -> None:  # noqa: A002  # the word of the contract
        try:
            message = await contained(self._task.run, self._contexts(self._plugin), input)
        except StopTurn as error:
            steps = self._life.stopped(str(error))
        except CodexError as error:
            info = getattr(error, "info", "other")
            steps = self._life.limited(str(error)) if info == LIMIT_INFO else self._life.failed(explained(error), info)
        except Exception as error:  # a plugin may raise anything
            steps = self._life.failed(f"{self._named()} failed: {explained(error)}")
        else:
            steps = self._returned(message)
        self._perform(steps)

    def _returned(self, message: object) -> list[Step]:
        if message is None or isinstance(message, str):
            return self._life.returned(message)
        place = source_place(self._task.run)
        text = f"{self._named()} returned {type(message).__name__}{place}; only text is a last message"
        return [Tell(WarningEvent(text)), *self._life.returned(None)]

    def _worked(self, work: asyncio.Task[None]) -> None:
        """End the task in case that it has not told its end itself."""
        error = None if work.cancelled() else work.exception()
        if error is None:
            self._perform(self._life.cancelled())
        else:  # not even an Exception
            self._perform(self._life.failed(f"{self._named()} failed: {described(error)}{place_of(error)}"))

    def _named(self) -> str:
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
