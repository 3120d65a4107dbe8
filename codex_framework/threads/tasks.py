"""The tasks of a thread: starting, steering, delivering and stopping.

One exclusive task fills a turn, and any number of concurrent tasks run beside it. The built-in loop of model and tools is the
task ``regular``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.config.settings import fallback_warning
from codex_framework.contract.errors import CodexError, ThreadError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UserMessageEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.agents import TaskRole
from codex_framework.contract.roles.observers import Notification
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.delivery import Delivered
from codex_framework.threads.journal import sentence
from codex_framework.threads.settings_changes import turn_record
from codex_framework.threads.task_actions import actions_of
from codex_framework.threads.turn.driver import TurnDriver
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.turn.scope import TurnScope
from codex_framework.threads.turn.turn_context import TurnContexts

if TYPE_CHECKING:
    from codex_framework.threads.task_run import Run

__all__ = ["RegularInput", "Tasks"]

WARMING_PATIENCE_S = 5.0
"""How long closing waits for a sandbox that is still being prepared, in seconds."""

_COMPLETE = "agent-turn-complete"
_OF_ENDS = {Status.COMPLETED: _COMPLETE, Status.FAILED: "turn-failed", Status.LIMITED: "budget-reached"}
"""The notification for each end of a turn. The user knows of an interrupt."""


class RegularInput:
    """The input of a regular turn.

    Attributes:
        schema: A JSON Schema that the final message must follow.
        client_metadata: Metadata from the client for the model's server, sent with each request.
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


class LoopRun:
    """The run of a regular turn, without a coroutine around it. A plugin's task has a ``CoroutineRun`` with the same methods."""

    kind = "regular"
    steerable = True

    def __init__(self, contexts: TurnContexts, refused: Callable[[InputArrived, str], None]) -> None:
        self.driver = TurnDriver(contexts, refused=refused)
        self.asked: list[str] = []
        self.done: asyncio.Future[Outcome] = self.driver.done

    def steer(self, arrived: InputArrived) -> None:
        """Take user input. The first input starts the loop."""
        if not self.asked and isinstance(arrived.event, UserMessageEvent):
            self.asked.append(arrived.event.message)
        self.driver.feed(arrived)

    def deliver(self, delivered: Delivered) -> None:
        """Take items of a plugin."""
        self.driver.feed(delivered)

    def interrupt(self, reason: str) -> None:
        """Request the end of the loop."""
        self.driver.interrupt(reason)

    def stop(self, message: str) -> None:
        """End the loop as a normal stop, with a sentence for the user."""
        self.driver.stop(message)

    def leftover_input(self) -> Sequence[InputArrived]:
        """Return the input that arrived too late."""
        return self.driver.turn.take_pending()

    def leftover_deliveries(self) -> Sequence[Delivered]:
        """Return the deliveries that no sample included."""
        return self.driver.turn.take_deliveries()


class _Turn:
    """A running turn, with the data needed at its end."""

    def __init__(self, contexts: TurnContexts, run: Run, began: float) -> None:
        self.contexts = contexts
        self.scope = contexts.scope
        self.run = run
        self.began = began
        self.ended: asyncio.Task[None] | None = None

    @property
    def first_token_ms(self) -> int | None:
        """The time to the model's first event in milliseconds. None if no event has arrived, or if it is not measured."""
        return self.run.driver.time_to_first_token_ms if isinstance(self.run, LoopRun) else None

    def end_span(self, outcome: Outcome) -> None:
        """End the span of the turn. Turns of children have separate spans, so their usage is not included."""
        span, first = self.scope.reports.telemetry.span, self.first_token_ms
        if span.place is None:
            return
        tokens = self.scope.turn_usage
        span.set(
            status=outcome.status.value,
            samples=self.scope.samples,
            tool_calls=self.scope.calls,
            input_tokens=tokens.input_tokens,
            cached_input_tokens=tokens.cached_input_tokens,
            cache_write_input_tokens=tokens.cache_write_input_tokens,
            output_tokens=tokens.output_tokens,
            reasoning_output_tokens=tokens.reasoning_output_tokens,
            total_tokens=tokens.total_tokens,
            **({} if first is None else {"ttft_ms": first}),
        )
        span.finish(failed=outcome.status is Status.FAILED)


class Tasks:
    """The running tasks of one thread.

    Args:
        new_id: Creates an id for a turn that was not started by a submission.

    Attributes:
        begun: The number of turns that have begun.
        last_outcome: The outcome of the last turn. None before the first turn has ended.
    """

    def __init__(self, conversation: Conversation, new_id: Callable[[], str]) -> None:
        self._conversation = conversation
        self._new_id = new_id
        self._active: _Turn | None = None
        self._beside: list[_Turn] = []
        self._waiting: list[Callable[[], None]] = []
        self._warming: asyncio.Task[None] | None = None
        self._warmed: tuple[FileAccess, Path] | None = None
        self._starting: list[asyncio.Task[None]] = []
        self._idle: asyncio.Task[None] | None = None
        self.begun = 0
        self.last_outcome: Outcome | None = None
        self._is_settled = True
        self._settled: asyncio.Event | None = None  # made for those who wait

    @property
    def running(self) -> bool:
        """Whether a turn is running."""
        return self._active is not None

    @property
    def pending(self) -> bool:
        """Whether a turn is running, or a task waits for its end."""
        return bool(self._active is not None or self._waiting or self._starting)

    # Starting

    def start_regular(self, turn_id: str, given: RegularInput) -> None:
        """Start the built-in loop with user input. A turn that cannot start fails like any other turn."""
        if self._idle is not None:
            self._idle.cancel()
        self._start(turn_id, given)

    def _start(self, turn_id: str, given: RegularInput) -> None:
        conversation = self._conversation
        conversation.renew()
        if (agent := conversation.agent) is not None and agent.loop is not None:
            self.start_task(agent.loop, "agents", given.arrived.all_items, turn_id)
            return
        try:
            scope = TurnScope(conversation, turn_id, schema=given.schema, client_metadata=given.client_metadata)
            scope.connect()
        except Exception as error:  # a plugin's provider or tool may raise anything while the turn is set up
            self._refuse_turn(turn_id, given.arrived, error)
            return
        contexts = TurnContexts(scope)
        run = LoopRun(contexts, self._report_refusal)
        contexts.actions = actions_of(contexts, run, record=scope.record, refused=self._report_refusal)
        turn = self._begin(contexts, run)
        try:
            self._announce(turn)
            self._record_deliveries(turn_id)
            run.steer(given.arrived)
        except Exception as error:  # a defect of ours or of a store; the thread must not stay busy forever
            run.driver.break_down(error)
        place = (scope.facts.access, scope.settings.cwd)
        if scope.router.specs and scope.is_local and place != self._warmed:  # else no command will run here
            self._warmed = place
            self._warming = asyncio.ensure_future(self._warm(*place))

    async def _warm(self, access: FileAccess, cwd: Path) -> None:
        """Prepare the sandbox while the model responds."""
        import codex_framework.threads.turn.call_runner  # noqa: F401  # which calls of the model need

        await self._conversation.commands.warm(access, cwd, self._conversation.config)
        self._warming = None

    def start_task(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> str:
        """Start a task of a plugin.

        Raises:
            ThreadError: Another turn is running, and the task does not replace it, wait for it or run beside it.
        """
        if self._active is not None and not task.concurrent:
            return self._busy(task, plugin, given, turn_id)
        beside = self._active
        if beside is None:
            self._conversation.renew()
        scope = TurnScope(self._conversation, turn_id if beside is None else beside.scope.turn_id, kind=task.kind)
        contexts = TurnContexts(scope)
        record = scope.record if beside is None else self._join
        from codex_framework.threads.task_run import CoroutineRun

        run = CoroutineRun(task, contexts, plugin, given, record=record, marks=beside is None)
        contexts.actions = actions_of(contexts, run, record=record, refused=self._report_refusal)
        if beside is None:
            self._announce(self._begin(contexts, run), context=False)
            self._record_deliveries(turn_id)
        else:
            companion = _Turn(contexts, run, time.time())
            self._beside.append(companion)
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
            hint="Wait until it ends, or interrupt it.",
        )

    async def _replace(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> None:
        await self.stop("replaced")
        self._start_waiting(task, plugin, given, turn_id)

    def _start_waiting(self, task: TaskRole, plugin: str, given: object, turn_id: str) -> None:
        try:
            self.start_task(task, plugin, given, turn_id)
        except Exception as error:  # nobody waits for it any more, so its events report the error
            self._conversation.journal.emit(
                turn_id, ErrorEvent(sentence(error), "bad_request", getattr(error, "slug", CodexError.slug))
            )

    def _begin(self, contexts: TurnContexts, run: Run) -> _Turn:
        conversation = self._conversation
        turn = _Turn(contexts, run, time.time())
        scope = contexts.scope
        scope.reports.telemetry.begin(model=scope.model.slug, provider=scope.provider.id, kind=scope.facts.kind)
        self._active = turn
        self.begun += 1
        self._is_settled = False
        conversation.turn = scope.facts
        conversation.budget.begin()
        conversation.host.stalls.enter()
        turn.ended = asyncio.ensure_future(self._end(turn))
        return turn

    def _announce(self, turn: _Turn, *, context: bool = True) -> None:
        """Report the start of the turn, and record its context and settings."""
        scope = turn.scope
        window, mode = scope.model.usable_window, scope.facts.mode
        scope.emit(TurnStartedEvent(scope.turn_id, int(turn.began), window, mode))
        if not scope.model.known:
            scope.emit(WarningEvent(fallback_warning(scope.model.slug), slug="unknown-model"))
        recorded: Mapping[str, Any] = {}
        if context:
            update = self._conversation.update_context(scope.facts_at())
            recorded = update.recorded
            for warning in update.warnings:
                scope.emit(WarningEvent(warning, slug="context"))
        other = scope.provider.id if scope.provider.id != self._conversation.meta.model_provider else None
        record = turn_record(self._conversation.settings, scope.turn_id, other, recorded)
        self._conversation.journal.record_turn_context(record)

    def _refuse_turn(self, turn_id: str, arrived: InputArrived, error: Exception) -> None:
        """End a turn that cannot start. Its input is kept."""
        journal = self._conversation.journal
        journal.emit(turn_id, TurnStartedEvent(turn_id, int(time.time())))
        journal.record(arrived.all_items)
        if arrived.event is not None:
            journal.emit(turn_id, arrived.event)
        journal.flush(turn_id)
        text, now = sentence(error), int(time.time())
        journal.emit(turn_id, ErrorEvent(text, "bad_request", getattr(error, "slug", CodexError.slug)))
        failure = {"message": text, "codex_error_info": "bad_request"}
        journal.emit(turn_id, TurnCompleteEvent(turn_id, None, now, 0, started_at=now, error=failure))
        known = error if isinstance(error, CodexError) else None
        self.last_outcome = Outcome(status=Status.FAILED, error=text, info="bad_request", failure=known)

    # While it runs

    def steer(self, arrived: InputArrived, expected_turn_id: str | None = None) -> str:
        """Pass input to the running turn, and return its id.

        Raises:
            ThreadError: No turn is running, the running one takes no input, or it is not the expected one.
        """
        if self._active is None:
            raise ThreadError("no turn is running", slug="no-active-turn", hint="Start one with user_input.")
        turn_id, run = self._active.scope.turn_id, self._active.run
        _check_steerable(run, turn_id, expected_turn_id)
        run.steer(arrived)
        return turn_id

    def deliver(self, delivered: Delivered, *, trigger: bool) -> None:
        """Add items to the conversation at the next suitable point."""
        if self._active is not None:
            self._active.run.deliver(delivered)
        elif trigger:
            self._start(self._new_id(), RegularInput(InputArrived(delivered.items, delivered.event)))
        else:
            self._conversation.deliveries.append(delivered)

    def _join(self, items: Sequence[ResponseItem]) -> None:
        self.deliver(Delivered(tuple(items)), trigger=False)

    def _record_deliveries(self, turn_id: str) -> None:
        """Record deliveries that no turn could take: before the input of the next turn, or at the end."""
        taken, self._conversation.deliveries = self._conversation.deliveries, []
        for delivered in taken:
            self._conversation.journal.record(delivered.items)
            if delivered.event is not None:
                self._conversation.journal.emit(turn_id, delivered.event)

    def _report_refusal(self, arrived: InputArrived, text: str) -> None:
        """Report to the sender of an input that it was refused."""
        del arrived
        turn_id = "" if self._active is None else self._active.scope.turn_id
        self._conversation.journal.emit(turn_id, ErrorEvent(text, "input_refused", slug="input-refused"))

    # Ending

    async def _end(self, turn: _Turn) -> None:
        conversation = self._conversation
        try:
            outcome = await turn.run.done
        finally:
            conversation.host.stalls.leave()
        turn.contexts.end_actions()
        conversation.requests.abort(turn.scope.turn_id)
        await turn.contexts.end_children()
        outcome = outcome.evolve(usage=conversation.budget.bill())
        await conversation.parts.end_turn(turn.contexts, outcome)
        turn.contexts.ended = True
        conversation.budget.end()
        late = turn.run.leftover_input()
        conversation.deliveries += turn.run.leftover_deliveries()
        conversation.first_model = conversation.first_model or turn.scope.model
        conversation.previous_model = turn.scope.model
        now = time.time()
        duration_ms = int((now - turn.began) * 1000)
        self.last_outcome = outcome
        self._active = None
        conversation.turn = None
        self._tell_end(turn, outcome, now, duration_ms)
        turn.end_span(outcome)
        turn.scope.flush()
        self._notify(turn, outcome, now - turn.began)
        for arrived in late:
            self._start_late(arrived)
        self._go_on()

    def _tell_end(self, turn: _Turn, outcome: Outcome, now: float, duration_ms: int) -> None:
        scope = turn.scope
        if outcome.status in (Status.INTERRUPTED, Status.LIMITED):
            reason = outcome.reason or "interrupted"
            scope.emit(TurnAbortedEvent(scope.turn_id, reason, int(now), duration_ms, int(turn.began)))
            return
        message = outcome.last_agent_message
        error = None if outcome.error is None else {"message": outcome.error, "codex_error_info": outcome.info}
        end = TurnCompleteEvent(
            scope.turn_id, message, int(now), duration_ms, turn.first_token_ms, started_at=int(turn.began), error=error
        )
        scope.emit(end)

    async def _end_companion(self, companion: _Turn) -> None:
        await companion.run.done
        companion.contexts.end_actions()
        await companion.contexts.end_children()
        companion.contexts.ended = True
        self._beside.remove(companion)
        for delivered in companion.run.leftover_deliveries():
            self.deliver(delivered, trigger=False)

    def _start_late(self, arrived: InputArrived) -> None:
        """Start a turn with input that arrived while its turn was ending, or steer the turn that has started since."""
        if self._active is not None and self._active.run.steerable:
            self._active.run.steer(arrived)
        else:
            self.start_regular(self._new_id(), RegularInput(arrived))

    def _go_on(self) -> None:
        """After a turn, start the waiting tasks, then inform the components that wait for an idle thread."""
        while self._waiting and self._active is None:
            self._waiting.pop(0)()
        if self._active is not None:
            return
        steering = [delivery for delivery in self._conversation.deliveries if delivery.when != "join"]
        if steering:
            kept = [delivery for delivery in self._conversation.deliveries if delivery.when == "join"]
            self._conversation.deliveries = [*kept, *steering[1:]]
            self.start_regular(self._new_id(), RegularInput(InputArrived(steering[0].items, steering[0].event)))
            return
        if self._conversation.parts.wants_idle:
            self._idle = asyncio.ensure_future(self._tell_idle())
        else:
            self._settle()

    def _settle(self) -> None:
        self._is_settled = True
        if self._settled is not None:
            self._settled.set()
            self._settled = None

    async def _tell_idle(self) -> None:
        started = self.begun
        await self._conversation.parts.idle(lambda: self.begun != started)
        if self.begun == started:
            self._settle()

    def _notify(self, turn: _Turn, outcome: Outcome, duration_s: float) -> None:
        asked = turn.run.asked if isinstance(turn.run, LoopRun) else None
        notification = _end_notification(turn.scope, outcome, asked, duration_s)
        if notification is not None:
            self._conversation.host.broadcast.notification(notification)

    async def wait_for_end(self) -> None:
        """Wait for the end of the running turn."""
        if self._active is not None and self._active.ended is not None:
            await asyncio.shield(self._active.ended)

    async def settled(self) -> Outcome:
        """Wait until nothing is running or pending.

        Raises:
            ThreadError: No turn has run yet.
        """
        if not self._is_settled:
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()
        if self.last_outcome is None:
            raise ThreadError("no turn has run yet", slug="no-active-turn", hint="Start one first.")
        return self.last_outcome

    async def stop(self, reason: str) -> None:
        """Interrupt all running tasks, and wait for their end."""
        turns = [*([self._active] if self._active is not None else []), *self._beside]
        for turn in turns:
            turn.run.interrupt(reason)
        ends = [turn.ended for turn in turns if turn.ended is not None]
        if ends:
            await asyncio.shield(asyncio.gather(*ends))

    async def close(self) -> None:
        """End all tasks and refuse new ones."""
        self._waiting.clear()
        await self.stop("interrupted")
        while self._active is not None:  # input that arrived at the very end may have started another turn
            self._waiting.clear()
            await self.stop("interrupted")
        self._record_deliveries("")
        for task in (self._idle, *self._starting):
            if task is not None:
                task.cancel()
        self._settle()
        if (warming := self._warming) is not None:
            await asyncio.wait((warming,), timeout=WARMING_PATIENCE_S)
            warming.cancel()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._starting.append(task)
        task.add_done_callback(self._starting.remove)


def _check_steerable(run: Run, turn_id: str, expected_turn_id: str | None) -> None:
    """Check that a run takes input, and that it is the turn that the sender expects. None accepts any turn.

    Raises:
        ThreadError: It is another turn (``wrong-turn``), or it takes no input (``not-steerable``).
    """
    if expected_turn_id is not None and expected_turn_id != turn_id:
        raise ThreadError(
            f"expected active turn id `{expected_turn_id[:80]}` but found `{turn_id}`",
            slug="wrong-turn",
            hint="Steer the turn that `task_started` names.",
        )
    if not run.steerable:
        raise ThreadError(
            f"cannot steer a {run.kind} turn",
            slug="not-steerable",
            hint="Wait until it ends, or interrupt it.",
            info={"active_turn_not_steerable": {"turn_kind": run.kind}},
        )


def _end_notification(
    scope: TurnScope, outcome: Outcome, asked: Sequence[str] | None, duration_s: float
) -> Notification | None:
    """Return the notification about the end of a turn, or None if no user waits for it.

    Args:
        asked: The user's input. None for a task that is not the agent's own loop.
        duration_s: The duration of the turn in seconds.
    """
    conversation = scope.conversation
    kind = _OF_ENDS.get(outcome.status)
    if kind is None or conversation.parent is not None:
        return None  # the user waits for top-level threads
    if kind == _COMPLETE and outcome.last_agent_message is None and asked is None:
        return None  # a task without the agent
    return Notification(
        type=kind,
        thread_id=conversation.id,
        turn_id=scope.turn_id,
        cwd=str(scope.settings.cwd),
        input_messages=tuple(asked or ()),
        last_assistant_message=outcome.last_agent_message,
        text=outcome.error or "",
        client=conversation.meta.originator,
        duration_s=max(duration_s, 0.0),
    )
