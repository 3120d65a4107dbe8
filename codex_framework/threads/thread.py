"""One conversation, for its clients: submit, events, answers, run, stream, interrupt, shutdown.

Clients have no access to turns. The parts of the thread do the work: ``ops`` handles submissions, ``tasks`` runs turns,
``journal`` emits and records events, and ``requests`` waits for answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    EventMsg,
    Request,
    SessionConfiguredEvent,
    ShutdownCompleteEvent,
    TokenUsage,
    TurnAbortedEvent,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.ops import Op, UserInputItem, UserInputOp
from codex_framework.contract.roles.agents import RunResult
from codex_framework.contract.roles.outcomes import Outcome
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.scopes import Trace
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import ThreadMeta
from codex_framework.contract.roles.threads import Delivery
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.delivery import make_delivery
from codex_framework.threads.faults import error_message
from codex_framework.threads.history import History
from codex_framework.threads.ids import new_id
from codex_framework.threads.ops import Ops
from codex_framework.threads.output import run_result
from codex_framework.threads.plugin_thread import PluginThread
from codex_framework.threads.settings_changes import first_event
from codex_framework.threads.subscription import Subscription
from codex_framework.threads.tasks import RegularInput, Tasks
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.user_input import as_items, make_input, read_input

__all__ = ["Answerer", "Thread"]

Answerer = Callable[[Request[Any]], Awaitable[object | None]]
"""Answers requests in a program. None leaves a request to other listeners, and finally to ``unattended()``."""

_UNLIMITED = 1 << 62
"""The program that runs a turn reads its events itself, so no event must be dropped."""


class Thread:
    """One conversation. Created by ``Kernel.start_thread`` and ``Kernel.resume_thread``.

    Args:
        past: The events of the record.
    """

    def __init__(
        self, conversation: Conversation, *, past: Sequence[EventMsg] = (), warnings: Sequence[str] = ()
    ) -> None:
        self._conversation = conversation
        self._journal = conversation.journal
        self._tasks = Tasks(conversation, new_id)
        self._ops = Ops(conversation, self._tasks, conversation.host.registry.ops, self.shutdown)
        self._contexts: dict[str, PluginThread] = {}
        self._ending: asyncio.Task[None] | None = None
        self._closed = False
        conversation.connect(self._context)
        self._journal.open(first_event(conversation, past), warnings)
        conversation.parts.start()

    # What the thread is

    @property
    def id(self) -> str:
        """The thread's id (a UUID)."""
        return self._conversation.id

    @property
    def meta(self) -> ThreadMeta:
        """The thread's metadata."""
        return self._conversation.meta

    @property
    def settings(self) -> Settings:
        """The settings of the next turn."""
        return self._conversation.settings

    @property
    def history(self) -> History:
        """The conversation so far. Do not change it."""
        return self._journal.history

    @property
    def conversation(self) -> Conversation:
        """The parts of the thread, for the kernel and for tests."""
        return self._conversation

    @property
    def total_usage(self) -> TokenUsage:
        """Tokens of all turns, without the tokens of children, as in the event ``token_count``."""
        return self._conversation.total_usage

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the thread and its children so far, earlier runs included."""
        return self._conversation.total_usage + self._conversation.budget.children

    @property
    def rollout_path(self) -> str | None:
        """The file of the thread, which may not exist yet. None if the thread is not stored."""
        return self._journal.path

    @property
    def running(self) -> bool:
        """Whether a turn is running."""
        return self._tasks.running

    @property
    def turn_id(self) -> str | None:
        """The id of the running turn. None while no turn runs."""
        turn = self._conversation.turn
        return None if turn is None else turn.turn_id

    @property
    def status(self) -> Literal["idle", "running", "waiting", "closed"]:
        """``waiting`` means that a turn runs and a request is open."""
        if self._closed:
            return "closed"
        if not self.running:
            return "idle"
        return "waiting" if self.open_requests else "running"

    # What clients call

    @property
    def open_requests(self) -> Sequence[Request[Any]]:
        """The requests that wait for an answer, including those of children."""
        return self._conversation.requests.open

    def events(
        self, only: Sequence[type[EventMsg]] | None = None, *, limit: int = 10_000, answers: bool = True
    ) -> Subscription:
        """Listen to the thread: ``session_configured`` first, then all later events. See ``ThreadClient.events``."""
        return self._journal.subscribe(limit=limit, answers=answers, only=None if only is None else tuple(only))

    async def submit(self, op: Op, *, id: str | None = None, trace: Trace | None = None) -> str:  # noqa: A002
        """Submit an op and return its id.

        The effects of the op are reported as events that carry this id; a refused op causes an ``error`` event with it. Input for
        a running turn becomes a part of that turn, so its events carry the id of the turn.

        Raises:
            ThreadError: The thread was shut down.
        """
        self._check_open()
        submission = id or new_id()
        await self._ops.submit(submission, op, trace)
        return submission

    def deliver(
        self,
        items: Sequence[ResponseItem],
        when: Delivery = "join",
        *,
        trigger: bool = False,
        event: EventMsg | None = None,
    ) -> None:
        """Add items to the conversation at the next suitable point. See ``ThreadClient.deliver``.

        Raises:
            ThreadError: The thread was shut down.
        """
        self._check_open()
        delivery = make_delivery(items, when, event)
        turn = self._conversation.turn
        by = Actor(role="client")
        self._conversation.trail.record_addition("delivery", by, delivery.items, None if turn is None else turn.turn_id)
        self._tasks.deliver(delivery, trigger=trigger)

    def start(self, prompt: str | Sequence[UserInputItem]) -> str:
        """Start a turn and return its id. Follow it with :meth:`events` and :meth:`settled`.

        Raises:
            ThreadError: The input cannot be used, or a turn is running.
        """
        self._check_free()
        first = make_input(as_items(prompt), self.settings.cwd)
        turn_id = new_id()
        self._ops.start(turn_id, self._regular_input(first, None))
        return turn_id

    def steer(self, prompt: str | Sequence[UserInputItem] | UserInputOp, *, expected_turn_id: str | None = None) -> str:
        """Give input to the running turn, and return its id. See ``ThreadClient.steer``."""
        self._check_open()
        given = prompt if isinstance(prompt, UserInputOp) else UserInputOp(as_items(prompt))
        return self._tasks.steer(read_input(given, self._conversation), expected_turn_id)

    def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the thread or of a child. Return whether it was open. The first answer is used.

        Raises:
            ThreadError: The answer is not of the request's ``answer_type``.
        """
        return self._conversation.requests.answer(request_id, answer)

    def decline(self, request_id: str) -> None:
        """Close a request of the thread or of a child as unanswerable. A request that is not open is unchanged."""
        self._conversation.requests.leave(request_id)

    async def stream(
        self,
        prompt: str | Sequence[UserInputItem],
        *,
        output_schema: Mapping[str, Any] | None = None,
        answers: bool = True,
    ) -> AsyncIterator[EventMsg]:
        """Start a turn and yield its events until ``task_complete`` or ``turn_aborted``.

        Args:
            output_schema: A JSON Schema that the final message must follow.
            answers: As for :meth:`events`.

        Raises:
            ThreadError: The input cannot be used, or a turn is running.
        """
        self._check_free()
        first = make_input(as_items(prompt), self.settings.cwd)

        async def start() -> str:
            turn_id = new_id()
            self._ops.start(turn_id, self._regular_input(first, output_schema))
            return turn_id

        async for msg in _stream_turn(self.events(limit=_UNLIMITED, answers=answers), start, self._tasks):
            yield msg

    def follow(self, op: Op, *, answers: bool = True) -> AsyncIterator[EventMsg]:
        """Submit an op that starts a turn, and yield the events to the end of the turn, or to the refusal of the op.

        Args:
            answers: As for :meth:`events`.

        Raises:
            ThreadError: The thread was shut down.
        """
        return _stream_turn(self.events(limit=_UNLIMITED, answers=answers), lambda: self.submit(op), self._tasks)

    def _regular_input(self, first: InputArrived, schema: Mapping[str, Any] | None) -> RegularInput:
        output = self._conversation.output
        return RegularInput(first, schema=schema or (None if output is None else output.schema))

    async def run(
        self,
        prompt: str | Sequence[UserInputItem],
        *,
        output_schema: Mapping[str, Any] | None = None,
        on_request: Answerer | None = None,
    ) -> RunResult[Any]:
        """Run one turn to its end. Raises the same errors as :meth:`stream`; a failed turn is a result, not an exception.

        Args:
            on_request: Answers requests. Without it and without another listener, requests get their unattended answer; approvals
                are denied.
        """
        events: list[EventMsg] = []
        answering: set[asyncio.Task[None]] = set()
        async for msg in self.stream(prompt, output_schema=output_schema, answers=on_request is not None):
            events.append(msg)
            if isinstance(msg, Request) and on_request is not None:
                task = asyncio.ensure_future(self._answer_with(on_request, msg))
                answering.add(task)
                task.add_done_callback(answering.discard)
        for task in answering:
            task.cancel()
        outcome = self._tasks.last_outcome
        assert outcome is not None
        error = next((msg.message for msg in reversed(events) if isinstance(msg, ErrorEvent)), None)
        return run_result(self._conversation.output, outcome.evolve(error=outcome.error or error), tuple(events))

    async def _answer_with(self, on_request: Answerer, request: Request[Any]) -> None:
        try:
            answer = await on_request(request)
            if answer is not None:
                self.answer(request.request_id, answer)
                return
        except Exception as error:  # an error of the program, and possibly nobody else can answer
            self.warn(f"on_request failed: {error_message(error)}")
        if self._journal.answering(request) == 1:
            self._conversation.requests.leave(request.request_id)

    async def settled(self) -> Outcome:
        """Wait until nothing is running or pending, and return the outcome of the last turn.

        Raises:
            ThreadError: No turn has run yet.
        """
        return await self._tasks.settled()

    async def interrupt(self, reason: str = "interrupted") -> None:
        """Interrupt running work and wait for its end. Background terminals keep running."""
        await self._tasks.stop(reason)

    async def shutdown(self) -> None:
        """Stop all work and save the thread. Safe to call twice, even concurrently: all callers wait for the same end."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._shut_down())
        await asyncio.shield(self._ending)

    def save(self) -> None:
        """Write the record to disk. The thread can then be resumed, if a turn has begun.

        It is also written before each request to the model, before each call of a tool, and at the end of each turn.
        """
        self._journal.flush("")

    def warn(self, text: str, slug: str = "warning") -> None:
        """Send a warning outside of turns to clients. It is kept for the first listener if nobody listens yet."""
        self._journal.warn(text, slug)

    def _check_open(self) -> None:
        if self._ending is not None:
            raise ThreadError(f"thread {self.id} is shut down", slug="shut-down", hint="Resume it in a new thread.")

    def _check_free(self) -> None:
        self._check_open()
        if self.running:
            raise ThreadError(
                "a turn is already running",
                slug="busy",
                hint="Steer it with steer(...), or wait until it ends.",
            )

    async def _shut_down(self) -> None:
        await self._ops.close()
        await self._tasks.close()
        self._closed = True
        self._conversation.requests.close()
        for problem in await self._conversation.aclose():
            self._journal.emit("", WarningEvent(problem, slug="plugin-failed"))
        self._journal.close()
        self._journal.emit("", ShutdownCompleteEvent())
        self._journal.end()
        self._conversation.host.forget(self.id)

    def _context(self, plugin: str) -> PluginThread:
        context = self._contexts.get(plugin)
        if context is None:
            context = self._contexts[plugin] = PluginThread(self._conversation, self._tasks, self._ops, plugin)
        return context


async def _stream_turn(
    subscription: Subscription, start: Callable[[], Awaitable[str]], tasks: Tasks
) -> AsyncIterator[EventMsg]:
    """Start a turn and yield the events of the thread to the turn's end. If no turn starts, yield the pending events.

    Args:
        start: Starts the turn and returns its id.
    """
    before = tasks.begun
    try:
        turn_id = await start()
        if tasks.begun == before and not tasks.pending:
            subscription.end()  # no turn comes; the queue has the refusal, if there was one
        head = True
        async for event in subscription:
            if head and isinstance(event.msg, SessionConfiguredEvent):
                head = False
                continue
            yield event.msg
            if event.id == turn_id and isinstance(event.msg, (TurnCompleteEvent, TurnAbortedEvent)):
                return
    finally:
        subscription.close()
