"""A worker runs jobs on a kernel. All launchers use it, so a session goes on in the same way wherever it runs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.commands.confinement import choose
from codex_framework.contract.errors import CodexError, SandboxError, ThreadError, described
from codex_framework.contract.permissions.file_access import FileAccess, Protection
from codex_framework.contract.protocol.events import (
    Event,
    ExecCommandEndEvent,
    TokenCountEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
)
from codex_framework.contract.protocol.ops import TextInput, UserInputOp
from codex_framework.contract.protocol.permissions import DisabledPermissions, ExternalPermissions
from codex_framework.contract.protocol.wire import encode_json, to_wire
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, LaunchError, Workplace
from codex_framework.contract.roles.outcomes import Limits, Outcome, Status, Usage
from codex_framework.contract.roles.scopes import Trace
from codex_framework.contract.roles.stores import EventEntry, StoredThread
from codex_lib_launch.encoding import decode, digest_of, failure_of, read_answer_json, thread_id_of

if TYPE_CHECKING:
    from codex_framework import Kernel, Thread
    from codex_framework.config import Config

__all__ = [
    "CONTINUE",
    "CONTINUE_LATER",
    "Listener",
    "Session",
    "Worker",
    "create_kernel",
    "load_plugins",
    "worker_name",
]

Listener = Callable[[Event], Awaitable[None] | None]
"""Called with an event. Until what it returns is done, the listener gets no further event."""

CONTINUE = (
    "The process that ran this session was lost, and another one continues it. A call whose output is `aborted` may or may not have"
    " taken effect: check that before you repeat it. Continue the task."
)
"""The input of the turn that continues a session whose worker was lost."""

CONTINUE_LATER = "Your last turn ended before the task was done. Continue the task."
"""The input of the turn that continues a session after a failure, an interruption or a limit."""

_LOST = "aborted"
"""The output of a call whose output was lost."""

_IN_USE = "session-in-use"
_UNREADABLE = "thread-unreadable"
_SOURCE = "job"
_MOST_LOSSES = 5
"""Workers that a session may lose without any progress. After that, the session itself probably ends them."""

_MANY_TURNS = 1_000_000

_PATIENCES_S = {_IN_USE: 90.0, _UNREADABLE: 1.0}
"""How long a session may still be held by a worker that was lost (three leases of the PostgreSQL store, with its default), and how
long another worker may take to write the head of a record that it has just created."""

_PAUSE_S = 0.25

_LAST_EVENTS_S = 5.0
"""The time in which a listener can take the last events of a session."""


def worker_name() -> str:
    """Return the name of this process for people: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _configuration(workplace: Workplace) -> tuple[Config, Mapping[str, str]]:
    from codex_framework.config import load_config

    environ = {**os.environ, **workplace.environ}
    config = load_config(cwd=workplace.cwd, environ=environ, profile=workplace.profile, overrides=workplace.overrides)
    return config, environ


async def create_kernel(workplace: Workplace) -> Kernel:
    """Return a new kernel for the sessions of a workplace. The caller closes it.

    Raises:
        CodexError: The configuration is invalid, or a required component did not start.
    """
    from codex_framework import Kernel

    config, environ = _configuration(workplace)
    return await Kernel.create(config, environ=environ, plugins=[Path(file) for file in workplace.plugins])


def load_plugins(workplace: Workplace) -> None:
    """Import the plugins of a workplace, without an event loop, so that a fork of this process creates its kernel quickly.

    Raises:
        CodexError: The configuration is invalid.
    """
    from codex_framework.loader.registry import load_registry

    config, environ = _configuration(workplace)
    load_registry(config, environ=environ, extra_plugins=[Path(file) for file in workplace.plugins])


class Session:
    """A session that a worker runs.

    Attributes:
        thread: The thread, from its start until the end of its turn.
        interrupted: Whether somebody has asked for its end.
        on_progress: Called when the session is found in a record, with the number of calls that have an output there.
    """

    def __init__(
        self, job: Job, on_event: Listener | None = None, *, on_progress: Callable[[int], object] | None = None
    ) -> None:
        self.job = job
        self.on_progress = on_progress
        self.thread: Thread | None = None
        self.interrupted = False
        self._on_event = on_event
        self._following: asyncio.Task[None] | None = None

    async def interrupt(self) -> None:
        """End the session's turn."""
        self.interrupted = True
        if self.thread is not None:
            await self.thread.interrupt()

    def listen(self, on_event: Listener) -> None:
        """Call a function with every event from now on, beginning with the requests that are open. Only the first call counts."""
        if self._on_event is None:
            self._on_event = on_event
            if self.thread is not None:
                self._follow(self.thread)

    def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the session. Return whether it was open.

        Raises:
            ThreadError: The answer is not of the request's ``answer_type``.
        """
        return self.thread is not None and self.thread.answer(request_id, answer)

    def answer_json(self, request_id: str, raw: object) -> bool:
        """Answer a request with the JSON data of :func:`encoding.answer_to_json`. Return whether it was open.

        Raises:
            ThreadError: The data are no answer to the request.
        """
        for request in () if self.thread is None else self.thread.open_requests:
            if request.request_id == request_id:
                return self.answer(request_id, read_answer_json(request, raw))
        return False

    def begin(self, thread: Thread) -> None:
        """Say which thread it is. Its listener is called from now on."""
        self.thread = thread
        if self._on_event is not None or self.job.attended:
            self._follow(thread)

    async def end(self) -> None:
        """Wait until the listener has had the last event, or does not take it."""
        if self._following is not None:
            await asyncio.wait([self._following], timeout=_LAST_EVENTS_S)
            self._following.cancel()

    def _follow(self, thread: Thread) -> None:
        if self._following is None:
            events = thread.events(answers=self.job.attended)
            self._following = asyncio.create_task(self._pass_on(events))

    async def _pass_on(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            waiting = None if self._on_event is None else self._on_event(event)
            if waiting is not None:
                await waiting


class Worker:
    """Runs jobs on a kernel, any number at once.

    Args:
        kernel: The kernel. The caller closes it.
        name: The worker's name in results.
    """

    def __init__(self, kernel: Kernel, name: str | None = None) -> None:
        self._kernel = kernel
        self.name = name or worker_name()
        self._sandbox_faults: dict[frozenset[Protection], SandboxError | None] = {}

    async def run(self, session: Session, on_event: Listener | None = None) -> JobResult:
        """Run a job to its end, and return its result. Whatever goes wrong is a failure in the result.

        If this is cancelled, the session's turn is interrupted, and another worker can continue it.

        Args:
            on_event: Called with every event of the session, as with :meth:`Session.listen`.
        """
        if on_event is not None:
            session.listen(on_event)
        job, began = session.job, time.monotonic()
        thread_id = ""
        try:
            thread_id = thread_id_of(job.key)
            result = await self._run_when_free(session, thread_id)
        except CodexError as error:
            result = self._failed(job, thread_id, failure_of(error))
        except Exception as error:  # of a plugin, for example its agent: other sessions go on
            result = self._failed(job, thread_id, JobFailure(fact=described(error)))
        return result.evolve(seconds=time.monotonic() - began)

    async def recorded_job(self, key: str) -> Job:
        """Return the job of a session that was started before, from its record.

        Raises:
            LaunchError: No job has the key.
            ThreadError: The record cannot be read.
        """
        stored = self._stored(thread_id_of(key))
        told = None if stored is None else _recorded_job(stored).get("job")
        if not isinstance(told, Mapping):
            raise LaunchError(f"no job has the key {key!r}", slug="unknown-job", hint="Start the job.")
        return decode(Job, encode_json(told))

    async def _run_when_free(self, session: Session, thread_id: str) -> JobResult:
        """Run a job as soon as no other process has its session. What that one has recorded until then counts."""
        began = time.monotonic()
        while True:
            try:
                result = await self._run(session, thread_id)
            except ThreadError as error:
                if time.monotonic() > began + _PATIENCES_S.get(error.slug, 0.0):
                    raise
            else:
                if result is not None:
                    return result
            await asyncio.sleep(_PAUSE_S)

    async def _run(self, session: Session, thread_id: str) -> JobResult | None:
        """Run a job. Return None if another process has begun or continued the session in the meantime.

        Raises:
            ThreadError: Another process has the session (``session-in-use``), or it cannot be started or resumed.
        """
        job = session.job
        stored = self._stored(thread_id)
        past = _Past(stored)
        if stored is not None:
            _check_same(job, stored)
            if session.on_progress is not None:
                session.on_progress(past.done)
            if past.outcome is not None and past.outcome.status is Status.COMPLETED:
                return self._result(job, thread_id, past.outcome, past, self._agent(job))
            if past.losses > _MOST_LOSSES:
                fact = f"the session has lost {past.losses} workers without progress"
                hint = "Look at the session's last call: it probably ends its process. Start the job again to try it once more."
                self._end_last_turn(stored, past)
                failure = JobFailure(fact=fact, slug="workers-lost", hint=hint, retryable=True)
                return self._failed(job, thread_id, failure)
        agent = self._agent(job)
        thread = await self._open(job, agent, thread_id, stored)
        stopping: asyncio.Task[str] | None = None
        try:
            if stored is not None and not _is_same(self._stored(thread_id), stored):
                return None  # nobody else can write it now, but somebody did after it was read
            session.begin(thread)
            if (fault := self._sandbox_fault(thread)) is not None:
                refusals = thread.events(only=[ExecCommandEndEvent], answers=False)
                stopping = asyncio.create_task(_stop_at_refusal(thread, refusals))
            if session.interrupted:
                outcome = Outcome(status=Status.INTERRUPTED)
            else:
                trace = None if job.trace is None else Trace(job.trace)
                await thread.submit(UserInputOp((TextInput(past.next_input(job)),)), trace=trace)
                outcome = await thread.settled()
        finally:
            await thread.shutdown()
            await session.end()
        if outcome.failure is not None and outcome.failure.slug == _IN_USE:
            return None  # somebody has begun the same session at the same time
        result = self._result(job, thread_id, outcome, past, agent)
        if fault is not None and stopping is not None and (refusal := await stopping) and not session.interrupted:
            fact = f"the worker {self.name} cannot run a command of the job {job.key!r}: {refusal}"
            failure = JobFailure(fact=fact, slug=fault.slug, hint=fault.hint or "", retryable=True)
            return result.evolve(status=Status.FAILED, message=None, output=None, failure=failure)
        return result

    def _sandbox_fault(self, thread: Thread) -> SandboxError | None:
        """Return why no command of a thread can be confined here. None if commands can run."""
        permissions = thread.settings.permissions
        if isinstance(permissions.profile, (DisabledPermissions, ExternalPermissions)):
            return None
        floor = permissions.options.floor
        if floor not in self._sandbox_faults:
            registry, wanted = self._kernel.registry, self._kernel.config.get("framework.sandbox")
            self._sandbox_faults[floor] = None
            try:
                choose(registry.sandboxes, wanted, FileAccess(floor=floor), registry.owners)
            except SandboxError as error:
                self._sandbox_faults[floor] = error
        return self._sandbox_faults[floor]

    async def _open(self, job: Job, agent: Agent[Any], thread_id: str, stored: StoredThread | None) -> Thread:
        """Start or resume the thread of a job."""
        more: dict[str, Any] = {"config": job.config} if job.config else {}
        if job.cwd is not None:
            more["cwd"] = Path(job.cwd)
        if stored is not None:
            return await self._kernel.resume_thread(thread_id, agent=agent, **more)
        extra = {"job": {"digest": digest_of(job), "job": to_wire(job)}}
        return await self._kernel.start_thread(agent=agent, thread_id=thread_id, source=_SOURCE, extra=extra, **more)

    def _end_last_turn(self, stored: StoredThread, past: _Past) -> None:
        """Record that the turn that was cut off is over, so that a later attempt counts its losses anew. Raises ThreadError."""
        recorder = self._kernel.thread_store.reopen(stored, str(self._kernel.config.codex_home))
        recorder.append([EventEntry(TurnAbortedEvent(past.turn_id, "interrupted"))])
        recorder.close()

    def _stored(self, thread_id: str) -> StoredThread | None:
        """Return what is recorded of a session. None if nothing is. Raises ThreadError."""
        try:
            return self._kernel.thread_store.load(thread_id, str(self._kernel.config.codex_home))
        except ThreadError as error:
            if error.slug == "thread-not-found":
                return None
            raise

    def _agent(self, job: Job) -> Agent[Any]:
        """Return the job's agent with its limits. Raises ThreadError."""
        if job.agent is None:
            return Agent(name=_SOURCE, limits=_recorded(job.limits))
        try:
            agent = self._kernel.agent(job.agent)
        except ThreadError as error:
            fact = f"the worker {self.name} has no agent {job.agent!r}"
            raise ThreadError(fact, slug=error.slug, hint="Install the agent's plugin on every worker.") from error
        return agent.evolve(limits=_recorded(agent.limits.smaller(job.limits)))

    def _result(self, job: Job, thread_id: str, outcome: Outcome, past: _Past, agent: Agent[Any]) -> JobResult:
        status, failure, output = outcome.status, None, None
        message = outcome.last_agent_message if status is Status.COMPLETED else None
        if status is Status.COMPLETED and agent.output_type is not str:
            try:
                _, read_output = Agent.descriptions.output(agent.output_type, "output_type")
                read_output(message or "")
                output = json.loads(message or "")
            except ValueError as error:
                status, failure = (
                    Status.FAILED,
                    JobFailure(fact=f"the output does not fit its type: {error}", slug="bad-output"),
                )
        elif status is not Status.COMPLETED:
            failure = _failure(outcome)
        return JobResult(
            key=job.key,
            thread_id=thread_id,
            status=status,
            message=message,
            output=output,
            failure=failure,
            usage=past.usage if outcome is past.outcome else past.usage + outcome.usage,
            cost=self._cost(thread_id, agent),
            worker=self.name,
            attempts=max(1, past.turns + (outcome is not past.outcome)),
        )

    def _cost(self, thread_id: str, agent: Agent[Any]) -> Mapping[str, float]:
        """Return what a session has cost with its children, as the kernel has recorded it at the end of the last turn."""
        stored = self._stored(thread_id)
        for entry in () if stored is None else reversed(stored.entries):
            if entry.plugin == "" and entry.kind == "budget":
                cost = entry.data.get("cost")
                return {self._currency(agent): cost} if isinstance(cost, (int, float)) and cost > 0 else {}
        return {}

    def _currency(self, agent: Agent[Any]) -> str:
        """Return the currency of the prices of an agent's model."""
        settings = self._kernel.settings()
        model = agent.model or settings.model or ""
        found = (catalogue.model(model, settings.provider) for catalogue in self._kernel.registry.catalogues.values())
        return next((info.prices.currency for info in found if info is not None and info.prices is not None), "USD")

    def _failed(self, job: Job, thread_id: str, failure: JobFailure) -> JobResult:
        return JobResult(key=job.key, thread_id=thread_id, status=Status.FAILED, failure=failure, worker=self.name)


class _Past:
    """What the record of a session tells of its earlier attempts.

    Attributes:
        turns: The number of turns that were started.
        turn_id: The id of the last turn.
        losses: How many of the last turns were cut off before a call had an output and the model answered again.
        done: The number of calls with an output.
        outcome: How the last turn has ended. None if it was cut off.
        usage: What the turns have used, without the children of a turn that was cut off.
    """

    def __init__(self, stored: StoredThread | None) -> None:
        self.turns = self.losses = requests = answers = 0
        self.turn_id: str | None = None
        self.outcome: Outcome | None = None
        tokens = TokenUsage()
        for event in () if stored is None else stored.events:
            match event:
                case TurnStartedEvent(turn_id=turn_id):
                    self.turns += 1
                    self.losses += 1
                    self.outcome, self.turn_id, answers = None, turn_id, 0
                case TokenCountEvent(info=info) if info is not None:
                    requests += 1
                    answers += 1
                    self.losses = self.losses if answers == 1 else 0
                    tokens = info.total_token_usage
                case TurnCompleteEvent():
                    self.losses = 0
                    self.outcome = _ended(event)
                case TurnAbortedEvent():
                    self.losses = 0
                    limited = event.reason == "budget_limited"
                    self.outcome = Outcome(status=Status.LIMITED if limited else Status.INTERRUPTED)
                case _:
                    pass
        history = () if stored is None else stored.history
        outputs = [item.output for item in history if isinstance(item, (FunctionCallOutput, CustomToolCallOutput))]
        self.done = sum(output != _LOST for output in outputs)
        calls = sum(isinstance(item, (FunctionCall, CustomToolCall)) for item in history)
        self._has_lost_call = outputs[-1:] == [_LOST]
        self._has_prompt = stored is not None and bool(stored.turns)
        self.usage = Usage(requests, calls, tokens)

    def next_input(self, job: Job) -> str:
        """Return the input of the next turn."""
        if not self._has_prompt:
            return job.prompt
        return CONTINUE if self.outcome is None or self._has_lost_call else CONTINUE_LATER


async def _stop_at_refusal(thread: Thread, commands: AsyncIterator[Event]) -> str:
    """Interrupt a thread when a command is refused, and return why. If none is until its end, return an empty text."""
    async for event in commands:
        if isinstance(event.msg, ExecCommandEndEvent) and event.msg.status == "declined":
            await thread.interrupt()
            return event.msg.stderr
    return ""


def _is_same(one: StoredThread | None, other: StoredThread) -> bool:
    """Return whether a record has not grown."""
    return one is not None and (len(one.events), len(one.history)) == (len(other.events), len(other.history))


def _ended(event: TurnCompleteEvent) -> Outcome:
    if event.error is None:
        return Outcome(status=Status.COMPLETED, last_agent_message=event.last_agent_message)
    return Outcome(status=Status.FAILED, error=str(event.error.get("message") or "the turn failed"))


def _failure(outcome: Outcome) -> JobFailure:
    """Return why a turn has no output."""
    if outcome.failure is not None:
        return failure_of(outcome.failure)
    facts: Mapping[Status, tuple[str, str]] = {
        Status.INTERRUPTED: ("the session was interrupted", "interrupted"),
        Status.LIMITED: ("a limit of the session was reached", "limit-reached"),
    }
    fact, slug = facts.get(outcome.status, (outcome.error or "the turn failed", "turn-failed"))
    return JobFailure(fact=fact, slug=slug)


def _check_same(job: Job, stored: StoredThread) -> None:
    """Check that a stored session is the session of a job.

    Raises:
        ThreadError: It is another job's.
    """
    if _recorded_job(stored).get("digest") != digest_of(job):
        fact = f"the key {job.key!r} was used for another job, with another prompt, agent or configuration"
        raise ThreadError(fact, slug="key-reused", hint="Give the job another key.")


def _recorded_job(stored: StoredThread) -> Mapping[str, Any]:
    """Return what the head of a record says about its job. Raises ThreadError if it says nothing: calls may be lost with it."""
    told = stored.meta.extra.get("job")
    if not isinstance(told, Mapping):
        fact = (
            f"the record of the session {stored.meta.id} is empty or damaged: it does not say which job it belongs to"
        )
        hint = "Restore the record, or give the job another key. If the session has done nothing, delete it: codex-framework delete "
        raise ThreadError(fact, slug=_UNREADABLE, hint=f"{hint}{stored.meta.id}")
    return told


def _recorded(limits: Limits) -> Limits:
    """Return limits with which the kernel records what a thread spends: it does so only for threads that have a limit."""
    return limits if limits != Limits() else Limits(turns=_MANY_TURNS)
