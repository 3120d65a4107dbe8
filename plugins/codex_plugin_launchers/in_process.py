"""The launcher ``in-process``: all sessions run on one kernel, in the event loop of the program that starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_framework.contract.roles.launchers import (
    Job,
    JobResult,
    Launcher,
    OpenLauncher,
    RunningJob,
    Workplace,
)
from codex_lib_launch.jobs import Jobs, LocalJob
from codex_lib_launch.worker import Session, Worker, create_kernel

if TYPE_CHECKING:
    from codex_framework import Kernel

__all__ = ["InProcess", "InProcessLauncher"]


class InProcessLauncher(Launcher):
    """Runs sessions in this process. For more sessions than one core can serve, use ``pool``.

    Args:
        sessions: How many sessions run at once, unless the program says it.
    """

    name = "in-process"

    def __init__(self, sessions: int = 16) -> None:
        self._sessions = sessions

    async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> OpenLauncher:
        """Create the kernel. Raises CodexError if it cannot be created."""
        kernel = await create_kernel(workplace)
        return InProcess(kernel, max_sessions=max_sessions or self._sessions, closes=True)


class InProcess:
    """An open launcher on a kernel of the program.

    Args:
        max_sessions: How many sessions run at once.
        closes: Whether the kernel is closed with the launcher.
    """

    def __init__(self, kernel: Kernel, *, max_sessions: int = 16, closes: bool = False) -> None:
        self._kernel = kernel
        self._worker = Worker(kernel)
        self._jobs = Jobs(self._run, self._worker.recorded_job, max_sessions)
        self._closes = closes

    async def start(self, job: Job) -> RunningJob:
        """Run a job as soon as there is room. Raises LaunchError."""
        return await self._jobs.start(job)

    async def resume(self, key: str) -> RunningJob:
        """Return a job of this program, or continue one from its record. Raises LaunchError."""
        return await self._jobs.resume(key)

    async def aclose(self) -> None:
        """End the sessions that run. They can be resumed."""
        await self._jobs.aclose()
        if self._closes:
            self._closes = False
            await self._kernel.aclose()

    async def _run(self, job: LocalJob) -> JobResult:
        session = Session(job.job)
        await job.attach(_SessionHere(session, job))
        return await self._worker.run(session)


class _SessionHere:
    """A session in this process."""

    def __init__(self, session: Session, job: LocalJob) -> None:
        self._session = session
        self._job = job

    async def interrupt(self) -> None:
        await self._session.interrupt()

    async def answer(self, request_id: str, answer: object) -> bool:
        return self._session.answer(request_id, answer)

    async def listen(self) -> None:
        self._session.listen(self._job.hear)
