"""Performs what a turn commands: samples, runs calls, asks, waits, records, tells.

All of it happens on the event loop, and :meth:`TurnDriver.feed` is synchronous: an input goes into the machine and its commands
are performed at once, so there is no queue between what happens and what follows from it. Slow work (a response, a call) is a
task each, and ends in another ``feed``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from codex_framework.errors import FatalToolError, ModelError, ToolError
from codex_framework.protocol.events import ApprovalEvent
from codex_framework.protocol.events.command import ExecApprovalRequestEvent, RequestPermissionsEvent
from codex_framework.protocol.events.message import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    AgentReasoningEvent,
    AgentReasoningSectionBreakEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
)
from codex_framework.protocol.events.thread import WarningEvent
from codex_framework.protocol.events.turn import ErrorEvent, TokenCountEvent, TurnDiffEvent
from codex_framework.protocol.items import (
    CallItem,
    ContentItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    OutputItem,
    Reasoning,
    ResponseItem,
    message_text,
)
from codex_framework.protocol.policies import Decision, ReviewDecision
from codex_framework.protocol.wire import encode_json
from codex_framework.roles.deciders import RunsAlone
from codex_framework.roles.observers import Measurement
from codex_framework.roles.providers import (
    Completed,
    ItemAdded,
    ItemDone,
    ModelEvent,
    ModelRequest,
    RateLimits,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.roles.tools import ToolCall, ToolOutput
from codex_framework.turn import (
    ApprovalAnswered,
    ApprovalRequested,
    CancelSample,
    CancelTool,
    CancelWait,
    Command,
    Emit,
    Finish,
    Flush,
    Input,
    InputArrived,
    Interrupted,
    ModelCompleted,
    ModelFailed,
    ModelItem,
    Outcome,
    Record,
    Resolve,
    RunTool,
    Sample,
    Status,
    TimerFired,
    ToolFinished,
    Turn,
    Wait,
    output_for,
)

if TYPE_CHECKING:
    from codex_framework.turn_scope import TurnScope

__all__ = ["TurnDriver"]

CANCEL_PATIENCE_S = 5.0
"""Longest time a cancelled call may take to clean up before its output is written without it, in seconds."""

TAIL_PATIENCE_S = 2.0
"""How long a stream may go on after its response is complete, in seconds."""

PREVIEW_PAUSE_S = 0.5
"""Least time between two previews of input that is still being written, in seconds (Codex: 500 ms)."""

REVIEW_PATIENCE_S = 90.0
"""Longest time a reviewer may take; silence counts as "denied" (Codex: 90 s)."""


class TurnDriver:
    """One running turn.

    Args:
        scope: What the turn may reach: the thread's history, tools, model and clients.
    """

    def __init__(self, scope: TurnScope) -> None:
        self._scope = scope
        self._turn = Turn(
            parallel=self._is_parallel,
            max_retries=scope.provider.stream_max_retries,
            jitter=lambda: random.uniform(0.9, 1.1),  # noqa: S311  # spreads retries; nothing secret
        )
        self._loop = asyncio.get_running_loop()
        self._sampling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._started: dict[int, tuple[CallItem, float]] = {}
        self._waiters: dict[str, asyncio.Future[ReviewDecision]] = {}
        self._previews: dict[str, tuple[str, str, list[str]]] = {}
        self._previewed_at = 0.0
        self._next_approval = 0
        self._first_token_at: float | None = None
        self._began = time.monotonic()
        self.done: asyncio.Future[Outcome] = self._loop.create_future()

    @property
    def time_to_first_token_ms(self) -> int | None:
        """From the start of the turn to the first event of the model, in milliseconds."""
        return None if self._first_token_at is None else int((self._first_token_at - self._began) * 1000)

    def feed(self, event: Input) -> None:
        """Take one input and do what follows from it."""
        try:
            for command in self._turn.receive(event):
                self._perform(command)
        except Exception as error:  # half of a step is done, and a turn that hangs would tell nobody
            self.break_down(error)

    def leftover(self) -> tuple[InputArrived, ...]:
        """Input that came too late for this turn."""
        return self._turn.take_pending()

    def _perform(self, command: Command) -> None:
        match command:
            case Record(items):
                self._scope.record(items)
            case Emit(msg):
                self._scope.emit(msg)
            case Sample():
                self._scope.flush()
                self._sampling = self._watched(self._sample())
            case RunTool(key, item):
                # On disk before it runs: whoever finds the effect of a call must be able to find the call.
                self._scope.flush()
                self._started[key] = (item, time.monotonic())
                self._calls[key] = self._watched(self._call(key, item))
            case CancelSample():
                if self._sampling is not None:
                    self._sampling.cancel()
            case CancelTool(key):
                self._cancel_call(key)
            case Resolve(approval, decision):
                self._resolve(approval, decision)
            case Wait(seconds):
                self._timer = self._loop.call_later(seconds, self.feed, TimerFired())
            case CancelWait():
                if self._timer is not None:
                    self._timer.cancel()
            case Flush():
                self._scope.flush()
            case Finish(outcome):
                if not self.done.done():
                    self.done.set_result(outcome)
            case _:
                assert_never(command)

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose failure ends the turn: nobody waits for it, and a turn must not hang for a defect of ours."""
        task = self._loop.create_task(work)
        task.add_done_callback(self._check)
        return task

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.break_down(error)

    def break_down(self, error: BaseException) -> None:
        """End the turn because of a defect: what runs is cancelled, clients are told, nothing waits for ever."""
        if self.done.done():
            return
        for running in (self._sampling, *self._calls.values()):
            if running is not None:
                running.cancel()
        event = ErrorEvent(f"the turn broke down: {type(error).__name__}: {error}", "other")
        self.done.set_result(Outcome(Status.FAILED, error=event))
        self._scope.emit(event)

    # Sampling

    async def _sample(self) -> None:
        scope = self._scope
        began = time.time()
        started = time.monotonic()
        failure: ModelFailed | None = None
        completed: Completed | None = None
        try:
            request = await self._intercepted(scope.request())
            completed = await self._consume(scope.client.stream(request))
            if completed is None:
                failure = ModelFailed(
                    "stream disconnected before completion: stream closed before response.completed", retryable=True
                )
        except ModelError as error:
            failure = ModelFailed(_with_hint(error), error.retryable, error.retry_after_s, error.info)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a provider that breaks its contract must not leave the turn hanging
            failure = ModelFailed(f"model provider {scope.provider.id!r} failed: {type(error).__name__}: {error}")
        finally:
            scope.measure(
                Measurement(
                    kind="span",
                    name="codex.api_request",
                    time_s=began,
                    duration_s=time.monotonic() - started,
                    attributes={"model": scope.model.slug, "success": failure is None},
                )
            )
        # From here on this task has nothing left to cancel.
        self._sampling = None
        self.feed(failure or ModelCompleted(completed.end_turn if completed else None))

    async def _consume(self, stream: AsyncIterator[ModelEvent]) -> Completed | None:
        """Take the response to its end, so that its connection can be used again; returns how it was completed."""
        completed: Completed | None = None
        try:
            async with asyncio.timeout(None) as limit:
                async for event in stream:
                    if isinstance(event, Completed):
                        completed = event
                        limit.reschedule(self._loop.time() + TAIL_PATIENCE_S)
                        self._count(event)
                    else:
                        self._model_event(event)
        except Exception:  # the response is whole already: what comes after it can be missed
            if completed is None:
                raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return completed

    def _count(self, event: Completed) -> None:
        if event.usage is not None:
            self._scope.emit(TokenCountEvent(self._scope.usage(event.usage), self._scope.last_rate_limits))

    async def _intercepted(self, request: ModelRequest) -> ModelRequest:
        for interceptor in self._scope.interceptors:
            try:
                request = await interceptor.request(request)
            except Exception as error:  # deciders fail closed: without its change the request must not go out
                raise ModelError(f"interceptor {interceptor.name!r} failed: {type(error).__name__}: {error}") from error
        return request

    def _model_event(self, event: ModelEvent) -> None:
        """Take one event of the response."""
        if self._first_token_at is None:
            self._first_token_at = time.monotonic()
        scope = self._scope
        match event:
            case TextDelta(item_id, delta):
                scope.emit(AgentMessageContentDeltaEvent(scope.thread_id, scope.turn_id, item_id, delta))
            case ReasoningDelta(item_id, delta, index, raw):
                kind = ReasoningRawContentDeltaEvent if raw else ReasoningContentDeltaEvent
                scope.emit(kind(scope.thread_id, scope.turn_id, item_id, delta, index))
            case ReasoningPartAdded(item_id, index):
                scope.emit(AgentReasoningSectionBreakEvent(item_id, index))
            case ToolInputDelta(item_id, delta):
                self._preview(item_id, delta)
            case ItemAdded(item):
                self._item_added(item)
            case ItemDone(item):
                self.feed(ModelItem(item))
                self._item_done(item)
            case RateLimits(snapshot):
                scope.rate_limits(snapshot)
            case Completed():
                pass  # taken by _consume
            case _:
                assert_never(event)

    def _item_added(self, item: ResponseItem) -> None:
        turn_item = _turn_item(item)
        if turn_item is not None:
            scope = self._scope
            scope.emit(ItemStartedEvent(scope.thread_id, scope.turn_id, turn_item, _now_ms()))
        elif isinstance(item, CustomToolCall):
            self._previews[item.id or ""] = (item.call_id, item.name, [item.input] if item.input else [])

    def _item_done(self, item: ResponseItem) -> None:
        scope = self._scope
        scope.emit(RawResponseItemEvent(item))
        turn_item = _turn_item(item)
        if turn_item is None:
            return
        scope.emit(ItemCompletedEvent(scope.thread_id, scope.turn_id, turn_item, _now_ms()))
        if isinstance(item, Message):
            scope.emit(AgentMessageEvent(message_text(item), item.phase))
        elif isinstance(item, Reasoning):
            for part in item.summary:
                scope.emit(AgentReasoningEvent(str(part.get("text", ""))))

    def _preview(self, item_id: str, delta: str) -> None:
        begun = self._previews.get(item_id)
        if begun is None:
            return
        call_id, name, parts = begun
        parts.append(delta)
        now = time.monotonic()
        if now - self._previewed_at < PREVIEW_PAUSE_S:
            return
        registered = self._scope.tools.get(name)
        if registered is None or registered.preview is None:
            return
        with contextlib.suppress(Exception):  # a preview is a courtesy: whatever is wrong shows when the call is run
            event = registered.preview(call_id, "".join(parts))
            if event is not None:
                self._previewed_at = now
                self._scope.emit(event)

    # Calls

    def _is_parallel(self, item: CallItem) -> bool:
        registered = self._scope.tools.get(_call_name(item))
        if registered is None or not registered.parallel:
            return False
        watchful = [one for one in self._scope.interceptors if isinstance(one, RunsAlone)]
        return not watchful or not any(one.alone(_tool_call(item)) for one in watchful)

    async def _call(self, key: int, item: CallItem) -> None:
        call = _tool_call(item)
        began = time.time()
        started = time.monotonic()
        fatal: str | None = None
        try:
            output = await self._outcome(call)
        except asyncio.CancelledError:
            output = ToolOutput(_aborted_text(call.name, time.monotonic() - started), success=False)
        except FatalToolError as error:
            output, fatal = ToolOutput(str(error), success=False), str(error)
        self._finished(key, item, output, fatal)
        self._scope.measure(
            Measurement(
                kind="span",
                name="codex.tool.call",
                time_s=began,
                duration_s=time.monotonic() - started,
                attributes={"tool_name": call.name, "call_id": call.call_id, "success": output.success},
            )
        )

    async def _outcome(self, call: ToolCall) -> ToolOutput:
        """Run a call through the interceptors; whatever goes wrong becomes an output for the model."""
        name = call.name
        try:
            for interceptor in self._scope.interceptors:
                call = _checked(await interceptor.before_tool(call), ToolCall, f"interceptor {interceptor.name!r}")
            output = await self._run(call)
            for interceptor in self._scope.interceptors:
                output = await interceptor.after_tool(call, output)
                output = _checked(output, ToolOutput, f"interceptor {interceptor.name!r}")
        except ToolError as error:
            return ToolOutput(str(error), success=False)
        except FatalToolError:
            raise
        except (Exception, SystemExit) as error:  # what is broken is the model's news, neither the turn's end nor ours
            return ToolOutput(f"{name} failed: {type(error).__name__}: {error}", success=False)
        return output

    async def _run(self, call: ToolCall) -> ToolOutput:
        registered = self._scope.tools.get(call.name)
        if registered is None:
            kind = "custom tool call" if call.kind == "custom" else "call"
            raise ToolError(f"unsupported {kind}: {call.name}")
        result: object = await registered.tool.run(call, self._scope.context(call, self.ask))
        output = ToolOutput(result) if isinstance(result, str) else result
        if not isinstance(output, ToolOutput):
            raise ToolError(f"{call.name} failed: it returned {type(output).__name__}, not text or a ToolOutput")
        if output.truncate:
            output = output.evolve(content=self._scope.limited(output.content))
        return output

    def _finished(self, key: int, item: CallItem, output: ToolOutput, fatal: str | None = None) -> None:
        if self._started.pop(key, None) is None:
            return
        self._calls.pop(key, None)
        self.feed(ToolFinished(key, _output_item(item, output.content), fatal))
        diff = self._scope.diff.take()
        if diff is not None:
            self._scope.emit(TurnDiffEvent(diff))

    def _cancel_call(self, key: int) -> None:
        task = self._calls.get(key)
        if task is None:
            return
        task.cancel()
        # A task that is cancelled before its first step never gets to answer for itself.
        task.add_done_callback(lambda _: self._answer_for(key))
        self._loop.call_later(CANCEL_PATIENCE_S, self._abandon, key)

    def _answer_for(self, key: int) -> None:
        begun = self._started.get(key)
        if begun is not None:
            item, started = begun
            text = _aborted_text(_call_name(item), time.monotonic() - started)
            self._finished(key, item, ToolOutput(text, success=False))

    def _abandon(self, key: int) -> None:
        """Answer for a call that does not end although it was cancelled."""
        begun = self._started.get(key)
        if begun is None:
            return
        item, started = begun
        name = _call_name(item)
        self._scope.emit(WarningEvent(f"tool {name!r} did not stop within {CANCEL_PATIENCE_S:.0f} s and was abandoned"))
        self._finished(key, item, ToolOutput(_aborted_text(name, time.monotonic() - started), success=False))

    # Approvals

    async def ask(self, event: ApprovalEvent) -> ReviewDecision:
        """Get an answer: from the first reviewer that has one, else from the thread's clients."""
        # More permissions are for people to give: a reviewer judges single deeds.
        reviewers = () if isinstance(event, RequestPermissionsEvent) else self._scope.reviewers
        facts = self._scope.review_facts() if reviewers else None
        for reviewer in reviewers:
            assert facts is not None
            assert not isinstance(event, RequestPermissionsEvent)
            try:
                async with asyncio.timeout(REVIEW_PATIENCE_S):
                    decision = await reviewer.review(event, facts)
                    if decision is not None:
                        return self._reviewed(_checked(decision, ReviewDecision, f"reviewer {reviewer.name!r}"))
            except TimeoutError:
                self._scope.emit(WarningEvent(f"approval reviewer {reviewer.name!r} did not answer in time; denied"))
                return ReviewDecision(Decision.TIMED_OUT)
            except Exception as error:  # deciders fail closed
                self._scope.emit(
                    WarningEvent(f"approval reviewer {reviewer.name!r} failed: {type(error).__name__}: {error}; denied")
                )
                return ReviewDecision(Decision.DENIED)
        approval, event = self._named(event)
        waiter: asyncio.Future[ReviewDecision] = self._loop.create_future()
        self._waiters[approval] = waiter
        try:
            self.feed(ApprovalRequested(approval, event))
            self._scope.approval_pending(event)
            return await waiter
        finally:
            self._waiters.pop(approval, None)

    def _reviewed(self, decision: ReviewDecision) -> ReviewDecision:
        """A reviewer's decision; one that aborts ends the turn as a person's would."""
        if decision.decision is Decision.ABORT:
            if decision.message:
                self._scope.emit(WarningEvent(decision.message))
            self._loop.call_soon(self.feed, Interrupted("interrupted"))
        return decision

    def _named(self, event: ApprovalEvent) -> tuple[str, ApprovalEvent]:
        """The id an answer has to name: the call's, or one of its own where the call has asked already."""
        if event.call_id not in self._waiters:
            return event.call_id, event
        self._next_approval += 1
        approval = f"{event.call_id}-{self._next_approval}"
        if isinstance(event, ExecApprovalRequestEvent):
            return approval, event.evolve(approval_id=approval)
        return approval, event.evolve(call_id=approval)

    def answer(self, approval: str, decision: ReviewDecision) -> None:
        """Take a client's answer. One that nobody waits for changes nothing."""
        self.feed(ApprovalAnswered(approval, decision))

    def _resolve(self, approval: str, decision: ReviewDecision) -> None:
        waiter = self._waiters.get(approval)
        if waiter is not None and not waiter.done():
            waiter.set_result(decision)


T = TypeVar("T")


def _checked(value: object, kind: type[T], who: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{who} returned {type(value).__name__} instead of {kind.__name__}")
    return value


Ask = Callable[[ApprovalEvent], Awaitable[ReviewDecision]]


def _with_hint(error: ModelError) -> str:
    return f"{error}. {error.hint}" if error.hint else str(error)


def _call_name(item: CallItem) -> str:
    match item:
        case LocalShellCall():
            return "local_shell"
        case FunctionCall(namespace=str(namespace)) if namespace:
            return f"{namespace}{item.name}"
        case _:
            return item.name


def _tool_call(item: CallItem) -> ToolCall:
    name = _call_name(item)
    match item:
        case FunctionCall():
            return ToolCall(item.call_id, name, item.arguments, "function")
        case CustomToolCall():
            return ToolCall(item.call_id, name, item.input, "custom")
        case LocalShellCall():
            return ToolCall(item.call_id or "", name, encode_json(item.action), "local_shell")
        case _:
            assert_never(item)


def _output_item(item: CallItem, content: str | tuple[ContentItem, ...]) -> OutputItem:
    if isinstance(content, str):
        return output_for(item, content)
    if isinstance(item, CustomToolCall):
        return CustomToolCallOutput(call_id=item.call_id, output=content)
    return FunctionCallOutput(call_id=item.call_id or "", output=content)


_SHELL_NAMES = frozenset({"shell", "shell_command", "container.exec", "local_shell", "exec_command", "write_stdin"})


def _aborted_text(name: str, seconds: float) -> str:
    """What the model reads of a call that was cut short (Codex's two forms)."""
    if name in _SHELL_NAMES:
        return f"Wall time: {seconds:.1f} seconds\naborted by user"
    return f"aborted by user after {seconds:.1f}s"


def _turn_item(item: ResponseItem) -> dict[str, Any] | None:
    """The item as clients see it (wire: ``TurnItem``), or None for what is not shown as one."""
    match item:
        case Message(role="assistant"):
            shown: dict[str, Any] = {
                "type": "AgentMessage",
                "id": item.id or "",
                "content": [{"type": "Text", "text": message_text(item)}],
            }
            if item.phase is not None:
                shown["phase"] = item.phase
            return shown
        case Reasoning():
            return {
                "type": "Reasoning",
                "id": item.id or "",
                "summary_text": [str(part.get("text", "")) for part in item.summary],
                "raw_content": [str(part.get("text", "")) for part in item.content or ()],
            }
        case _:
            return None


def _now_ms() -> int:
    return int(time.time() * 1000)
