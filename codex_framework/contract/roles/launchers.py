"""The role of a launcher, which decides where sessions run: in this process, in others, on other machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events.event import Event
from codex_framework.contract.roles.outcomes import Limits, Status, Usage
from codex_framework.contract.value import Value, field

__all__ = ["Job", "JobFailure", "JobResult", "LaunchError", "Launcher", "OpenLauncher", "RunningJob", "Workplace"]


class LaunchError(CodexError):
    """A launcher cannot do what it was asked. The job's session did not change.

    Slugs for programs: ``unknown-job`` (no job has the key), ``key-reused`` (another job has the key), ``queue-full`` (a later
    attempt can help) and ``launcher-closed``.
    """

    slug = "launch"


class Job(Value, kw_only=True):
    """A session to run: a prompt for an agent. It consists of plain JSON data, so that it can be sent to another machine.

    Attributes:
        key: Identifies the job, in 1 to 200 printable characters. It determines the id of the session's thread, so that a
            restarted job continues its session, even on another machine.
        agent: The agent's name, as for ``Kernel.agent``. By default, the session has the settings of the configuration alone.
        prompt: The input of the first turn.
        cwd: The session's folder on the worker. By default, the folder of the :class:`Workplace`.
        config: Configuration keys with their values for the session, as for ``Kernel.start_thread``.
        limits: Limits of the session. They can only lower the limits of the agent and the configuration.
        attended: Whether approvals and other requests wait for :meth:`RunningJob.answer`. By default they get their unattended
            answer.
        trace: The span that the session belongs to, as a ``traceparent`` header (W3C Trace Context).
    """

    key: str
    prompt: str
    agent: str | None = None
    cwd: str | None = None
    config: Mapping[str, Any] = field(factory=dict)
    limits: Limits = Limits()
    attended: bool = False
    trace: str | None = None


class JobFailure(Value, kw_only=True):
    """Why a job has no output: the texts of the error behind it.

    Attributes:
        retryable: Whether a later attempt can help: the model server refused for a while, a worker was lost, a queue was full.
        retry_after_s: The seconds after which the server allows another attempt, if it named them.
    """

    fact: str
    slug: str = "error"
    hint: str = ""
    retryable: bool = False
    retry_after_s: float | None = None


class JobResult(Value, kw_only=True):
    """The result of a job. It consists of plain JSON data.

    Attributes:
        message: The model's last message. None if the session was not completed or the model said nothing.
        output: The output as JSON data: what ``message`` contains, if the agent has an output type other than text.
        failure: Why there is no output. None if the status is ``completed``.
        usage: The usage of the session, including earlier attempts.
        cost: The cost of the tokens, by currency. Models without known prices do not count.
        worker: The worker that finished the session, for people: ``host:pid`` or the engine's name for it.
        attempts: How many workers have worked at it. More than 1 after the loss of a worker.
        seconds: The time of the last attempt.
    """

    key: str
    thread_id: str
    status: Status
    message: str | None = None
    output: Any = None
    failure: JobFailure | None = None
    usage: Usage = Usage()
    cost: Mapping[str, float] = field(factory=dict)
    worker: str = ""
    attempts: int = 1
    seconds: float = 0.0


class RunningJob(Protocol):
    """A job that was started. It may wait for a worker, run, or have ended."""

    @property
    def key(self) -> str:
        """The job's key."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Yield the events of the session from now on, until its turn ends. Sessions without a listener send none."""
        ...

    async def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the session, as :meth:`ThreadClient.answer` does. Only a job that is ``attended`` asks."""
        ...

    async def interrupt(self) -> None:
        """End the session's turn, or take the job out of the queue. Its result then has the status ``interrupted``."""
        ...

    async def result(self) -> JobResult:
        """Wait for the result. Every caller gets the same one; if a caller is cancelled, the job continues.

        A job that failed is a result, too, also when no worker could run it.

        Raises:
            LaunchError: The launcher was closed, or has lost its engine, before the job ended.
        """
        ...


class Workplace(Value, kw_only=True):
    """The configuration of the workers that a launcher starts: how each of them creates its kernel. Other workers have their own.

    Attributes:
        cwd: The folder whose configuration they load, and in which jobs without a folder run.
        profile: The name of the configuration's profile, as for ``--profile``.
        overrides: Overrides of the configuration, in the syntax of ``-c``.
        plugins: The paths of files with plugins, as for ``--plugin``.
        environ: Environment variables of the workers, in addition to their own.
    """

    cwd: str
    profile: str | None = None
    overrides: Sequence[str] = ()
    plugins: Sequence[str] = ()
    environ: Mapping[str, str] = field(factory=dict)


class OpenLauncher(Protocol):
    """A launcher with its workers."""

    async def start(self, job: Job) -> RunningJob:
        """Run a job, as soon as a worker is free. Waits as long as the queue is full.

        A job whose key was started before is not run a second time: the call returns the job that runs, or one that was completed.
        Only a job that was interrupted, reached a limit or failed is continued. If a worker dies, the launcher runs the job again on
        another one, which continues the session from its record.

        Raises:
            LaunchError: Another job has the key (``key-reused``), or the launcher cannot take the job. What only a worker can find out
                is a failure of the result with the same slug.
        """
        ...

    async def resume(self, key: str) -> RunningJob:
        """Return a job that was started before, by this program or another one. If it does not run, this is :meth:`start`.

        Raises:
            LaunchError: No job has the key (``unknown-job``), or the launcher does not keep jobs.
        """
        ...

    async def aclose(self) -> None:
        """End the workers that the launcher has started, after at most a few seconds. Sessions can be resumed. Safe to call twice."""
        ...


class Launcher:
    """Decides where sessions run.

    A job is executed at least once: after the loss of a worker another one continues. Its session records each call before it
    runs, so no call runs twice: a call whose result was lost has the output ``aborted``, and the model decides what to do.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> OpenLauncher:
        """Start or find the workers.

        Args:
            workplace: The configuration of the workers that it starts.
            max_sessions: The maximum number of parallel sessions. By default, the launcher's own settings decide.

        Raises:
            CodexError: There is no engine, the workers cannot create a kernel, or have another version of codex-framework.
        """
        raise NotImplementedError
