"""The tasks of a thread: what is running, what starts, what is steered, delivered and stopped.

One exclusive task fills a turn; any number of concurrent ones run beside it. The built-in loop of model and tools is the task
``regular``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework.config.settings import fallback_warning
from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.agents import TaskRole
from codex_framework.contract.roles.observers import Notification
from codex_framework.contract.roles.outcomes import Outcome, Status, Usage
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.delivery import Delivered
from codex_framework.threads.journal import sentence
from codex_framework.threads.loop_run import LoopRun
from codex_framework.threads.settings_changes import settings_snapshot
from codex_framework.threads.task_actions import actions_of
from codex_framework.threads.turn.machine import InputArrived
from codex_framework.threads.turn.scope import TurnScope
from codex_framework.threads.turn.turn_context import TurnContexts

if TYPE_CHECKING:
    from codex_framework.threads.task_run import Run

__all__ = ["RegularInput", "Tasks"]

WARMING_PATIENCE_S = 5.0
"""Longest time that closing waits for a sandbox that is still being prepared, in seconds."""


class RegularInput:
    """What starts a regular turn.

    Attributes:
        schema: A JSON Schema that the final message must follow.
    """

    def __init__(
        self,
        arrived: InputArrived,
        *,
        schema: Mapping[str, Any] | None = None,
        client_metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.arrived = arrived
        self.schema = schema
        self.client_metadata = client_metadata


class _Turn:
    """One turn that runs, with what belongs to its end."""

    def __init__(self, contexts: TurnContexts, run: Run, began: float) -> None:
        self.contexts = contexts
        self.scope = contexts.scope
        self.run = run
        self.began = began
        self.ended: asyncio.Task[None] | None = None


class Tasks:
    """What runs in one thread.

    Args:
        new_id: Makes an id for a turn that no submission started.
    """

    def __init__(self, conversation: Conversation, new_id: Callable[[], str]) -> None:
        self._conversation = conversation
        self._new_id = new_id
        self._active: _Turn | None = None
        self._beside: set[_Turn] = set()
        self._waiting: list[Callable[[], None]] = []
        self._warming: asyncio.Task[None] | None = None
        self._starting: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Task[None] | None = None
        self._started = 0
        self.last_outcome: Outcome | None = None
        self._settled: asyncio.Event = asyncio.Event()
        self._settled.set()

    @property
    def running(self) -> bool:
        """Whether a turn is running."""
        return self._active is not None

    # Starting

    def start_regular(self, turn_id: str, given: RegularInput) -> None:
        """Start the built-in loop with a person's input. A turn that cannot begin fails in the way turns do."""
        if self._idle is not None:
            self._idle.cancel()
        self._start(turn_id, given)

    def _start(self, turn_id: str, given: RegularInput) -> None:
        conversation = self._conversation
        agent = conversation.agent
        if agent is not None and agent.loop is not None:
            self.start_task(agent.loop, "agents", given.arrived.items, turn_id)
            return
        try:
            scope = TurnScope(conversation, turn_id, schema=given.schema, client_metadata=given.client_metadata)
            scope.connect()
        except Exception as error:  # a plugin's provider or tool may raise anything while the turn is put together
            self._refuse_turn(turn_id, given.arrived, error)
            return
        contexts = TurnContexts(scope)
        run = LoopRun(contexts, self._refused)
        contexts.actions = actions_of(
            contexts, record=scope.record, refused=self._refused, interrupt=lambda: run.interrupt("interrupted")
        )
        turn = self._begun(contexts, run)
        try:
            self._announce(turn)
            self._record_deliveries(turn_id)
            run.steer(given.arrived)
        except Exception as error:  # a defect of ours or of a store; the thread must not stay busy for ever
            run.driver.break_down(error)
        if scope.router.specs:  # without any tool, no command will run
            self._warming = asyncio.ensure_future(self._warm(scope))

    async def _warm(self, scope: TurnScope) -> None:
        """Prepare the sandbox while the model responds."""
        import codex_framework.threads.turn.call_runner  # noqa: F401  # which calls of the model need

        conversation = self._conversation
        await conversation.commands.warm(scope.facts.access, scope.settings.cwd, conversation.config)

    def start_task(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> str:
        """Start a task of a plugin.

        Raises:
            ThreadError: Another turn is running, and the task does not replace it, wait for it or run beside it.
        """
        if self._active is not None and not task.concurrent:
            return self._busy(task, plugin, given, turn_id)
        beside = self._active
        scope = TurnScope(self._conversation, turn_id if beside is None else beside.scope.turn_id, kind=task.kind)
        contexts = TurnContexts(scope)
        record = scope.record if beside is None else self._join
        from codex_framework.threads.task_run import CoroutineRun

        run = CoroutineRun(task, contexts, plugin, given, record=record, marks=beside is None)
        contexts.actions = actions_of(
            contexts, record=record, refused=self._refused, interrupt=lambda: run.interrupt("interrupted")
        )
        if beside is None:
            self._announce(self._begun(contexts, run), context=False)
            self._record_deliveries(turn_id)
        else:
            companion = _Turn(contexts, run, time.time())
            self._beside.add(companion)
            companion.ended = asyncio.ensure_future(self._end_companion(companion))
        return scope.turn_id

    def _busy(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> str:
        if task.when_busy == "replace":
            self._later(self._replace(task, plugin, given, turn_id))
            return turn_id
        if task.when_busy == "wait":
            self._waiting.append(lambda: self._start_waiting(task, plugin, given, turn_id))
            return turn_id
        raise ThreadError(
            f"a turn is running, so the task {task.kind!r} cannot start",
            slug="busy",
            hint="Wait for its end, or interrupt it.",
        )

    async def _replace(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> None:
        await self.stop("replaced")
        self._start_waiting(task, plugin, given, turn_id)

    def _start_waiting(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> None:
        try:
            self.start_task(task, plugin, given, turn_id)
        except Exception as error:  # nobody waits for it any more: its events tell
            self._conversation.journal.emit(turn_id, ErrorEvent(sentence(error), "bad_request"))

    def _begun(self, contexts: TurnContexts, run: Run) -> _Turn:
        conversation = self._conversation
        turn = _Turn(contexts, run, time.time())
        self._active = turn
        self._started += 1
        self._settled.clear()
        conversation.turn = contexts.scope.facts
        conversation.budget.begin()
        turn.ended = asyncio.ensure_future(self._end(turn))
        return turn

    def _announce(self, turn: _Turn, *, context: bool = True) -> None:
        """Tell that the turn has begun, and record its context and settings."""
        scope = turn.scope
        scope.emit(TurnStartedEvent(scope.turn_id, int(turn.began), scope.model.context_window))
        if not scope.model.known:
            scope.emit(WarningEvent(fallback_warning(scope.model.slug)))
        if context:
            for warning in self._conversation.update_context(scope.facts):
                scope.emit(WarningEvent(warning))
        snapshot = settings_snapshot(self._conversation.settings)
        self._conversation.journal.turn_context({"turn_id": scope.turn_id, **snapshot})

    def _refuse_turn(self, turn_id: str, arrived: InputArrived, error: Exception) -> None:
        """End a turn that cannot even begin: its input is kept."""
        journal = self._conversation.journal
        journal.emit(turn_id, TurnStartedEvent(turn_id, int(time.time())))
        journal.record(arrived.items)
        if arrived.event is not None:
            journal.emit(turn_id, arrived.event)
        journal.flush(turn_id)
        journal.emit(turn_id, ErrorEvent(sentence(error), "bad_request"))
        journal.emit(turn_id, TurnCompleteEvent(turn_id, None, int(time.time()), 0))
        self.last_outcome = Outcome(status=Status.FAILED, error=sentence(error), info="bad_request")

    # While it runs

    def steer(self, arrived: InputArrived) -> None:
        """Give input to the turn that runs.

        Raises:
            ThreadError: Nothing is running, or what is running takes no input.
        """
        if self._active is None:
            raise ThreadError("no turn is running", slug="no-active-turn", hint="Start one with user_input.")
        if not self._active.run.steerable:
            kind = self._active.run.kind
            raise ThreadError(
                f"cannot steer a {kind} turn", slug="not-steerable", hint="Wait for its end, or interrupt it."
            )
        self._active.run.steer(arrived)

    def deliver(self, delivered: Delivered, *, trigger: bool) -> None:
        """Put items into the conversation where they do no harm."""
        if self._active is not None:
            self._active.run.deliver(delivered)
        elif trigger:
            self._start(self._new_id(), RegularInput(InputArrived(delivered.items, delivered.event)))
        else:
            self._conversation.deliveries.append(delivered)

    def _join(self, items: Sequence[ResponseItem]) -> None:
        self.deliver(Delivered(tuple(items)), trigger=False)

    def _record_deliveries(self, turn_id: str) -> None:
        """Record what was delivered while no turn could take it: before the input of the next one, or at the end."""
        taken, self._conversation.deliveries = self._conversation.deliveries, []
        for delivered in taken:
            self._conversation.journal.record(delivered.items)
            if delivered.event is not None:
                self._conversation.journal.emit(turn_id, delivered.event)

    def _refused(self, arrived: InputArrived, text: str) -> None:
        """Tell whoever sent an input that it was not taken."""
        del arrived
        turn_id = "" if self._active is None else self._active.scope.turn_id
        self._conversation.journal.emit(turn_id, ErrorEvent(text, "input_refused"))

    # Ending

    async def _end(self, turn: _Turn) -> None:
        outcome = await turn.run.done
        conversation = self._conversation
        turn.contexts.end_actions()
        conversation.requests.abort(turn.scope.turn_id)
        await turn.contexts.end_children()
        if conversation.parts:
            await conversation.parts.end_turn(turn.contexts, outcome)
        turn.contexts.ended = True
        conversation.budget.end()
        late = turn.run.leftover_input()
        conversation.deliveries += turn.run.leftover_deliveries()
        conversation.previous_model = turn.scope.model
        now = time.time()
        duration_ms = int((now - turn.began) * 1000)
        usage = Usage(requests=turn.scope.samples, tokens=turn.scope.turn_usage)
        self.last_outcome = outcome.evolve(usage=usage)
        self._active = None
        conversation.turn = None
        self._tell_end(turn, outcome, now, duration_ms)
        turn.scope.flush()
        self._notify(turn, outcome, duration_ms)
        for arrived in late:
            self._start_late(arrived)
        self._go_on()

    def _tell_end(self, turn: _Turn, outcome: Outcome, now: float, duration_ms: int) -> None:
        scope = turn.scope
        if outcome.status in (Status.INTERRUPTED, Status.LIMITED):
            reason = outcome.reason or "interrupted"
            scope.emit(TurnAbortedEvent(scope.turn_id, reason, int(now), duration_ms))
            return
        first_token = turn.run.driver.time_to_first_token_ms if isinstance(turn.run, LoopRun) else None
        scope.emit(TurnCompleteEvent(scope.turn_id, outcome.last_agent_message, int(now), duration_ms, first_token))

    async def _end_companion(self, companion: _Turn) -> None:
        await companion.run.done
        companion.contexts.end_actions()
        await companion.contexts.end_children()
        companion.contexts.ended = True
        self._beside.discard(companion)
        for delivered in companion.run.leftover_deliveries():
            self.deliver(delivered, trigger=False)

    def _start_late(self, arrived: InputArrived) -> None:
        """Input that arrived while its turn was ending starts another one, or joins the one that has started."""
        if self._active is not None and self._active.run.steerable:
            self._active.run.steer(arrived)
        else:
            self.start_regular(self._new_id(), RegularInput(arrived))

    def _go_on(self) -> None:
        """After a turn: what waits for its end, then the components that want to know that nothing is left to do."""
        while self._waiting and self._active is None:
            self._waiting.pop(0)()
        if self._active is not None:
            return
        steering = [one for one in self._conversation.deliveries if one.when != "join"]
        if steering:
            kept = [one for one in self._conversation.deliveries if one.when == "join"]
            self._conversation.deliveries = [*kept, *steering[1:]]
            self.start_regular(self._new_id(), RegularInput(InputArrived(steering[0].items, steering[0].event)))
            return
        if self._conversation.parts.wants_idle:
            self._idle = asyncio.ensure_future(self._tell_idle())
        else:
            self._settled.set()

    async def _tell_idle(self) -> None:
        started = self._started
        await self._conversation.parts.idle(lambda: self._started != started)
        if self._started == started:
            self._settled.set()

    def _notify(self, turn: _Turn, outcome: Outcome, duration_ms: int) -> None:
        scope = turn.scope
        conversation = self._conversation
        scope.measured(
            "codex.turn.e2e_duration_ms",
            turn.began,
            time.monotonic() - duration_ms / 1000,
            model=scope.model.slug,
            status=outcome.status.value,
        )
        if outcome.status is not Status.COMPLETED or conversation.parent is not None:
            return  # people wait for threads of their own
        if outcome.last_agent_message is None and not isinstance(turn.run, LoopRun):
            return  # a task that the agent had no part in
        asked = turn.run.asked if isinstance(turn.run, LoopRun) else ()
        conversation.host.broadcast.notification(
            Notification(
                type="agent-turn-complete",
                thread_id=conversation.id,
                turn_id=scope.turn_id,
                cwd=str(scope.settings.cwd),
                input_messages=tuple(asked),
                last_assistant_message=outcome.last_agent_message,
            )
        )

    async def ended(self) -> None:
        """Wait for the end of the turn that runs."""
        if self._active is not None and self._active.ended is not None:
            await asyncio.shield(self._active.ended)

    async def settled(self) -> Outcome:
        """Wait until nothing runs and nothing is pending.

        Raises:
            ThreadError: No turn has run yet.
        """
        await self._settled.wait()
        if self.last_outcome is None:
            raise ThreadError("no turn has run yet", slug="no-active-turn", hint="Start one first.")
        return self.last_outcome

    async def stop(self, reason: str) -> None:
        """End everything that runs, and wait for its end."""
        turns = [*([self._active] if self._active is not None else []), *self._beside]
        for turn in turns:
            turn.run.interrupt(reason)
        ends = [turn.ended for turn in turns if turn.ended is not None]
        if ends:
            await asyncio.shield(asyncio.gather(*ends))

    async def close(self) -> None:
        """End everything for good."""
        self._waiting.clear()
        await self.stop("interrupted")
        while self._active is not None:  # input that came in the moment of the end has started another turn
            self._waiting.clear()
            await self.stop("interrupted")
        self._record_deliveries("")
        for task in (self._idle, *self._starting):
            if task is not None:
                task.cancel()
        self._settled.set()
        if self._warming is not None:
            await asyncio.wait((self._warming,), timeout=WARMING_PATIENCE_S)
            self._warming.cancel()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
