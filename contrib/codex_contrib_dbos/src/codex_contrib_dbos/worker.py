"""A worker: takes jobs out of the queue, and runs their sessions on a kernel."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from codex_contrib_dbos.codec import refuse_pickle
from codex_contrib_dbos.jobs import APPLICATION, EVENTS, VERSION, WORKFLOW, JobTable
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events import Event
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.launchers import Job, JobResult, LaunchError, Workplace
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import decode, encode, event_to_json, failure_of, thread_id_of
from codex_lib_launch.worker import Session, Worker, create_kernel

if TYPE_CHECKING:
    from codex_contrib_dbos.database import Database

__all__ = ["Leases", "run_worker"]

_MOST_UNSENT = 10_000
"""Events of a session that have not been written. While the database is away, older ones are lost."""


async def run_worker(
    workplace: Workplace, executor_id: str, stop: asyncio.Event, on_ready: Callable[[str], object]
) -> None:
    """Run the jobs of the queue until ``stop`` is set. Sessions that run then go back to the queue.

    Args:
        executor_id: Unique among all workers.
        on_ready: Called when the worker takes jobs, with the warnings of its configuration and a sentence for people.

    Raises:
        CodexError: The kernel cannot be created, or the database cannot be used.
    """
    from codex_contrib_dbos.database import Database
    from codex_contrib_dbos.launcher import DbosLauncher

    async with await create_kernel(workplace) as kernel:
        launcher = kernel.registry.launchers.get("dbos")
        if not isinstance(launcher, DbosLauncher):
            fact = "the plugin dbos is disabled or could not be loaded"
            raise LaunchError(fact, hint="Run codex-framework plugins list in this folder.")
        settings = launcher.settings
        database = Database(launcher.url, patience_s=settings.patience_s)
        await asyncio.to_thread(database.prepare)
        worker = _QueueWorker(database, Worker(kernel), executor_id, launcher)
        try:
            await worker.open()
            warnings = [f"warning: {_clean(text)}" for text in sorted(set(kernel.registry.warnings))]
            ready = f"The worker {worker.name} runs jobs of the queue {settings.queue!r} in {database.address}."
            on_ready("\n".join([*warnings, ready]))
            await worker.work(stop)
        finally:
            await worker.aclose()


def _clean(text: str) -> str:
    """Return a text for a terminal: what cannot be printed becomes a space."""
    return "".join(char if char.isprintable() else " " for char in text)


class Leases:
    """Finds the workers that were not heard of for a lease. The times of other machines are compared, never read."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._looked_at = float("-inf")
        self._silent_s: dict[tuple[str, float], float] = {}

    def find_ended(self, beats: Mapping[str, float], now: float) -> list[tuple[str, float]]:
        """Return the workers whose sign of life has not changed for a lease, each with that sign.

        Args:
            beats: The last sign of life of each worker.
            now: The time on this machine.
        """
        passed_s = min(now - self._looked_at, self._lease_s / 2)  # nobody can give a sign while the database is away
        self._looked_at = now
        known = self._silent_s
        self._silent_s = {beat: known[beat] + passed_s if beat in known else 0.0 for beat in beats.items()}
        return [beat for beat, silent_s in self._silent_s.items() if silent_s > self._lease_s]


class _Running:
    """A session that runs here.

    Attributes:
        task: What runs it.
        unsent: Events that are still to be written.
        seen: The messages that were handled.
    """

    def __init__(self, job: Job) -> None:
        self.session = Session(job, self._hear if job.attended else None)
        self.task = asyncio.current_task()
        self.unsent: list[Event] = []
        self.seen: set[str] = set()

    def listen(self) -> None:
        """Take the events from now on."""
        self.session.listen(self._hear)

    def _hear(self, event: Event) -> None:
        self.unsent.append(event)
        del self.unsent[:-_MOST_UNSENT]


class _QueueWorker:
    def __init__(self, database: Database, worker: Worker, executor_id: str, launcher: Any) -> None:
        self._database = database
        self._worker = worker
        self._executor_id = executor_id
        self._settings = launcher.settings
        self._table = JobTable(database, self._settings.queue)
        self._running: dict[str, _Running] = {}
        self._leases = Leases(self._settings.lease_s)
        self._beat_at = float("-inf")
        self._replying = asyncio.Lock()
        self._stopping = False

    @property
    def name(self) -> str:
        """The worker's name, for people."""
        return self._worker.name

    async def open(self) -> None:
        """Take jobs from now on. Raises LaunchError."""
        for name in [name for name in os.environ if name.startswith("DBOS_")]:
            del os.environ[name]  # they would connect this process to a service of DBOS
        from dbos import DBOS
        from dbos._serialization import DBOSPortableJSON

        refuse_pickle()
        settings = self._settings
        await self._database.run("open the queue", lambda c: self._table.beat(c, self._executor_id, self.name))
        await asyncio.to_thread(self._table.register_queue, concurrency=settings.concurrency, poll_s=settings.poll_s)
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": self._database.url,
                "sys_db_pool_size": 6,
                "serializer": DBOSPortableJSON,
                "application_version": VERSION,
                "executor_id": self._executor_id,
                "log_level": "WARNING",
                "enable_otlp": False,
                "run_migrations": False,
            }
        )
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(self._workflow())
        DBOS.listen_queues([settings.queue])
        DBOS.launch()  # from here, as it runs workflows in the event loop of the caller

    def _workflow(self) -> Callable[..., Any]:
        async def codex_session(job: str) -> str:
            from dbos import DBOS

            assert DBOS.workflow_id is not None
            return encode(await self._run(DBOS.workflow_id, job))

        return codex_session

    async def work(self, stop: asyncio.Event) -> None:
        """Serve the sessions until ``stop`` is set."""
        while not stop.is_set():
            try:
                await self._serve()
            except LaunchError as error:
                logging.getLogger(__name__).warning("%s. %s", error.fact, error.hint)
            try:
                await asyncio.wait_for(stop.wait(), self._settings.poll_s)
            except TimeoutError:
                continue

    async def aclose(self) -> None:
        """Give the sessions back to the queue."""
        from dbos import DBOS

        self._stopping = True
        logging.getLogger("dbos").setLevel(logging.ERROR)  # it warns of each session that is cancelled
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(DBOS.destroy)
        try:
            await asyncio.to_thread(
                self._database.run_once, "release jobs", lambda c: self._table.release(c, self._executor_id)
            )
        except LaunchError as error:  # the lease ends later
            logging.getLogger(__name__).warning("%s. %s", error.fact, error.hint)
        await asyncio.to_thread(self._database.close)

    # a session

    async def _run(self, key: str, text: str) -> JobResult:
        if self._stopping:
            raise asyncio.CancelledError
        before = self._running.get(key)
        if before is not None and before.task is not None:  # it was given to another worker in between
            before.task.cancel()
            await asyncio.wait([before.task])
        try:
            job = decode(Job, text)
        except CodexError as error:
            failure = failure_of(error)
            return JobResult(
                key=key, thread_id=thread_id_of(key), status=Status.FAILED, failure=failure, worker=self.name
            )
        running = self._running[key] = _Running(job)
        try:
            await self._take_messages([key])
            result = await self._worker.run(running.session)
            await self._send_events()
            if running.seen:
                async with self._replying:  # the reply to an answer that ended the session comes before the result
                    await self._database.run("end a job", lambda c: self._table.forget_messages(c, key))
            return result
        finally:
            if self._running.get(key) is running:
                del self._running[key]

    # all sessions

    async def _serve(self) -> None:
        """Look into the database, and write into it."""
        now = time.monotonic()
        if now > self._beat_at + self._settings.lease_s / 5:
            await self._database.run("beat", lambda c: self._table.beat(c, self._executor_id, self.name))
            self._beat_at = now
            await self._take_over()
        if self._running:
            await self._drop_lost()
            await self._take_messages(list(self._running))
            await self._send_events()

    async def _take_over(self) -> None:
        """Give the jobs of dead workers back to the queue."""
        beats = await self._database.run("find lost workers", self._table.beats)
        for executor_id, beat_at in self._leases.find_ended(beats, time.monotonic()):
            if executor_id != self._executor_id:
                count = await self._database.run(
                    "take over jobs",
                    partial(self._table.release, executor_id=executor_id, beat_at=beat_at),
                )
                logging.getLogger(__name__).warning("a worker was lost; %d of its jobs go on elsewhere", count)

    async def _drop_lost(self) -> None:
        """End the sessions that were cancelled, or given to another worker, which may have ended them already."""
        keys = list(self._running)
        statuses = await self._database.run("look for jobs", lambda c: self._table.statuses(c, keys))
        for key in keys:
            running = self._running.get(key)
            status, executor_id = statuses.get(key, ("CANCELLED", None))
            if running is None or running.task is None:
                continue
            if status == "CANCELLED":
                await running.session.interrupt()
            elif (status, executor_id) != ("PENDING", self._executor_id):
                running.task.cancel()

    async def _take_messages(self, keys: list[str]) -> None:
        async with self._replying:
            for key, message_id, message in await self._database.run(
                "read messages", lambda c: self._table.messages(c, keys)
            ):
                running = self._running.get(key)
                if running is not None and message_id not in running.seen:
                    running.seen.add(message_id)
                    await self._take(running, message_id, message)

    async def _take(self, running: _Running, message_id: str, message: Mapping[str, Any]) -> None:
        session = running.session
        if "listen" in message:
            running.listen()
        elif "interrupt" in message:
            await session.interrupt()
        elif "answer" in message:
            text = "true" if _answer(session, message) else "false"
            await self._database.run(
                "reply",
                partial(self._table.write_stream, key=session.job.key, stream=message_id, text=text),
            )

    async def _send_events(self) -> None:
        unsent = [(key, running) for key, running in self._running.items() if running.unsent]
        for key, running in unsent:
            events, running.unsent = running.unsent, []
            text = encode_json([event_to_json(event) for event in events])
            await self._database.run(
                "send events",
                partial(self._table.write_stream, key=key, stream=EVENTS, text=text),
            )


def _answer(session: Session, message: Any) -> bool:
    """Answer a request of a session. Return whether it was open and the answer fits."""
    try:
        return session.answer_json(str(message.get("request_id")), message["answer"])
    except CodexError as error:
        logging.getLogger(__name__).warning("%s. %s", error.fact, error.hint)
        return False
