"""The launcher ``in-process``: all sessions run on one kernel, in the event loop of the program that starts them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from codex_framework.contract.protocol.events import Event
from codex_framework.contract.roles.launchers import (
    Job,
    JobResult,
    Launcher,
    LaunchError,
    OpenLauncher,
    RunningJob,
    Workplace,
)
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import digest_of, thread_id_of
from codex_lib_launch.worker import Session, Worker, create_kernel

if TYPE_CHECKING:
    from codex_framework import Kernel

__all__ = ["InProcess", "InProcessLauncher"]

_SESSIONS = 16


class InProcessLauncher(Launcher):
    """Runs sessions in this process. For more sessions than one core can serve, use ``pool``."""

    name = "in-process"

    async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> OpenLauncher:
        """Create the kernel. Raises CodexError if it cannot be created."""
        kernel = await create_kernel(workplace)
        return InProcess(kernel, max_sessions=max_sessions, closes=True)


class InProcess:
    """An open launcher on a kernel of the program.

    Args:
        max_sessions: How many sessions run at once.
        closes: Whether the kernel is closed with the launcher.
    """

    def __init__(self, kernel: Kernel, *, max_sessions: int | None = None, closes: bool = False) -> None:
        self._kernel = kernel
        self._worker = Worker(kernel)
        self._free = asyncio.Semaphore(max_sessions or _SESSIONS)
        self._jobs: dict[str, _RunningJob] = {}
        self._closes = closes
        self._closed = False

    async def start(self, job: Job) -> RunningJob:
        """Run a job as soon as there is room. Raises LaunchError."""
        self._check_open()
        thread_id_of(job.key)
        if (known := self._jobs.get(job.key)) is not None and not known.can_continue:
            if digest_of(known.job) != digest_of(job):
                fact = f"the key {job.key!r} was used for another job"
                raise LaunchError(fact, slug="key-reused", hint="Give the job another key.")
            return known
        await self._free.acquire()
        if self._closed:
            self._free.release()
            self._check_open()
        running = self._jobs[job.key] = _RunningJob(job, self._worker, self._free.release)
        return running

    async def resume(self, key: str) -> RunningJob:
        """Return a job of this program, or continue one from its record. Raises LaunchError."""
        self._check_open()
        if (known := self._jobs.get(key)) is not None and not known.can_continue:
            return known
        return await self.start(await self._worker.recorded_job(key))

    async def aclose(self) -> None:
        """Interrupt the sessions that run."""
        self._closed = True
        for job in self._jobs.values():
            job.cancel()
        await asyncio.gather(*(job.ended() for job in self._jobs.values()))
        if self._closes:
            self._closes = False
            await self._kernel.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise LaunchError("the launcher is closed", slug="launcher-closed", hint="Open it again.")


class _RunningJob:
    """A job that runs, or has ended.

    Attributes:
        job: What was asked for.
    """

    def __init__(self, job: Job, worker: Worker, on_end: Callable[[], None]) -> None:
        self.job = job
        self._session = Session(job)
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._task = asyncio.create_task(self._run(worker))
        self._task.add_done_callback(lambda _: on_end())

    async def _run(self, worker: Worker) -> JobResult:
        try:
            return await worker.run(self._session, self._hear)
        finally:
            for queue in self._listeners:
                queue.put_nowait(None)

    def _hear(self, event: Event) -> None:
        for queue in self._listeners:
            queue.put_nowait(event)

    @property
    def key(self) -> str:
        """The job's key."""
        return self.job.key

    @property
    def can_continue(self) -> bool:
        """Whether the job has ended and another attempt can help."""
        if not self._task.done():
            return False
        if self._task.cancelled() or self._task.exception() is not None:
            return True
        result = self._task.result()
        return result.status in {Status.INTERRUPTED, Status.LIMITED} or (
            result.failure is not None and result.failure.retryable
        )

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events from now on."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            while not self._task.done() and (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.discard(queue)

    async def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the session."""
        return self._session.answer(request_id, answer)

    async def interrupt(self) -> None:
        """End the session's turn."""
        await self._session.interrupt()

    async def result(self) -> JobResult:
        """Wait for the result. Raises LaunchError if the launcher is closed before."""
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._task.cancelled():
                fact = f"the launcher was closed before {self.key!r} ended"
                raise LaunchError(fact, slug="launcher-closed", hint="Open a launcher, and resume the job.") from None
            raise

    def cancel(self) -> None:
        """End the work. The session can be continued."""
        self._task.cancel()

    async def ended(self) -> None:
        """Wait for the end of the work."""
        await asyncio.wait([self._task])
