"""The jobs of an open launcher, each of which runs once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from codex_framework.contract.protocol.events import Event, Request, RequestResolvedEvent
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, LaunchError
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import digest_of, thread_id_of

__all__ = ["Control", "Jobs", "LocalJob"]

_MOST_UNREAD = 10_000
"""Events that a listener has not read yet. One that is further behind is ended."""


class Control(Protocol):
    """A session that runs, wherever it does."""

    async def interrupt(self) -> None:
        """End its turn."""
        ...

    async def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request. Return whether it was open."""
        ...

    async def listen(self) -> None:
        """Have its events from now on sent to :meth:`LocalJob.hear`. May be called again."""
        ...


class LocalJob:
    """A job from the side of the program: the handle that it has, and what a session reports to.

    Attributes:
        job: What was asked for.
        is_heard: Whether somebody listens, or has to answer requests.
        interrupted: Whether the program has asked for its end.
        progress: The number of finished calls when a worker last took the session. It grows with each worker that gets anything done.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_heard = job.attended
        self.interrupted = False
        self.progress = 0
        self._control: Control | None = None
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._open: dict[str, Event] = {}
        self._task: asyncio.Task[JobResult] | None = None

    # what the program calls

    @property
    def key(self) -> str:
        """The job's key."""
        return self.job.key

    async def events(self) -> AsyncIterator[Event]:
        """Yield the requests that are open and the events from now on."""
        if self._task is not None and self._task.done():
            return
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        for request in self._open.values():
            queue.put_nowait(request)
        self._listeners.add(queue)
        try:
            if not self.is_heard:
                self.is_heard = True
                if self._control is not None:
                    await self._control.listen()
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.discard(queue)

    async def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the session."""
        return self._control is not None and await self._control.answer(request_id, answer)

    async def interrupt(self) -> None:
        """End the session's turn, or the wait for a worker."""
        self.interrupted = True
        if self._control is not None:
            await self._control.interrupt()
        elif self._task is not None:
            self._task.cancel()

    async def result(self) -> JobResult:
        """Wait for the result.

        Raises:
            LaunchError: The launcher was closed before the job ended.
        """
        assert self._task is not None
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.cancelled():
                raise  # the caller was cancelled
        fact = f"the launcher was closed before the job {self.key!r} ended"
        raise LaunchError(fact, slug="launcher-closed", hint="Open a launcher, and resume the job.")

    # what a session calls

    async def attach(self, control: Control) -> None:
        """Say that the session runs."""
        self._control = control
        if self.interrupted:
            await control.interrupt()
        if self.is_heard:
            await control.listen()

    def detach(self) -> None:
        """Say that the session does not run any more: it has ended, or was lost with its worker."""
        self._control = None
        self._open.clear()

    def hear(self, event: Event) -> None:
        """Pass an event to those who listen."""
        if isinstance(event.msg, Request):
            self._open[event.msg.request_id] = event
        elif isinstance(event.msg, RequestResolvedEvent):
            self._open.pop(event.msg.request_id, None)
        for queue in [*self._listeners]:
            queue.put_nowait(event)
            if queue.qsize() > _MOST_UNREAD:
                self._listeners.discard(queue)
                queue.put_nowait(None)

    # what the launcher calls

    def begin(self, run: Callable[[LocalJob], Awaitable[JobResult]]) -> asyncio.Task[JobResult]:
        """Run the job in a task."""
        self._task = asyncio.create_task(self._run(run))
        return self._task

    async def _run(self, run: Callable[[LocalJob], Awaitable[JobResult]]) -> JobResult:
        try:
            return await run(self)
        except asyncio.CancelledError:
            if not self.interrupted:
                raise
            failure = JobFailure(fact="the session was interrupted", slug="interrupted")
            status = Status.INTERRUPTED
        except Exception as error:  # of the launcher: other jobs go on
            failure = JobFailure(fact=f"the launcher failed: {type(error).__name__}: {error}", slug="launch")
            status = Status.FAILED
        finally:
            self.detach()
            for queue in self._listeners:
                queue.put_nowait(None)
        return JobResult(key=self.key, thread_id=thread_id_of(self.key), status=status, failure=failure)

    def can_continue(self) -> bool:
        """Return whether the job has ended and another attempt can help."""
        result = self._ended_with()
        if result is None:
            return self._task is not None and self._task.cancelled()
        retryable = result.failure is not None and result.failure.retryable
        return retryable or result.status in {Status.INTERRUPTED, Status.LIMITED}

    def was_refused(self) -> bool:
        """Return whether the record of another job has its key."""
        result = self._ended_with()
        return result is not None and result.failure is not None and result.failure.slug == "key-reused"

    def _ended_with(self) -> JobResult | None:
        return (
            self._task.result() if self._task is not None and self._task.done() and not self._task.cancelled() else None
        )


class Jobs:
    """The jobs that were started, by key.

    Args:
        run: Runs a job to its end, however often its worker is lost.
        find: Returns the job of a key from the record of its session, or raises LaunchError.
        most: How many jobs run at once. Further calls of :meth:`start` wait.
    """

    def __init__(
        self, run: Callable[[LocalJob], Awaitable[JobResult]], find: Callable[[str], Awaitable[Job]], most: int
    ) -> None:
        self._run = run
        self._find = find
        self._room = asyncio.Semaphore(most)
        self._jobs: dict[str, LocalJob] = {}
        self._tasks: set[asyncio.Task[JobResult]] = set()
        self._closed = False

    async def start(self, job: Job) -> LocalJob:
        """Run a job as soon as there is room, unless it runs or has ended. Raises LaunchError."""
        thread_id_of(job.key)
        if (known := self._known(job)) is not None:
            return known
        await self._room.acquire()
        try:
            if (known := self._known(job)) is None:  # nobody else has started it in the meantime
                started = self._jobs[job.key] = LocalJob(job)
                task = started.begin(self._run)
                self._tasks.add(task)
                task.add_done_callback(self._ended)
                return started
        except BaseException:
            self._room.release()
            raise
        self._room.release()
        return known

    async def resume(self, key: str) -> LocalJob:
        """Return a job that runs or has ended, or continue one from its record. Raises LaunchError."""
        self._check_open()
        known = self._jobs.get(key)
        if known is None or known.was_refused():
            return await self.start(await self._find(key))
        return await self.start(known.job)

    async def aclose(self) -> None:
        """End all jobs. Their sessions can be resumed."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks])

    def _ended(self, task: asyncio.Task[JobResult]) -> None:
        self._tasks.discard(task)
        self._room.release()

    def _known(self, job: Job) -> LocalJob | None:
        """Return the job of a key, if it must not run again. Raises LaunchError."""
        self._check_open()
        known = self._jobs.get(job.key)
        if known is None or known.was_refused():
            return None
        if digest_of(known.job) != digest_of(job):
            fact = f"the key {job.key!r} was used for another job, with another prompt, agent or configuration"
            raise LaunchError(fact, slug="key-reused", hint="Give the job another key.")
        return None if known.can_continue() else known

    def _check_open(self) -> None:
        if self._closed:
            raise LaunchError("the launcher is closed", slug="launcher-closed", hint="Open it again.")
