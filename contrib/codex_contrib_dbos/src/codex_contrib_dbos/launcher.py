"""``dbos``: jobs in a durable queue of DBOS. A program that starts jobs runs no workflows: it writes into the database, and reads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from codex_contrib_dbos.database import Database
from codex_contrib_dbos.jobs import VERSION, JobTable, StoredJob
from codex_contrib_dbos.processes import LocalWorkers
from codex_contrib_dbos.settings import DbosSettings
from codex_framework.contract.protocol.events import Event
from codex_framework.contract.roles.launchers import Job, JobResult, Launcher, LaunchError, Workplace
from codex_lib_launch.encoding import answer_to_json, event_from_json, thread_id_of

__all__ = ["DbosLauncher", "OpenDbos"]

T = TypeVar("T")

_WARN_AFTER_S = 10.0


class DbosLauncher(Launcher):
    """Runs sessions on the workers of a queue.

    Attributes:
        settings: The settings of the plugin.
        url: The database.
    """

    name = "dbos"

    def __init__(self, settings: DbosSettings, url: str) -> None:
        self.settings = settings
        self.url = url

    async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> OpenDbos:
        """Connect to the database, and start the workers of this machine, if the settings say so.

        Raises:
            ConfigError: The database has no usable URL.
            LaunchError: The database cannot be used, the workers that run have other versions, or a worker did not start.
        """
        settings = self.settings
        database = Database(self.url, patience_s=settings.patience_s)
        try:
            await asyncio.to_thread(database.prepare)
            table = JobTable(database, settings.queue)
            workers = await database.run("find workers", lambda c: table.live_workers(c, settings.lease_s))
            if workers and not settings.workers and all(version != VERSION for _, version in workers):
                names = ", ".join(f"{name} ({version})" for name, version in workers)
                fact = f"the workers of the queue {settings.queue!r} have other versions than this program ({VERSION}): {names}"
                raise LaunchError(
                    fact, hint="Install the same version of codex-framework for the program and its workers."
                )
            opened = OpenDbos(database, table, settings, max_sessions)
        except BaseException:
            database.close()
            raise
        try:
            await opened.start_workers(workplace)
        except BaseException:
            await opened.aclose()
            raise
        return opened


class OpenDbos:
    """A connection to the queue.

    Args:
        max_sessions: How many jobs of this program may be unfinished at once.
    """

    def __init__(self, database: Database, table: JobTable, settings: DbosSettings, max_sessions: int | None) -> None:
        self._database = database
        self._table = table
        self._settings = settings
        self._free = None if max_sessions is None else asyncio.Semaphore(max_sessions)
        self._jobs: dict[str, _RunningJob] = {}
        self._closed = False
        self._workers: LocalWorkers | None = None
        self._watching = asyncio.create_task(self._watch())

    async def start_workers(self, workplace: Workplace) -> None:
        """Start the workers of this machine. Raises LaunchError if one does not start."""
        if self._settings.workers:
            self._workers = LocalWorkers(workplace, self._settings.workers, on_loss=self._release)
            await self._workers.start()

    async def start(self, job: Job) -> _RunningJob:
        """Put a job into the queue, as soon as there is room. Raises LaunchError."""
        thread_id_of(job.key)
        if not job.key.strip():
            raise LaunchError("the key has only spaces", slug="bad-request", hint="Give the job another key.")
        await self._wait_for_room()
        return await self._follow("start the job", lambda connection: self._table.start(connection, job))

    async def resume(self, key: str) -> _RunningJob:
        """Return a job of the database, and run it if it has ended but can continue. Raises LaunchError."""
        thread_id_of(key)
        return await self._follow("resume the job", lambda connection: self._table.resume(connection, key))

    async def aclose(self) -> None:
        """End the workers of this program. Other workers go on."""
        if self._closed:
            return
        self._closed = True
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        for job in self._jobs.values():
            fact = f"the launcher was closed before the job {job.key!r} ended"
            hint = "Open a launcher, and resume the job."
            job.fail(LaunchError(fact, slug="launcher-closed", hint=hint))
        if self._workers is not None:
            await self._workers.aclose()
        await asyncio.to_thread(self._database.close)

    async def run(self, what: str, function: Callable[[Connection], T]) -> T:
        """Call a function in a transaction. Raises LaunchError."""
        if self._closed:
            raise LaunchError("the launcher is closed", slug="launcher-closed", hint="Open it again.")
        return await self._database.run(what, function)

    async def _wait_for_room(self) -> None:
        while await self.run("look into the queue", self._table.count_waiting) >= self._settings.max_queued:  # noqa: ASYNC110  # the event is in a database
            await asyncio.sleep(self._settings.poll_s)

    async def _follow(self, what: str, find: Callable[[Connection], StoredJob]) -> _RunningJob:
        """Find a job in the database, and return its handle. It takes a place until it has ended."""
        if self._free is not None:
            await self._free.acquire()
        leave: Callable[[], object] = self._free.release if self._free is not None else bool
        try:

            def find_both(connection: Connection) -> tuple[StoredJob, int]:
                stored = find(connection)
                return stored, self._table.last_event(connection, stored.job.key)

            stored, newest = await self.run(what, find_both)
        except BaseException:
            leave()
            raise
        key = stored.job.key
        known = self._jobs.get(key)
        if known is not None and not known.has_ended():
            leave()
            return known
        running = _RunningJob(
            self, self._table, key, newest, attended=stored.job.attended, poll_s=self._settings.poll_s
        )
        running.on_end(leave)
        if stored.result is not None:
            running.end(stored.result)
        else:
            self._jobs[key] = running
        return running

    async def _watch(self) -> None:
        """Look for results. A database that is lost for too long fails all jobs, which go on when it answers."""
        warned_at = time.monotonic()
        while True:
            await asyncio.sleep(self._settings.poll_s)
            keys = list(self._jobs)
            if not keys:
                continue
            try:
                found = await self._database.run("read results", partial(self._table.results, keys=keys))
                if time.monotonic() > warned_at + _WARN_AFTER_S:
                    warned_at = time.monotonic()
                    await self._warn()
            except LaunchError as error:
                for key in keys:
                    self._jobs.pop(key).fail(error)
                continue
            for key, result in found.items():
                self._jobs.pop(key).end(result)

    async def _warn(self) -> None:
        """Warn if no worker can run the jobs."""
        workers = await self._database.run(
            "find workers", lambda c: self._table.live_workers(c, self._settings.lease_s)
        )
        if not any(version == VERSION for _, version in workers):
            others = ", ".join(f"{name} ({version})" for name, version in workers)
            logging.getLogger(__name__).warning(
                "%d jobs wait: the queue %r in %s has no worker with %s%s. Start one: codex-framework dbos-worker",
                len(self._jobs),
                self._settings.queue,
                self._database.address,
                VERSION,
                f", only {others}" if others else "",
            )

    async def _release(self, executor_id: str) -> None:
        await self._database.run("release jobs", lambda connection: self._table.release(connection, executor_id))


class _RunningJob:
    """A job in the database."""

    def __init__(
        self, opened: OpenDbos, table: JobTable, key: str, newest: int, *, attended: bool, poll_s: float
    ) -> None:
        self._opened = opened
        self._table = table
        self._key = key
        self._newest = newest
        self._attended = attended
        self._poll_s = poll_s
        self._result: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()

    @property
    def key(self) -> str:
        """The job's key."""
        return self._key

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events from now on. For a job that is attended: from the time when this program has found it."""
        newest = self._newest
        if not self.has_ended() and not self._attended:
            await self._opened.run("listen", lambda c: self._table.send(c, self._key, {"listen": True}))
        while True:
            is_last = self.has_ended()
            found = await self._opened.run("read events", partial(self._table.events, key=self._key, after=newest))
            for newest, raw in found:  # noqa: B007  # the next one is looked for after it
                for each in raw:
                    yield event_from_json(each)
            if is_last:
                return
            await asyncio.wait([self._result], timeout=self._poll_s)

    async def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of the session. Returns as soon as its worker has taken the answer, or the job has ended."""
        if self.has_ended():
            return False
        message = {"answer": answer_to_json(answer), "request_id": request_id}
        message_id = await self._opened.run("answer", lambda c: self._table.send(c, self._key, message))
        while True:
            is_last = self.has_ended()
            reply = await self._opened.run("answer", lambda c: self._table.reply(c, self._key, message_id))
            if reply is not None or is_last:
                return reply is True
            await asyncio.wait([self._result], timeout=self._poll_s)

    async def interrupt(self) -> None:
        """End the session's turn, or take the job out of the queue."""
        if not self.has_ended():
            await self._opened.run("interrupt", lambda c: self._table.interrupt(c, self._key))

    async def result(self) -> JobResult:
        """Wait for the result. Raises LaunchError if the launcher is closed, or the database is lost."""
        return await asyncio.shield(self._result)

    def has_ended(self) -> bool:
        """Return whether the job has a result, or nobody waits for it any more."""
        return self._result.done()

    def on_end(self, function: Callable[[], object]) -> None:
        """Have a function called at the end."""
        self._result.add_done_callback(lambda _: function())

    def end(self, result: JobResult) -> None:
        """Set the result."""
        if not self._result.done():
            self._result.set_result(result)

    def fail(self, error: LaunchError) -> None:
        """Set why there will be no result."""
        if not self._result.done():
            self._result.set_exception(error)
            self._result.exception()  # nobody may wait for it
