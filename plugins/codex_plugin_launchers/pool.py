"""The launcher ``pool``: sessions run in processes of this machine, which are forked from a warm one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import CodexError, described
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.launchers import (
    Job,
    JobFailure,
    JobResult,
    Launcher,
    LaunchError,
    OpenLauncher,
    RunningJob,
    Workplace,
)
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import (
    answer_to_json,
    check_versions,
    decode_value,
    event_from_json,
    failure_of,
    thread_id_of,
)
from codex_lib_launch.jobs import Jobs, LocalJob
from codex_plugin_launchers.channel import Channel
from codex_plugin_launchers.warm_process import FORK, KILL

__all__ = ["Pool", "PoolLauncher"]

_LOSSES_TOGETHER = 2
"""Workers that a session may lose without progress beside others. After that it runs alone, so that it cannot end theirs."""

_LOSSES_ALONE = 3
"""Workers that a session may lose alone. After that, the session itself probably ends them."""

_MOST_UNREADY = 10
"""Workers in a row that may end before they are ready."""

_START_S = 60.0
"""The time that a worker has to create its kernel, during which it does not answer."""

_END_S = 3.0
"""The time in which workers can end when the pool is closed."""


class PoolLauncher(Launcher):
    """Runs sessions in processes of this machine.

    Args:
        workers: The number of processes. By default, one per core that this process may use.
        sessions: The number of sessions that a process runs at once.
        patience_s: The seconds after which a process that does not answer is ended.
    """

    name = "pool"

    def __init__(self, *, workers: int | None = None, sessions: int = 16, patience_s: float = 60.0) -> None:
        self._workers = workers
        self._sessions = sessions
        self._patience_s = patience_s

    async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> OpenLauncher:
        """Start the first worker. Others follow when it has work. Raises CodexError if it cannot create a kernel."""
        workers = self._workers or _cores()
        most = max_sessions or workers * self._sessions
        pool = Pool(workplace, workers=min(workers, most), max_sessions=most, patience_s=self._patience_s)
        try:
            await pool.prepare()
        except BaseException:
            await pool.aclose()
            raise
        return pool


class Pool:
    """An open launcher. Use :meth:`PoolLauncher.open`."""

    def __init__(self, workplace: Workplace, *, workers: int, max_sessions: int, patience_s: float) -> None:
        self._processes = _Processes(workplace)
        self._most = workers
        self._workers: list[_WorkerProcess] = []
        self._choosing = asyncio.Lock()
        self._alone = asyncio.Semaphore(workers)
        self._jobs = Jobs(self._run, self._find, max_sessions)
        self._patience_s = patience_s
        self._watching: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Start the first worker. Raises CodexError if it cannot create a kernel."""
        self._watching = asyncio.create_task(self._watch())
        try:
            await (await self._worker()).ready()
        except _WorkerLost as error:
            fact = "the first worker of the pool ended before it was ready"
            raise LaunchError(fact, hint="See what it wrote to stderr.") from error

    async def start(self, job: Job) -> RunningJob:
        """Run a job as soon as there is room. Raises LaunchError."""
        return await self._jobs.start(job)

    async def resume(self, key: str) -> RunningJob:
        """Return a job of this program, or continue one from its record. Raises LaunchError."""
        return await self._jobs.resume(key)

    async def aclose(self) -> None:
        """End the workers. Sessions that run can be resumed."""
        await self._jobs.aclose()
        if self._watching is not None:
            self._watching.cancel()
        await self._processes.aclose()

    async def _run(self, job: LocalJob) -> JobResult:
        losses = unready = progress = 0
        while losses < _LOSSES_TOGETHER + _LOSSES_ALONE and unready < _MOST_UNREADY:
            try:
                if losses < _LOSSES_TOGETHER:
                    return await (await self._worker()).run(job)
                return await self._run_alone(job)
            except _WorkerLost as lost:
                if job.progress > progress:  # it does not always end its workers
                    losses, unready, progress = 0, 0, job.progress
                losses += lost.was_ready
                unready += not lost.was_ready
            if job.interrupted:
                return _interrupted(job)
        fact = f"{losses + unready} workers of the session were lost, and nothing was done in between"
        hint = "Look at its last call, which probably ends the process: codex-framework trace view THREAD_ID"
        return _failed(job, JobFailure(fact=fact, slug="workers-lost", hint=hint, retryable=True))

    async def _run_alone(self, job: LocalJob) -> JobResult:
        """Run a job in a worker of its own. Raises _WorkerLost."""
        async with self._alone:
            worker = await self._processes.fork()
            try:
                return await worker.run(job)
            finally:
                worker.close()

    async def _find(self, key: str) -> Job:
        thread_id_of(key)
        with contextlib.suppress(_WorkerLost):
            return await (await self._worker()).find(key)
        return await (await self._worker()).find(key)

    async def _worker(self) -> _WorkerProcess:
        """Return the worker with the fewest sessions, or another one if there may be more."""
        async with self._choosing:
            self._workers = [worker for worker in self._workers if not worker.is_lost]
            worker = min(self._workers, key=lambda worker: worker.load, default=None)
            if worker is None or (worker.load and len(self._workers) < self._most):
                worker = await self._processes.fork()
                self._workers.append(worker)
            return worker

    async def _watch(self) -> None:
        """End workers that do not answer."""
        while True:
            await asyncio.sleep(self._patience_s / 4)
            for worker in self._processes.running:
                worker.send({"ping": 0})
                patience_s = self._patience_s if worker.is_ready else max(self._patience_s, _START_S)
                if time.monotonic() - worker.heard_at > patience_s:
                    self._processes.kill(worker)


class _WorkerLost(Exception):  # noqa: N818  # nobody else sees it
    """The worker has ended.

    Attributes:
        was_ready: Whether it could run sessions before.
    """

    def __init__(self, *, was_ready: bool) -> None:
        super().__init__()
        self.was_ready = was_ready


class _Processes:
    """The warm process and its forks."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self._warm: asyncio.subprocess.Process | None = None
        self._commands: socket.socket | None = None
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self.running: set[_WorkerProcess] = set()

    async def fork(self) -> _WorkerProcess:
        """Start a worker. Raises LaunchError if there can be no process."""
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                await self._command(FORK, number, theirs)
            except BaseException:
                ours.close()
                raise
        worker = _WorkerProcess(number, await Channel.open(ours))
        self.running.add(worker)
        worker.reading.add_done_callback(lambda _: self.running.discard(worker))
        return worker

    def kill(self, worker: _WorkerProcess) -> None:
        """Kill a worker that hangs."""
        if self._commands is not None:
            with contextlib.suppress(OSError):
                self._commands.send(KILL + worker.number.to_bytes(4))

    async def aclose(self) -> None:
        """End all of them."""
        if self._commands is not None:
            self._commands.close()
            self._commands = None
        if self._warm is not None:
            try:
                await asyncio.wait_for(self._warm.wait(), _END_S)
            except TimeoutError:
                self._warm.kill()  # its workers end with it
                await self._warm.wait()
        if self.running:
            await asyncio.wait([worker.reading for worker in self.running])

    async def _command(self, command: bytes, number: int, descriptor: socket.socket) -> None:
        message = command + number.to_bytes(4)
        async with self._starting:
            commands = self._commands or await self._start()
            try:
                socket.send_fds(commands, [message], [descriptor.fileno()])
            except OSError:  # it was killed
                commands = await self._start()
                socket.send_fds(commands, [message], [descriptor.fileno()])

    async def _start(self) -> socket.socket:
        """Start the warm process, and return where it takes commands. Raises LaunchError."""
        if self._commands is not None:
            self._commands.close()
        if self._warm is not None:
            await self._warm.wait()
        self._commands, theirs = socket.socketpair()
        with theirs:
            try:
                self._warm = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "codex_plugin_launchers.warm_process", str(theirs.fileno())),
                    stdin=asyncio.subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **self._workplace.environ},
                    start_new_session=True,  # ^C is for the program, which closes the pool
                )
            except OSError as error:
                raise LaunchError(f"no process can be started for the pool: {error}", slug="launch") from error
        assert self._warm.stdin is not None
        about = {"workplace": to_wire(self._workplace), "path": sys.path}
        self._warm.stdin.write(json.dumps(about).encode())
        self._warm.stdin.close()
        return self._commands


class _WorkerProcess:
    """A worker, from the side of the pool.

    Attributes:
        number: Its number in the pool.
        reading: Reads what it says, until it is gone.
        heard_at: When it has said something.
        load: The number of its sessions.
    """

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.load = 0
        self.heard_at = time.monotonic()
        self._name = f"worker {number}"
        self._channel = channel
        self._numbers = itertools.count(1)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fault: Exception | None = None
        self._jobs: dict[int, LocalJob] = {}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.reading = asyncio.create_task(self._read())

    @property
    def is_lost(self) -> bool:
        """Whether it is gone."""
        return self._fault is not None

    @property
    def is_ready(self) -> bool:
        """Whether it could run sessions, or has failed before."""
        return self._ready.done()

    async def ready(self) -> None:
        """Wait until it can run sessions. Raises CodexError if it cannot, and _WorkerLost."""
        await self._ready

    async def run(self, job: LocalJob) -> JobResult:
        """Run a job. Raises _WorkerLost."""
        self.load += 1
        number = next(self._numbers)
        self._jobs[number] = job
        try:
            result = self._call(number, {"run": number, "job": to_wire(job.job)})
            await job.attach(_RemoteSession(self, number))
            return self._read_result(job, await result)
        except CodexError as error:
            failure = failure_of(error)
            return _failed(job, failure.evolve(fact=f"{self._name}: {failure.fact}"), self._name)
        finally:
            self.load -= 1
            del self._jobs[number]
            job.detach()

    async def find(self, key: str) -> Job:
        """Return the job of a key. Raises LaunchError and _WorkerLost."""
        number = next(self._numbers)
        return decode_value(Job, await self._call(number, {"find": number, "key": key}))

    async def answer(self, session: int, request_id: str, answer: object) -> bool:
        """Answer a request of a session. Raises CodexError."""
        number = next(self._numbers)
        message = {"answer": number, "session": session, "request": request_id, "value": answer_to_json(answer)}
        try:
            return await self._call(number, message) is True
        except _WorkerLost:
            return False

    def send(self, message: Mapping[str, Any]) -> None:
        """Send it a message without an answer."""
        self._channel.send(message)

    def close(self) -> None:
        """Have it end."""
        self._channel.close()

    def _call(self, number: int, message: Mapping[str, Any]) -> asyncio.Future[Any]:
        """Send a message, and return what will be its answer."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        answer.add_done_callback(lambda _: self._answers.pop(number, None))
        if self._fault is not None:
            answer.set_exception(self._fault)
        elif not self._channel.send(message):
            answer.set_exception(LaunchError("the job is too long for a message", slug="bad-request"))
        return answer

    async def _read(self) -> None:
        """Read what the worker says, until it is gone."""
        fault: Exception | None = None
        try:
            while (message := await self._channel.receive()) is not None:
                self.heard_at = time.monotonic()
                self._take(message)
        except CodexError as error:
            fault = error
        except Exception as error:
            text = "%s sent an invalid message, so other workers continue its sessions: %s"
            logging.getLogger(__name__).warning(text, self._name, described(error))
        self._fault = fault = fault or _WorkerLost(was_ready=self.is_ready)
        for answer in (self._ready, *self._answers.values()):
            if not answer.done():
                answer.set_exception(fault)
        self._ready.exception()  # nobody may wait for it
        await self._channel.aclose()

    def _take(self, message: Mapping[str, Any]) -> None:
        """Take a message of the worker. Raises CodexError if it can run nothing."""
        match message:
            case {"event": int(session), "value": dict(value)} if session in self._jobs:
                self._jobs[session].hear(event_from_json(value))
            case {"progress": int(session), "done": int(done)} if session in self._jobs:
                self._jobs[session].progress = done
            case {"answered": int(number), **answer} if number in self._answers:
                self._answer(self._answers[number], answer)
            case {"ready": str(name), "versions": dict(versions)}:
                self._name = name
                check_versions(versions, name)
                self._ready.set_result(None)
            case {"broken": dict(failure)}:
                raise _error(failure)
            case _:
                pass  # a sign of life, or about a session that nobody waits for

    def _answer(self, waiting: asyncio.Future[Any], answer: Mapping[str, Any]) -> None:
        if waiting.done():  # cancelled
            return
        if isinstance(answer.get("error"), dict):
            waiting.set_exception(_error(answer["error"]))
        else:
            waiting.set_result(answer.get("value"))

    def _read_result(self, job: LocalJob, raw: Any) -> JobResult:
        """Return the result that a worker has sent. Raises LaunchError if it is none."""
        result = decode_value(JobResult, raw)
        if result.key != job.key:
            raise LaunchError(f"the result is of the job {result.key!r}")
        return result


class _RemoteSession:
    """A session that runs in a worker."""

    def __init__(self, worker: _WorkerProcess, number: int) -> None:
        self._worker = worker
        self._number = number

    async def interrupt(self) -> None:
        self._worker.send({"interrupt": self._number})

    async def answer(self, request_id: str, answer: object) -> bool:
        return await self._worker.answer(self._number, request_id, answer)

    async def listen(self) -> None:
        self._worker.send({"listen": self._number})


def _error(failure: Mapping[str, Any]) -> LaunchError:
    """Return the error that a worker has reported."""
    fact, slug, hint = (failure.get(name) for name in ("fact", "slug", "hint"))
    return LaunchError(str(fact), slug=str(slug or "launch"), hint=str(hint or ""))


def _failed(job: LocalJob, failure: JobFailure, worker: str = "") -> JobResult:
    return JobResult(key=job.key, thread_id=thread_id_of(job.key), status=Status.FAILED, failure=failure, worker=worker)


def _interrupted(job: LocalJob) -> JobResult:
    failure = JobFailure(fact="the session was interrupted", slug="interrupted")
    return _failed(job, failure).evolve(status=Status.INTERRUPTED)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
