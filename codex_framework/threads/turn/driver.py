"""Runs the commands of a turn: samples, runs calls, waits, records, emits events.

Everything happens on the event loop, and :meth:`TurnDriver.feed` is synchronous: it passes an input to the machine and runs the
resulting commands immediately, so there is no queue between an event and its consequences. Slow work (a response, a call, a
compaction) runs as a task, which ends with another ``feed``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, assert_never

from codex_framework.contract.errors import (
    INVALID_IMAGE,
    CodexError,
    FatalToolError,
    InputRefused,
    ModelError,
    StopTurn,
)
from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import ErrorEvent, TurnDiffEvent
from codex_framework.contract.protocol.items import AnyCall
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.threads.journal import sentence
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.turn.calls import SEARCH_TOOL, aborted_text, call_name, output_item, tool_call
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
from codex_framework.threads.turn.compaction import ContextPlace
from codex_framework.threads.turn.inputs import (
    Admitted,
    Compacted,
    CompactionFailed,
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
from codex_framework.threads.turn.interception import Interception, notes
from codex_framework.threads.turn.machine import OVERFLOW, Turn
from codex_framework.threads.turn.model_requests import drop_refused_images, next_request
from codex_framework.threads.turn.model_stream import delay_of, info_of, jitter
from codex_framework.threads.turn.sampling import Sampling
from codex_framework.threads.turn.turn_context import TurnContexts

if TYPE_CHECKING:
    from codex_framework.threads.turn.call_runner import CallRunner

__all__ = ["TurnDriver"]

CANCEL_PATIENCE_S = 5.0
"""How long a cancelled call may clean up before its output is written without it, in seconds."""


class TurnDriver:
    """One running loop of model and tools.

    Args:
        contexts: The contexts of the turn.
        refused: Called with input that an interceptor refused.
        marks: Whether the end of the loop is the end of the turn. False for a loop within a task.
    """

    def __init__(
        self, contexts: TurnContexts, *, refused: Callable[[InputArrived, str], None], marks: bool = True
    ) -> None:
        scope = contexts.scope
        self._contexts = contexts
        self._scope = scope
        self._refused = refused
        self._interception = Interception(contexts)
        self._telemetry = scope.reports.telemetry
        self._answer = self._telemetry.measure_calls(self._answer_call, self._redact)
        self._turn = Turn(
            parallel=lambda item: self.calls.is_parallel(item),  # noqa: PLW0108  # made for the first call
            searches=lambda: scope.router.find(SEARCH_TOOL) is not None,
            max_retries=scope.provider.stream_max_retries,
            jitter=jitter,
            guarded=bool(scope.guards.input),
            compacts=scope.compaction.compactor is not None,
            due=lambda: scope.compaction.reason(scope.facts, first=not scope.sampled),
            checks_stop=self._interception.checks_stop,
            limit=scope.conversation.budget.reached_limit,
            marks=marks,
            tells_interrupts=scope.conversation.tells_interrupts,
        )
        self._loop = asyncio.get_running_loop()
        self._sampling: asyncio.Task[None] | None = None
        self._between: asyncio.Task[None] | None = None
        self._admissions: dict[int, tuple[InputArrived, asyncio.Task[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._started: dict[int, tuple[AnyCall, float]] = {}
        self._first_token_at: float | None = None
        self._began = time.monotonic()
        self.done: asyncio.Future[Outcome] = self._loop.create_future()

    @cached_property
    def calls(self) -> CallRunner:
        """The runner of the model's calls."""
        from codex_framework.threads.turn.call_runner import CallRunner

        return CallRunner(
            self._contexts,
            self._interception,
            interrupt=lambda: self.feed(Interrupted()),
            stop=self.stop,
        )

    def _redact(self, text: str) -> str:
        return self.calls.redaction.redact(text)

    @property
    def time_to_first_token_ms(self) -> int | None:
        """The time from the start of the turn to the first event of the model, in milliseconds."""
        return None if self._first_token_at is None else int((self._first_token_at - self._began) * 1000)

    @property
    def turn(self) -> Turn:
        """The machine, for the input and deliveries left over at its end."""
        return self._turn

    def begin(self) -> None:
        """Start without an input."""
        self._perform_all(self._turn.begin)

    def feed(self, event: Input) -> None:
        """Pass one input to the machine and run the resulting commands."""
        if isinstance(event, InputArrived):
            self._contexts.note_input(waits=True)
        self._perform_all(self._turn.receive, event)

    def stop(self, message: str) -> None:
        """End the turn as a normal stop, after the current step."""
        self._later(StopRequested(message))

    def interrupt(self, reason: str) -> None:
        """Interrupt the turn: refuse further requests and cancel all running work."""
        self._scope.conversation.requests.abort(self._scope.turn_id)
        self.feed(Interrupted(reason))

    def _perform_all(self, step: Callable[..., list[Command]], *event: Input) -> None:
        try:
            for command in step(*event):
                self._perform(command)
        except Exception as error:  # the step is half done, and a hanging turn would not be noticed
            self.break_down(error)

    def _later(self, event: Input) -> None:
        """Feed an input after the current step."""
        self._loop.call_soon(self.feed, event)

    def _perform(self, command: Command) -> None:  # noqa: C901  # one line for each command
        match command:
            case Record(items):
                self._scope.record(items)
            case Emit(msg):
                if isinstance(msg, ErrorEvent) and msg.codex_error_info == OVERFLOW:
                    self._scope.report_full_window()
                self._scope.emit(msg)
                if self._telemetry.span.place is not None and isinstance(msg, UserMessageEvent):
                    self._telemetry.report_prompt(msg, self._redact(msg.message))
            case Sample():
                if not self._turn.has_input:
                    self._contexts.note_input(waits=False)
                self._scope.flush_before_effects()
                self._sampling = self._start_task(self._sample())
            case RunTool(key, item):
                self._scope.flush_before_effects()
                self._started[key] = (item, time.monotonic())
                self._calls[key] = self._start_task(self._run_call(key, item, self._scope.router))
            case CancelSample():
                if self._sampling is not None:
                    self._sampling.cancel()
            case CancelTool(key):
                self._cancel_call(key)
            case Admit(key, arrived):
                if self._interception.takes(arrived, steered=key > 0):
                    self._admissions[key] = (arrived, self._start_task(self._admit(key, arrived)))
                else:
                    self.feed(Admitted(key, arrived))
            case Compact(reason):
                self._between = self._start_task(self._compact(reason))
            case Replace(edit):
                place: ContextPlace = "last_words" if self._scope.sampled else "end"
                for text in self._scope.compaction.complete(edit, self._scope.facts_at(), place):
                    self._scope.emit(WarningEvent(text, slug="compacted"))
            case CheckStop(message):
                self._between = self._start_task(self._check_stop(message))
            case CancelCompact() | CancelStop():
                if self._between is not None:
                    self._between.cancel()
            case Wait(seconds):
                self._timer = self._loop.call_later(seconds, self.feed, TimerFired())
            case CancelWait():
                if self._timer is not None:
                    self._timer.cancel()
            case Flush():
                self._scope.flush()
            case Finish(outcome):
                self._end(outcome)
            case _:
                assert_never(command)

    def _end(self, outcome: Outcome) -> None:
        for key in self._turn.take_undecided():
            arrived, admission = self._admissions[key]
            admission.cancel()
            self._refused(arrived, "the turn ended before the input was accepted")
        if not self.done.done():
            self.done.set_result(outcome)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task whose failure ends the turn. Nobody awaits it, and a defect of ours must not make the turn hang."""
        task = self._loop.create_task(work, context=self._telemetry.task_context())
        task.add_done_callback(self._check_task)
        return task

    def _check_task(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            if not task.cancelling():
                self.break_down(asyncio.CancelledError("it was not cancelled by the turn"))
        elif (error := task.exception()) is not None:
            self.break_down(error)

    def break_down(self, error: BaseException) -> None:
        """End the turn because of a defect: cancel running work and report it to clients, so that nothing waits forever."""
        if self.done.done():
            return
        for running in (self._sampling, self._between, *self._calls.values()):
            if running is not None:
                running.cancel()
        text = f"the turn failed: {sentence(error)}"
        failure = error if isinstance(error, CodexError) else None  # such as a recorder that cannot go on
        self.done.set_result(Outcome(status=Status.FAILED, error=text, failure=failure))
        self._scope.emit(ErrorEvent(text, "other", "error" if failure is None else failure.slug))

    # Sampling

    async def _sample(self) -> None:
        sampling = Sampling(self._scope, self._interception, lambda item, shown: self.feed(ModelItem(item, shown)))
        try:
            event = await self._exchange(sampling)
        finally:
            self._first_token_at = self._first_token_at or sampling.first_token_at
        self._sampling = None  # from here on there is nothing to cancel in this task
        self.feed(event)

    async def _exchange(self, sampling: Sampling) -> ModelCompleted | ModelFailed | StopRequested:
        """Send a request and read the response. Return how it ended."""
        try:
            await self._before_sample()
            completed = await sampling.run(next_request(self._scope))
        except ModelError as error:
            starts_over = drop_refused_images(self._scope) if error.slug == INVALID_IMAGE else error.starts_over
            text = _with_hint(error)
            return ModelFailed(text, error.retryable, delay_of(error), info_of(error), starts_over, error)
        except StopTurn as error:
            return StopRequested(str(error))
        except CodexError as error:  # a required component has not started
            return ModelFailed(_with_hint(error), error=error)
        return ModelCompleted(completed.end_turn)

    async def _before_sample(self) -> None:
        """Wait for the components of the thread, and set up the first sample of a turn.

        Raises:
            PluginError: A required component has not started.
        """
        scope, parts = self._scope, self._scope.conversation.parts
        if not parts.ready:
            await parts.wait_ready()
        scope.refresh_tools()
        if not scope.sampled:
            scope.warn_of_unmatched()
            parts.begin_turn(self._contexts)
        scope.sampled = True

    # Between two samples

    async def _admit(self, key: int, arrived: InputArrived) -> None:
        stop: StopTurn | None = None
        try:
            result: Admitted | Refused = Admitted(key, await self._interception.input(arrived, steered=key > 0))
        except InputRefused as error:
            result = Refused(key, notes(error.context))
            self._refused(arrived, str(error))
        except StopTurn as error:
            result, stop = Refused(key), error
        self._admissions.pop(key, None)
        self.feed(result)
        if stop is not None:
            self.feed(StopRequested(str(stop)))

    async def _compact(self, reason: str) -> None:
        event: Compacted | CompactionFailed | StopRequested
        try:
            event = Compacted(await self._interception.compact(reason))
        except StopTurn as error:
            event = StopRequested(str(error))
        except CodexError as error:
            too_long = isinstance(error, ModelError) and error.info == OVERFLOW
            failure = ModelFailed(_with_hint(error), info=OVERFLOW, error=error) if too_long else None
            event = CompactionFailed(f"the conversation could not be compacted: {_with_hint(error)}", failure)
        self._between = None
        self.feed(event)

    async def _check_stop(self, message: str | None) -> None:
        outcome = Outcome(status=Status.COMPLETED, last_agent_message=message)
        continuation = await self._interception.stop(outcome)
        if continuation is not None:
            self._scope.continuations += 1
        self._between = None
        self.feed(StopChecked(continuation))

    # Calls

    async def _run_call(self, key: int, item: AnyCall, router: ToolRouter) -> None:
        self._scope.calls += 1
        output, fatal = await self._answer(tool_call(item), router)
        self._finish_call(key, item, output, fatal)

    async def _answer_call(self, call: ToolCall, router: ToolRouter) -> tuple[ToolOutput, str | None]:
        """Run a call. Return its output, and why the turn must end if it must."""
        started = time.monotonic()
        try:
            return await self.calls.run(call, router), None
        except asyncio.CancelledError:
            return ToolOutput(aborted_text(call.name, time.monotonic() - started), success=False), None
        except FatalToolError as error:
            return ToolOutput(str(error), success=False), str(error)

    def _finish_call(self, key: int, item: AnyCall, output: ToolOutput, fatal: str | None = None) -> None:
        if self._started.pop(key, None) is None:
            return
        self._calls.pop(key, None)
        self.feed(ToolFinished(key, output_item(item, output.content), fatal))
        diff = self._scope.diff.take()
        if diff is not None:
            self._scope.emit(TurnDiffEvent(diff))

    def _cancel_call(self, key: int) -> None:
        task = self._calls.get(key)
        if task is None:
            return
        task.cancel()
        # A task that is cancelled before its first step cannot report its own end.
        task.add_done_callback(lambda _: self._answer_with_abort(key))
        self._loop.call_later(CANCEL_PATIENCE_S, self._abandon, key)

    def _answer_with_abort(self, key: int) -> None:
        if key in self._started:
            item, started = self._started[key]
            text = aborted_text(call_name(item), time.monotonic() - started)
            self._finish_call(key, item, ToolOutput(text, success=False))

    def _abandon(self, key: int) -> None:
        """Write the output of a call that does not end although it was cancelled."""
        if key in self._started:
            name = call_name(self._started[key][0])
            text = f"tool {name!r} did not stop within {CANCEL_PATIENCE_S:.0f} s and was abandoned"
            self._scope.emit(WarningEvent(text, slug="abandoned"))
            self._answer_with_abort(key)


def _with_hint(error: CodexError) -> str:
    return f"{error}. {error.hint}" if error.hint else str(error)
