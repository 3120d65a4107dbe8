"""An open launcher: the jobs of a program on the workers of a Ray cluster."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from codex_contrib_ray.settings import RaySettings
from codex_contrib_ray.workers import RayWorker, Workers, check, first_line
from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, LaunchError, Workplace
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import answer_to_json, decode, encode, event_from_json, failure_of, thread_id_of
from codex_lib_launch.jobs import Jobs, LocalJob

__all__ = ["Cluster"]

_PAUSE_S = 0.05
_LAST_EVENTS_S = 5.0


class Cluster:
    """An open launcher.

    Args:
        disconnects: Whether the connection to Ray ends with the launcher.
    """

    def __init__(self, workplace: Workplace, settings: RaySettings, max_sessions: int, *, disconnects: bool) -> None:
        self._workers = Workers(encode(workplace), settings)
        self._jobs = Jobs(self._run, self._find, max_sessions)
        self._max_restarts = settings.max_restarts
        self._disconnects = disconnects

    async def open(self) -> None:
        """Find the workers of earlier programs, or start one. Raises LaunchError."""
        await self._workers.open()

    async def start(self, job: Job) -> LocalJob:
        """Run a job as soon as a worker has room. Raises LaunchError."""
        return await self._jobs.start(job)

    async def resume(self, key: str) -> LocalJob:
        """Return a job that runs, or continue one from its record. Raises LaunchError."""
        return await self._jobs.resume(key)

    async def aclose(self) -> None:
        """Stop the sessions of this program so that they can be continued, and end the workers that have no others."""
        await self._jobs.aclose()
        await self._workers.aclose()
        if self._disconnects:
            self._disconnects = False
            await asyncio.to_thread(ray.shutdown)

    async def _find(self, key: str) -> Job:
        """Return the job of a session that runs on a worker of an earlier program, or that is recorded. Raises LaunchError."""
        thread_id_of(key)
        while True:
            worker = self._workers.found(key)
            call = "recorded_job" if worker is None else "running_job"
            worker = worker or await self._workers.any()
            try:
                told = json.loads(await getattr(worker.actor, call).remote(key))
            except RayActorError:
                self._workers.lose(worker)
                continue
            check(told)
            if "job" in told:
                return decode(Job, told["job"])
            worker.keys.discard(key)  # it has just ended

    async def _run(self, job: LocalJob) -> JobResult:
        """Run a job on one worker after the other, until one of them has not been lost."""
        losses = 0
        while True:
            worker = None
            try:
                worker = await self._workers.take(job.key, first=losses > 0)
                result = await _run_on(worker, job)
            except asyncio.CancelledError:
                worker = None  # the launcher is closed; the worker runs the session until it is told to stop
                raise
            except RayActorError:
                losses += 1
                if worker is not None:
                    self._workers.lose(worker)
                if losses > self._max_restarts:
                    fact = f"the session has lost {losses} workers"
                    hint = (
                        "See Ray's logs. If the sessions need more memory, set `memory_mb` in [framework.plugins.ray]."
                    )
                    return _failed(job.key, JobFailure(fact=fact, slug="workers-lost", hint=hint, retryable=True))
            except LaunchError as error:
                if worker is not None and error.slug == "key-reused":  # the other job still runs there
                    self._workers.keep(worker, job.key)
                    worker = None
                return _failed(job.key, failure_of(error))
            except RayError as error:
                return _failed(job.key, JobFailure(fact=f"the worker failed: {first_line(error)}"))
            else:
                if result is not None:
                    return result
            finally:
                job.detach()
                if worker is not None:
                    self._workers.give_back(worker, job.key)


async def _run_on(worker: RayWorker, job: LocalJob) -> JobResult | None:
    """Run a job on a worker. Return None if another program has stopped the session."""
    control = _Control(worker, job)
    title = f"{job.job.agent or 'session'}: {job.key}"  # its name in Ray's dashboard
    listener = control.listener if job.is_heard else ""
    call = worker.actor.run.options(name=title).remote(encode(job.job), listener)
    try:
        await job.attach(control)
        told = json.loads(await call)
        await control.hear_the_rest()
    finally:
        control.end()
    check(told)
    return decode(JobResult, told["result"]) if "result" in told else None


class _Control:
    """A session on a worker.

    Attributes:
        listener: The id under which its events are fetched.
    """

    def __init__(self, worker: RayWorker, job: LocalJob) -> None:
        self._actor: Any = worker.actor
        self._job = job
        self._task: asyncio.Task[None] | None = None
        self.listener = uuid.uuid4().hex

    async def interrupt(self) -> None:
        """End the turn of the session. A worker that is lost meanwhile does not continue it."""
        with suppress(RayError):
            await self._actor.interrupt.remote(self._job.key)

    async def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request. Return whether it was open. Raises ThreadError if the answer does not fit it."""
        raw = json.dumps(answer_to_json(answer))
        try:
            told = json.loads(await self._actor.answer.remote(self._job.key, request_id, raw))
        except RayActorError:
            return False
        if "failure" in told:
            failure = JobFailure(**told["failure"])
            raise ThreadError(failure.fact, slug=failure.slug, hint=failure.hint)
        return bool(told["was_open"])

    async def listen(self) -> None:
        """Have the session's events sent to the job."""
        if self._task is None:
            self._task = asyncio.create_task(self._fetch())

    async def hear_the_rest(self) -> None:
        """Wait for the last events of a session that has ended."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LAST_EVENTS_S)

    def end(self) -> None:
        """Stop to listen."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._actor.unlisten.remote(self.listener)

    async def _fetch(self) -> None:
        with suppress(RayError):  # the job notices the loss of its worker by itself
            while (events := json.loads(await self._actor.listen.remote(self._job.key, self.listener))) is not None:
                for raw in events:
                    self._job.hear(event_from_json(raw))


def _failed(key: str, failure: JobFailure) -> JobResult:
    return JobResult(key=key, thread_id=thread_id_of(key), status=Status.FAILED, failure=failure)
